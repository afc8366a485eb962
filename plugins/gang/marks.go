// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The keys that make a pod interesting to muster-server. What they mean is decided there; here they only tell
// which pods cost a message. tests/contract/marks.json is the same list, and both sides test against it.
var (
	annotationPrefixes = []string{"gang.scheduling.koordinator.sh/", "gang.muster.dev/"}
	labelPrefixes      = []string{"pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group", "gang.muster.dev/"}
	namespacePrefixes  = []string{"gang.muster.dev/"}
)

// marked says whether the pod carries any gang mark. It allocates nothing: it runs for every pod.
func marked(pod *v1.Pod) bool {
	return pod.Spec.SchedulingGroup != nil || anyMarked(pod.Annotations, annotationPrefixes) || anyMarked(pod.Labels, labelPrefixes)
}

func anyMarked(keys map[string]string, prefixes []string) bool {
	for key := range keys {
		if hasPrefix(key, prefixes) {
			return true
		}
	}
	return false
}

func hasPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// pick returns the marks among the keys, verbatim.
func pick(keys map[string]string, prefixes []string) map[string]string {
	var marks map[string]string
	for key, value := range keys {
		if hasPrefix(key, prefixes) {
			if marks == nil {
				marks = map[string]string{}
			}
			marks[key] = value
		}
	}
	return marks
}
