// SPDX-License-Identifier: Apache-2.0

//go:build failpoints

package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// With the build tag failpoints the scheduler kills itself at the extension point that the file named by
// MUSTER_FAILPOINT names ("before-Permit", "after-Bind", …). The file is removed first, so it happens once. Only the
// restart stories build it so.
func init() {
	beforeRun = func(sched *scheduler.Scheduler) {
		for name, inner := range sched.Profiles {
			sched.Profiles[name] = &failing{inner}
		}
	}
}

type failing struct{ framework.Framework }

func die(point string) {
	path := os.Getenv("MUSTER_FAILPOINT")
	wanted, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(wanted)) != point || os.Remove(path) != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (f *failing) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	die("before-PreFilter")
	defer die("after-PreFilter")
	return f.Framework.RunPreFilterPlugins(ctx, state, pod)
}

func (f *failing) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	die("before-PostFilter")
	defer die("after-PostFilter")
	return f.Framework.RunPostFilterPlugins(ctx, state, pod, nodes)
}

func (f *failing) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	die("before-Permit")
	defer die("after-Permit")
	return f.Framework.RunPermitPlugins(ctx, state, pod, node)
}

func (f *failing) WaitOnPermit(ctx context.Context, pod *v1.Pod) *fwk.Status {
	status := f.Framework.WaitOnPermit(ctx, pod)
	if status.IsSuccess() {
		die("after-quorum")
	}
	return status
}

func (f *failing) AddWaitingPod(pod *v1.Pod, waits map[string]time.Duration) {
	die("before-wait")
	defer die("after-wait")
	f.Framework.AddWaitingPod(pod, waits)
}

func (f *failing) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	die("before-Unreserve")
	defer die("after-Unreserve")
	f.Framework.RunReservePluginsUnreserve(ctx, state, pod, node)
}

func (f *failing) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	die("before-Bind")
	defer die("after-Bind")
	return f.Framework.RunBindPlugins(ctx, state, pod, node)
}
