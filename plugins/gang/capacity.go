// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"muster.dev/muster/plugins/pb"
)

// capacityInterval is the shortest time between two Capacity facts.
const capacityInterval = 500 * time.Millisecond

// sizing is what the server knows of the size of the cluster. stub.mu guards it.
type sizing struct {
	// sized counts the objects that name resources: the server asks for the size only because of these.
	sized int
	sent  *pb.Capacity
}

// countSized keeps the count. The size is told before the first object that needs it, so that the server never judges
// such an object without. The caller holds mu.
func (s *stub) countSized(before, after *pb.GangObject) {
	was := s.sizing.sized
	if len(before.GetMinResources()) > 0 {
		s.sizing.sized--
	}
	if len(after.GetMinResources()) > 0 {
		s.sizing.sized++
	}
	if was == 0 && s.sizing.sized > 0 {
		s.sizing.sent = nil
		s.tellCapacity()
	}
}

// sendCapacity is called now and then after nodes changed.
func (s *stub) sendCapacity() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellCapacity()
}

// tellCapacity sends the size of the cluster if somebody needs it and it is news. The caller holds mu.
func (s *stub) tellCapacity() {
	if s.sizing.sized == 0 {
		return
	}
	size := sizeOf(s.nodes())
	if !proto.Equal(s.sizing.sent, size) {
		s.sizing.sent = size
		s.client.Send(capacityFact(size))
	}
}

func capacityFact(size *pb.Capacity) *pb.Fact {
	return &pb.Fact{Fact: &pb.Fact_Capacity{Capacity: size}}
}

// sizeOf adds up what the nodes offer, except those that are cordoned.
func sizeOf(nodes []*v1.Node) *pb.Capacity {
	sum := map[string]int64{}
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			continue
		}
		for name, amount := range node.Status.Allocatable {
			if n := thousandths(amount); n > math.MaxInt64-sum[string(name)] {
				sum[string(name)] = math.MaxInt64
			} else {
				sum[string(name)] += n
			}
		}
	}
	return &pb.Capacity{Allocatable: sum}
}

// mayChangeSize says whether the change of a node changes what the cluster offers in all.
func mayChangeSize(before, after *v1.Node) bool {
	return before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}
