// SPDX-License-Identifier: Apache-2.0

package gang

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"

	"muster.dev/muster/plugins/pb"
)

// slim is what the server needs of a pod, and no more.
func slim(pod *v1.Pod) *pb.Pod {
	message := &pb.Pod{
		Uid:           string(pod.UID),
		Namespace:     pod.Namespace,
		Name:          pod.Name,
		CreatedUnixNs: pod.CreationTimestamp.UnixNano(),
		Priority:      corev1.PodPriority(pod),
		Annotations:   pick(pod.Annotations, annotationPrefixes),
		Labels:        pick(pod.Labels, labelPrefixes),
		NodeName:      pod.Spec.NodeName,
		Gated:         len(pod.Spec.SchedulingGates) > 0,
		Deleting:      pod.DeletionTimestamp != nil,
		NominatedNode: pod.Status.NominatedNodeName,
	}
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		message.SchedulingGroup = *group.PodGroupName
	}
	return message
}

func podFact(pod *pb.Pod) *pb.Fact { return &pb.Fact{Fact: &pb.Fact_Pod{Pod: pod}} }

func goneFact(uid string) *pb.Fact {
	return &pb.Fact{Fact: &pb.Fact_PodGone{PodGone: &pb.PodGone{Uid: uid}}}
}

func roomFact() *pb.Fact { return &pb.Fact{Fact: &pb.Fact_Room{Room: &pb.Room{}}} }

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
