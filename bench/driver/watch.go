// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// watcher notes when pods are bound: one raw watch without a cache, the least a client can do.
type watcher struct {
	client    kubernetes.Interface
	namespace string
	prefix    string
	bound     []int64
	missing   int
	stream    watch.Interface
}

func newWatcher(client kubernetes.Interface, namespace, prefix string, total int) *watcher {
	w := &watcher{client: client, namespace: namespace, prefix: prefix + "-", bound: make([]int64, total), missing: total}
	for i := range w.bound {
		w.bound[i] = -1
	}
	return w
}

// open starts the watch, from what exists now.
func (w *watcher) open(ctx context.Context) error {
	stream, err := w.client.CoreV1().Pods(w.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	w.stream = stream
	return nil
}

// run returns when all pods are bound or ctx is done.
func (w *watcher) run(ctx context.Context, start time.Time) {
	for w.missing > 0 && ctx.Err() == nil {
		for event := range w.stream.ResultChan() {
			if pod, ok := event.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
				w.note(pod.Name, int64(time.Since(start)))
			}
			if w.missing == 0 {
				w.stream.Stop()
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		// The API server ended the watch. A new one begins with what exists, so nothing is lost.
		if err := w.open(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			time.Sleep(100 * time.Millisecond)
			w.stream = watch.NewEmptyWatch()
		}
	}
}

func (w *watcher) note(name string, at int64) {
	number, ours := strings.CutPrefix(name, w.prefix)
	if !ours {
		return
	}
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(w.bound) || w.bound[i] >= 0 {
		return
	}
	w.bound[i] = at
	w.missing--
}
