// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// rehearsalKey marks a cycle that only tries out: our own PreFilter must not spend a try on it.
const rehearsalKey fwk.StateKey = Name + "/rehearsal"

type rehearsal struct{}

func (r rehearsal) Clone() fwk.StateData { return r }

func rehearsed(state fwk.CycleState) bool {
	_, err := state.Read(rehearsalKey)
	return err == nil
}

// wholeWith tells whether pod and the members named would all find a node, were every pod of lower priority gone. It
// answers a question of the server's: is there any point in evicting for this gang? With nobody to name it is yes:
// the plugins behind ours see for themselves.
func (s *stub) wholeWith(ctx context.Context, pod *v1.Pod, others []string) bool {
	if len(others) == 0 {
		return true
	}
	pods := []*v1.Pod{pod}
	s.mu.Lock()
	for _, uid := range others {
		if m := s.members[types.UID(uid)]; m != nil {
			pods = append(pods, m.pod)
		}
	}
	s.mu.Unlock()
	if len(pods) != len(others)+1 {
		return false // one of them is gone; the server learns that too
	}
	rooms := s.roomsWithoutLower(ctx, pods)
	start := 0
	for _, each := range pods {
		if start = s.place(ctx, each, rooms, start); start < 0 {
			return false
		}
	}
	return true
}

// roomsWithoutLower copies the nodes and leaves out the pods of lower priority than all of these; nil if there are
// none, for then an eviction cannot help.
func (s *stub) roomsWithoutLower(ctx context.Context, pods []*v1.Pod) []fwk.NodeInfo {
	lowest := corev1helpers.PodPriority(pods[0])
	for _, pod := range pods {
		lowest = min(lowest, corev1helpers.PodPriority(pod))
		if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
			return nil
		}
	}
	nodes, err := s.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil || !anyLower(nodes, lowest) {
		return nil
	}
	logger := klog.FromContext(ctx)
	rooms := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		room := node.Snapshot()
		for _, info := range node.GetPods() {
			if corev1helpers.PodPriority(info.GetPod()) < lowest {
				if err := room.RemovePod(logger, info.GetPod()); err != nil {
					return nil
				}
			}
		}
		rooms = append(rooms, room)
	}
	return rooms
}

// anyLower is asked before anything is copied: where all pods have one priority, and that is most clusters, a gang
// that does not fit must not cost a copy of every node each time it is tried.
func anyLower(nodes []fwk.NodeInfo, priority int32) bool {
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if corev1helpers.PodPriority(info.GetPod()) < priority {
				return true
			}
		}
	}
	return false
}

// place puts the pod onto the first node that takes it, beginning at start, and returns that node's index; -1 if none
// does. The filters see the nodes as copied, but what their PreFilter counted over the whole cluster is as of now.
func (s *stub) place(ctx context.Context, pod *v1.Pod, rooms []fwk.NodeInfo, start int) int {
	profile := s.frameworks[pod.Spec.SchedulerName]
	if profile == nil || len(rooms) == 0 {
		return -1
	}
	state := framework.NewCycleState()
	state.Write(rehearsalKey, rehearsal{})
	narrowed, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	info, err := framework.NewPodInfo(pod)
	if !status.IsSuccess() || err != nil {
		return -1
	}
	for i := range rooms {
		at := (start + i) % len(rooms)
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(rooms[at].Node().Name) {
			continue
		}
		if profile.RunFilterPlugins(ctx, state, pod, rooms[at]).IsSuccess() {
			rooms[at].AddPodInfo(info)
			return at
		}
	}
	return -1
}
