// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
)

// Permit makes a member wait with its room on the node until the server allows or rejects it.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if !marked(pod) {
		return nil, 0
	}
	s := p.stub
	request := &pb.PermitRequest{Uid: string(pod.UID), NodeName: node}
	fact := &pb.Fact{Fact: &pb.Fact_Permit{Permit: request}}
	start := time.Now()

	// Under one lock, so that the opening of a new session has either the wait or the message, never both. The wait is
	// noted before the message goes out: what the server orders in answer must find it.
	s.mu.Lock()
	leave, wait, reason := s.table.permit(pod.UID)
	switch leave {
	case leaveFree:
		request.Went = true
		s.waits[pod.UID] = &waiter{phase: binding, since: start}
		s.tellLocked(metrics.Permit, fact, s.client.Send)
		s.mu.Unlock()
		return nil, 0
	case leaveQuiet, leaveLast:
		send := s.client.Send
		if leave == leaveLast {
			send = s.client.SendNow // it may complete the quorum
		}
		sent := s.tellLocked(metrics.Permit, fact, send)
		if sent {
			s.waits[pod.UID] = &waiter{phase: waiting, since: start, limit: wait}
		}
		s.mu.Unlock()
		if !sent {
			return refusePermit(reasonDisconnected), 0
		}
		klog.FromContext(ctx).V(4).Info("Gang member waits", "pod", klog.KObj(pod), "node", node)
		return fwk.NewStatus(fwk.Wait), wait
	case leaveAsk:
		s.waits[pod.UID] = &waiter{phase: waiting, since: start, limit: wait}
		call, err := s.client.Ask(func(id uint64) *pb.SchedulerFrame {
			request.CallId = id
			return &pb.SchedulerFrame{Body: &pb.SchedulerFrame_Permit{Permit: request}}
		})
		s.mu.Unlock()
		reply, err := s.await(ctx, metrics.Permit, start, call, err)
		if err != nil {
			return s.permitUnanswered(pod, s.reasonOf(err, metrics.Permit))
		}
		return s.permitAnswered(ctx, pod, reply.GetPermit(), wait)
	}
	s.mu.Unlock()
	return refusePermit(reason), 0
}

// permitAnswered does what the reply says.
func (s *stub) permitAnswered(ctx context.Context, pod *v1.Pod, reply *pb.PermitReply, wait time.Duration) (*fwk.Status, time.Duration) {
	klog.FromContext(ctx).V(4).Info("Permit was answered", "pod", klog.KObj(pod), "verdict", reply.GetVerdict())
	switch reply.GetVerdict() {
	case pb.Verdict_VERDICT_PASS:
		metrics.Calls.WithLabelValues(metrics.Permit, metrics.Pass).Inc()
		if reason := s.commit(reply.GetAllow(), pod.UID); reason != "" {
			return refusePermit(reason), 0
		}
		return nil, 0
	case pb.Verdict_VERDICT_WAIT:
		metrics.Calls.WithLabelValues(metrics.Permit, metrics.Wait).Inc()
		return fwk.NewStatus(fwk.Wait), wait
	}
	metrics.Calls.WithLabelValues(metrics.Permit, metrics.Refuse).Inc()
	s.mu.Lock()
	delete(s.waits, pod.UID)
	s.mu.Unlock()
	return refusePermit(clean(reply.GetReason())), 0
}

// permitUnanswered refuses the pod. The framework then calls Unreserve, from which the server learns it. Should an
// Allow have come in the meantime, the pod is part of a commit that was reported as done, so it goes.
func (s *stub) permitUnanswered(pod *v1.Pod, reason string) (*fwk.Status, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waits[pod.UID]; w != nil && w.phase == binding {
		return nil, 0
	}
	delete(s.waits, pod.UID)
	return refusePermit(reason), 0
}

func refusePermit(reason string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason) }

// Reserve does nothing; the framework wants it beside Unreserve.
func (p *Plugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Unreserve tells the server that a member gave its room back: its wait ended, or its bind failed.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if !marked(pod) || state.IsPodGroupSchedulingCycle() {
		// In a cycle of a native pod group nothing was reserved: it is a simulation that is being taken back.
		return
	}
	s := p.stub
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, pod.UID)
	s.tellLocked(metrics.Unreserve, &pb.Fact{Fact: &pb.Fact_Unreserve{
		Unreserve: &pb.UnreserveRequest{Uid: string(pod.UID), NodeName: node},
	}}, s.client.Send)
}
