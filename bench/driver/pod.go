// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod returns pod i of the plan. Its name ends with its number, from which the watcher knows it.
func (p *plan) pod(i int) *v1.Pod {
	gang := fmt.Sprintf("%s-g%d", p.Prefix, i/p.Size)
	no := false
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", p.Prefix, i),
			Labels:      p.filled(p.Labels, gang),
			Annotations: p.filled(p.Annotations, gang),
		},
		Spec: v1.PodSpec{
			SchedulerName:                p.Scheduler,
			NodeSelector:                 p.NodeSelector,
			AutomountServiceAccountToken: &no,
			Containers: []v1.Container{{
				Name:  "work",
				Image: "registry.k8s.io/pause:3.10",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU:    resource.MustParse("100m"),
					v1.ResourceMemory: resource.MustParse("100Mi"),
				}},
			}},
			// The nodes have no kubelet and therefore carry a taint; see bench/lab.py.
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
		},
	}
}

func (p *plan) filled(values map[string]string, gang string) map[string]string {
	fill := strings.NewReplacer("{gang}", gang, "{size}", strconv.Itoa(p.Size))
	out := make(map[string]string, len(values))
	for key, value := range values {
		out[key] = fill.Replace(value)
	}
	return out
}
