// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
)

// phase is where a member stands after its Permit.
type phase int

const (
	// waiting: Permit said Wait, or is being asked.
	waiting phase = iota
	// binding: it was allowed.
	binding
	// rejected: its Unreserve is under way.
	rejected
)

// waiter is a member between Permit and either Unreserve or the news that it is bound. stub.mu guards it.
type waiter struct {
	phase phase
	since time.Time
	// limit is the framework's timer.
	limit time.Duration
	// registered says that the framework's AddWaitingPod has run. Before that the framework does not know the pod as
	// waiting, and what the server orders is only noted in phase; AddWaitingPod then catches up.
	registered bool
	// reason goes with rejected.
	reason string
}

// stillWaits says whether the pod waits at Permit, or is about to. A pod that is being deleted does not count: the
// framework rejects it, and for a moment it looks as if it waited.
func (s *stub) stillWaits(uid types.UID) bool {
	w := s.waits[uid]
	if w == nil || w.phase != waiting {
		return false
	}
	if m := s.members[uid]; m == nil || m.pod.DeletionTimestamp != nil {
		return false
	}
	return !w.registered || s.handle.GetWaitingPod(uid) != nil
}

// allow lets a pod go that waits. If the framework does not know it yet, AddWaitingPod will.
func (s *stub) allow(uid types.UID) {
	w := s.waits[uid]
	if w == nil || w.phase != waiting {
		return
	}
	w.phase = binding
	if wp := s.handle.GetWaitingPod(uid); wp != nil {
		wp.Allow(Name)
	}
}

// reject ends the wait of a pod, if it waits.
func (s *stub) reject(uid types.UID, reason string) {
	w := s.waits[uid]
	if w == nil || w.phase != waiting {
		return
	}
	w.phase, w.reason = rejected, reason
	if wp := s.handle.GetWaitingPod(uid); wp != nil {
		wp.Reject(Name, reason)
	}
}

// commit carries an Allow out in two steps: if every pod still waits, all go; else none does. It reports the outcome
// and returns "" or why nothing was allowed. asking is the pod whose Permit the Allow answers, or "": it goes with
// the others, but the framework does not know it as waiting.
func (s *stub) commit(allow *pb.Allow, asking types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, uid := range allow.GetUids() {
		if types.UID(uid) != asking && !s.stillWaits(types.UID(uid)) {
			missing = append(missing, uid)
		}
	}
	if len(missing) > 0 {
		return s.abort(allow, missing, asking)
	}
	for _, uid := range allow.GetUids() {
		if types.UID(uid) != asking {
			s.allow(types.UID(uid))
		}
	}
	if w := s.waits[asking]; w != nil {
		w.phase = binding
	}
	s.report(allow, nil)
	return ""
}

// abort rejects whoever of a commit still waits.
func (s *stub) abort(allow *pb.Allow, missing []string, asking types.UID) string {
	reason := fmt.Sprintf("the gang's quorum was not complete any more: %d of its pods no longer waited", len(missing))
	for _, uid := range allow.GetUids() {
		if types.UID(uid) != asking {
			s.reject(types.UID(uid), reason)
		}
	}
	delete(s.waits, asking)
	s.report(allow, missing)
	return reason
}

// report tells what became of an Allow, at once: the server holds the group until it knows.
func (s *stub) report(allow *pb.Allow, missing []string) {
	if allow != nil {
		s.client.SendNow(&pb.Fact{Fact: &pb.Fact_CommitReport{
			CommitReport: &pb.CommitReport{Commit: allow.GetCommit(), Missing: missing},
		}})
	}
}

// Late takes the reply to a call that was given up. Only a Permit that passed ordered anything: its pod is not there
// any more, so the commit it was to complete is missing one.
func (s *stub) Late(request *pb.SchedulerFrame, reply *pb.ServerFrame) {
	permit := reply.GetPermit()
	if permit.GetVerdict() != pb.Verdict_VERDICT_PASS || permit.GetAllow() == nil {
		return
	}
	metrics.Directives.WithLabelValues("late").Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abort(permit.GetAllow(), []string{request.GetPermit().GetUid()}, "")
}

// timer returns the wait that Permit wanted for the pod.
func (s *stub) timer(uid types.UID) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[uid]
	if w == nil {
		return 0, false
	}
	return w.limit, true
}

// register is called when the framework knows the pod as waiting, and carries out what was ordered before that.
func (s *stub) register(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[uid]
	if w == nil {
		return
	}
	w.registered = true
	wp := s.handle.GetWaitingPod(uid)
	if wp == nil {
		return
	}
	switch w.phase {
	case binding:
		wp.Allow(Name)
	case rejected:
		wp.Reject(Name, w.reason)
	}
}
