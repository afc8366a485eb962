// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
)

// Directives carries out what the server orders, in order. Uids that are not known, or not in the state that a
// directive speaks of, are passed over.
func (s *stub) Directives(frame *pb.Directives) error {
	// Whoever was admitted is woken at the end, all in one go: Activate takes the queue's lock each time, and what a later
	// directive of the frame holds again is then not even tried.
	awake := map[string]*v1.Pod{}
	defer func() {
		if len(awake) > 0 {
			s.handle.Activate(s.logger, awake)
		}
	}()
	for _, directive := range frame.GetDirectives() {
		switch d := directive.GetDirective().(type) {
		case *pb.Directive_Admit:
			metrics.Directives.WithLabelValues("admit").Inc()
			s.admit(d.Admit, awake)
		case *pb.Directive_Hold:
			metrics.Directives.WithLabelValues("hold").Inc()
			s.table.hold(d.Hold.GetUids(), clean(d.Hold.GetReason()))
		case *pb.Directive_Allow:
			metrics.Directives.WithLabelValues("allow").Inc()
			reason := s.commit(d.Allow, "")
			s.logger.V(4).Info("Commit", "commit", d.Allow.GetCommit(), "pods", len(d.Allow.GetUids()), "refused", reason)
		case *pb.Directive_Reject:
			metrics.Directives.WithLabelValues("reject").Inc()
			s.rejectAll(d.Reject)
		default:
			return fmt.Errorf("a directive of no known kind: %T", d)
		}
	}
	return nil
}

// admit stores the admission and adds those that may be asleep to awake.
func (s *stub) admit(a *pb.Admit, awake map[string]*v1.Pod) {
	admitted := s.table.admit(a)
	s.logger.V(4).Info("Admitted", "group", truncate(a.GetGroup(), maxText), "cycle", a.GetCycle(), "pods", len(admitted), "free", a.GetFree())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range admitted {
		if m := s.members[uid]; m != nil && m.unbound() {
			awake[podName(m.pod)] = m.pod
		}
	}
}

func (s *stub) rejectAll(r *pb.Reject) {
	reason := clean(r.GetReason())
	s.logger.V(4).Info("Rejected", "pods", len(r.GetUids()), "reason", reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uid := range r.GetUids() {
		s.reject(types.UID(uid), reason)
	}
}
