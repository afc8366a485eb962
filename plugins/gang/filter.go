// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
	"muster.dev/muster/plugins/session"
)

// refusedKey marks a scheduling cycle in which our PreFilter refused the pod.
const refusedKey fwk.StateKey = Name + "/refused"

type refused struct{}

func (r refused) Clone() fwk.StateData { return r }

// PreFilter lets a member pass once for each Admit, and asks the server after that.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !marked(pod) || rehearsed(state) {
		return nil, nil
	}
	leave, reason := p.stub.table.preFilter(pod.UID)
	if leave == leaveAsk {
		reason = p.stub.askPreFilter(ctx, pod)
	}
	if reason == "" {
		return nil, nil
	}
	state.Write(refusedKey, refused{})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// PreFilterExtensions returns nil: our PreFilter does not depend on the pods of a node.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// askPreFilter returns "" or why the pod is refused.
func (s *stub) askPreFilter(ctx context.Context, pod *v1.Pod) string {
	uid := string(pod.UID)
	reply, err := s.ask(ctx, metrics.PreFilter, func(id uint64) *pb.SchedulerFrame {
		return &pb.SchedulerFrame{Body: &pb.SchedulerFrame_PreFilter{PreFilter: &pb.PreFilterRequest{CallId: id, Uid: uid}}}
	})
	if err != nil {
		reason := s.reasonOf(err, metrics.PreFilter)
		if errors.Is(err, session.ErrTimeout) {
			// The server may still say yes and then wait for this try to end, so tell it that it has.
			s.tellPostFilter(&pb.PostFilterRequest{Uid: uid, Message: reason})
		}
		return reason
	}
	if reply.GetPreFilter().GetPass() {
		metrics.Calls.WithLabelValues(metrics.PreFilter, metrics.Pass).Inc()
		return ""
	}
	metrics.Calls.WithLabelValues(metrics.PreFilter, metrics.Refuse).Inc()
	return clean(reply.GetPreFilter().GetReason())
}

// PostFilter tells the server that a member found no node and keeps the plugins behind ours, preemption above all,
// from acting unless the server agrees.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if !marked(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if _, err := state.Read(refusedKey); err == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	s := p.stub
	request := &pb.PostFilterRequest{Uid: string(pod.UID), Message: s.whyNoNode(pod, nodes)}
	if s.table.postFilter(pod.UID) == leaveFree {
		s.tellPostFilter(request)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	reply, err := s.ask(ctx, metrics.PostFilter, func(id uint64) *pb.SchedulerFrame {
		request.CallId = id
		return &pb.SchedulerFrame{Body: &pb.SchedulerFrame_PostFilter{PostFilter: request}}
	})
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.reasonOf(err, metrics.PostFilter))
	}
	if answer := reply.GetPostFilter(); answer.GetMayPreempt() && s.wholeWith(ctx, pod, answer.GetWholeWith()) {
		metrics.Calls.WithLabelValues(metrics.PostFilter, metrics.Pass).Inc()
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	metrics.Calls.WithLabelValues(metrics.PostFilter, metrics.Refuse).Inc()
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, clean(reply.GetPostFilter().GetReason()))
}

// whyNoNode is the text a user would read in the pod's event: "0/4 nodes are available: 4 Insufficient cpu."
func (s *stub) whyNoNode(pod *v1.Pod, nodes fwk.NodeToStatusReader) string {
	statuses, ok := nodes.(*framework.NodeToStatus)
	if !ok || statuses == nil {
		return "no node is available"
	}
	total := statuses.Len()
	if lister := s.handle.SnapshotSharedLister(); lister != nil {
		if all, err := lister.NodeInfos().List(); err == nil {
			total = len(all)
		}
	}
	fit := framework.FitError{Pod: pod, NumAllNodes: total, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
	return truncate(fit.Error(), maxText)
}

// SignPod signs every pod with nothing: our PreFilter never narrows the nodes, so it makes no two pods differ. An
// empty answer leaves batching on; a plugin without SignPod would switch it off for the whole profile.
func (p *Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}

// ask makes a round trip. On an error it has counted the result; else the caller does.
func (s *stub) ask(ctx context.Context, point string, build func(id uint64) *pb.SchedulerFrame) (*pb.ServerFrame, error) {
	start := time.Now()
	s.mu.Lock()
	call, err := s.client.Ask(build)
	s.mu.Unlock()
	return s.await(ctx, point, start, call, err)
}

// await is the second half of ask, for a caller that had more to do under the lock.
func (s *stub) await(ctx context.Context, point string, start time.Time, call *session.Call, err error) (*pb.ServerFrame, error) {
	var reply *pb.ServerFrame
	if err == nil {
		reply, err = call.Wait(ctx, s.callTimeout)
		metrics.CallDuration.WithLabelValues(point).Observe(time.Since(start).Seconds())
	}
	switch {
	case errors.Is(err, session.ErrTimeout):
		metrics.Calls.WithLabelValues(point, metrics.Timeout).Inc()
	case err != nil:
		metrics.Calls.WithLabelValues(point, metrics.Disconnected).Inc()
	}
	return reply, err
}

func (s *stub) tellPostFilter(request *pb.PostFilterRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked(metrics.PostFilter, &pb.Fact{Fact: &pb.Fact_PostFilter{PostFilter: request}}, s.client.Send)
}

// tellLocked sends as a fact what happened at an extension point. The caller holds mu.
func (s *stub) tellLocked(point string, fact *pb.Fact, send func(*pb.Fact) bool) bool {
	if !send(fact) {
		return false
	}
	metrics.Calls.WithLabelValues(point, metrics.Quiet).Inc()
	return true
}

func (s *stub) reasonOf(err error, point string) string {
	if errors.Is(err, session.ErrTimeout) {
		return reasonTimeout(point, s.callTimeout)
	}
	return reasonDisconnected
}
