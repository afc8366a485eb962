// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
)

// roomInterval is the shortest time between two Room facts.
const roomInterval = 100 * time.Millisecond

// roomAppeared is called for each event after which a pod may fit that did not. Nobody is told while no member wants
// room.
func (s *stub) roomAppeared() {
	if s.unbound.Load() > 0 {
		s.room.poke()
	}
}

func (s *stub) sendRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unbound.Load() > 0 {
		s.client.Send(roomFact())
	}
}

func (s *stub) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			s.capacity.poke()
			s.roomAppeared()
		},
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*v1.Node)
			after, _ := obj.(*v1.Node)
			if before == nil || after == nil {
				return
			}
			if mayChangeSize(before, after) {
				s.capacity.poke()
			}
			if mayMakeRoom(before, after) {
				s.roomAppeared()
			}
		},
		DeleteFunc: func(any) { s.capacity.poke() },
	}
}

// mayMakeRoom says whether the change of a node may let a pod fit that did not. Heartbeats, the bulk of all node
// updates, do not.
func mayMakeRoom(before, after *v1.Node) bool {
	return before.Spec.Unschedulable && !after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) ||
		!apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}
