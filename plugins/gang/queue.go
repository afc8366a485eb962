// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

// sortKey is the queue order of an entity as plain values. Keys are compared field by field, so any mixture of
// gang members, plain pods and entities without a pod has one strict weak order.
type sortKey struct {
	priority int32
	created  int64
	gang     string
	index    int64
}

// keyOf returns nil for nil. The gang's name is copied: a key outlives the frame it came in.
func keyOf(key *pb.SortKey) *sortKey {
	if key == nil {
		return nil
	}
	return &sortKey{
		priority: key.GetPriority(),
		created:  key.GetCreatedUnixNs(),
		gang:     strings.Clone(truncate(key.GetGang(), maxText)),
		index:    key.GetIndex(),
	}
}

func (a *sortKey) compare(b *sortKey) int {
	return cmp.Or(
		cmp.Compare(b.priority, a.priority), // higher first
		cmp.Compare(a.created, b.created),
		strings.Compare(a.gang, b.gang),
		cmp.Compare(a.index, b.index),
	)
}

// Less orders the scheduling queue. It runs under the queue's lock, some 18 times a pod, so it compares what
// Admit brought and sends nothing.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	ka, kb := p.stub.sortKey(a), p.stub.sortKey(b)
	if c := ka.compare(&kb); c != 0 {
		return c < 0
	}
	if a == nil || b == nil {
		return false
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// sortKey returns the server's key for a gang member, and priority and creation time for a plain pod and for
// a member without a key; PreEnqueue keeps the latter out of the queue.
func (s *stub) sortKey(entity fwk.QueuedEntityInfo) sortKey {
	if entity == nil {
		return sortKey{}
	}
	info, isPod := entity.(*framework.QueuedPodInfo)
	if !isPod {
		// A group of the native API, which has no pod of its own. Its time in the queue stands in for its creation.
		return sortKey{priority: entity.GetPriority(), created: entity.GetTimestamp().UnixNano()}
	}
	if info == nil || info.PodInfo == nil || info.Pod == nil {
		return sortKey{}
	}
	if key := s.table.key(info.Pod.UID); key != nil {
		return *key
	}
	return podKey(info.Pod)
}

func podKey(pod *v1.Pod) sortKey {
	return sortKey{priority: corev1.PodPriority(pod), created: pod.CreationTimestamp.UnixNano()}
}

// PreEnqueue keeps a gang member out of the queue until the server admits it.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if !marked(pod) {
		return nil
	}
	if reason := p.stub.table.heldBecause(pod.UID); reason != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}

// EventsToRegister returns nothing on purpose. No event of the cluster tells whether a gang may be tried again;
// the server hears the facts, decides, and Admit wakes the members through Activate, which needs no registration.
// With an empty list the queue has no hint under our name, so neither a gated member nor one that we refused moves
// by itself, and a busy cluster does not run hints for it. Without this method every event would wake every one.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}
