// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/internal/fakeserver"
	"muster.dev/muster/plugins/pb"
	"muster.dev/muster/plugins/session"
)

const profileName = "muster-scheduler"

// fakeHandle is as much of the framework as the plugin uses.
type fakeHandle struct {
	fwk.Handle // everything else panics
	mu         sync.Mutex
	waiting    map[types.UID]*fakeWaitingPod
	activated  chan []string
}

func newHandle() *fakeHandle {
	return &fakeHandle{waiting: map[types.UID]*fakeWaitingPod{}, activated: make(chan []string, 1024)}
}

func (h *fakeHandle) ProfileName() string                    { return profileName }
func (h *fakeHandle) SnapshotSharedLister() fwk.SharedLister { return nil }

func (h *fakeHandle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wp, ok := h.waiting[uid]; ok {
		return wp
	}
	return nil
}

func (h *fakeHandle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	var names []string
	for name := range pods {
		names = append(names, name)
	}
	h.activated <- names
}

// leave takes a pod off the framework's list, as when it was preempted or its timer fired.
func (h *fakeHandle) leave(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, uid)
}

type fakeWaitingPod struct {
	fwk.WaitingPod
	outcome chan string // "allowed" or the reason of the rejection
}

func (w *fakeWaitingPod) Allow(plugin string) {
	if plugin == Name {
		w.outcome <- "allowed"
	}
}

func (w *fakeWaitingPod) Reject(plugin, reason string) bool {
	if plugin == Name {
		w.outcome <- reason
	}
	return true
}

// fakeFramework is the part of a profile that the wrapper stands before.
type fakeFramework struct {
	framework.Framework
	handle *fakeHandle
	timers map[string]time.Duration
}

func (f *fakeFramework) AddWaitingPod(pod *v1.Pod, timers map[string]time.Duration) {
	f.handle.mu.Lock()
	defer f.handle.mu.Unlock()
	f.timers = timers
	f.handle.waiting[pod.UID] = &fakeWaitingPod{outcome: make(chan string, 16)}
}

// fixture is a plugin with a session to a scripted server.
type fixture struct {
	*testing.T
	plugin  *Plugin
	stub    *stub
	handle  *fakeHandle
	profile *profileWrapper
	inner   *fakeFramework
	server  *fakeserver.Server
	session *fakeserver.Session
	unread  []*pb.Fact // of the last frame, that were not looked at yet
}

func disconnected(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, handle: newHandle(), server: fakeserver.Start(t)}
	args := &MusterArgs{Server: f.server.Address, CallTimeout: metav1.Duration{Duration: 2 * time.Second}}
	f.stub = newStub(args, klog.Background(), f.handle)
	f.stub.profiles.Insert(profileName)
	f.plugin = &Plugin{stub: f.stub}
	f.inner = &fakeFramework{handle: f.handle}
	f.profile = &profileWrapper{Framework: f.inner, stub: f.stub}
	return f
}

// connected starts with these members.
func connected(t *testing.T, pods ...*v1.Pod) *fixture {
	t.Helper()
	f := disconnected(t)
	f.run(pods...)
	return f
}

// patient is connected and holds facts back until something makes it send them.
func patient(t *testing.T, pods ...*v1.Pod) *fixture {
	t.Helper()
	f := disconnected(t)
	f.stub.client = session.New(session.Config{Server: f.server.Address, Window: time.Hour}, f.stub)
	f.run(pods...)
	return f
}

func (f *fixture) run(pods ...*v1.Pod) {
	f.Helper()
	for _, pod := range pods {
		f.stub.podSeen(nil, pod)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.stub.client.Run(ctx) }()
	f.Cleanup(func() { cancel(); <-done })
	f.accept()
}

func (f *fixture) accept() []*pb.Fact {
	f.Helper()
	accepted, _, facts := f.server.Accept(f)
	f.session, f.unread = accepted, nil
	f.until(f.stub.client.Connected)
	return facts
}

func (f *fixture) until(condition func() bool) {
	f.Helper()
	for range 500 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Fatal("it did not happen")
}

// admit sends an Admit and waits until the members are woken.
func (f *fixture) admit(quiet uint32, pods ...*v1.Pod) {
	f.Helper()
	f.session.Direct(f, admitOf(quiet, pods...))
	f.woken(len(pods))
}

func (f *fixture) woken(n int) {
	f.Helper()
	select {
	case names := <-f.handle.activated:
		if len(names) != n {
			f.Fatalf("woken are %v, want %d", names, n)
		}
	case <-time.After(5 * time.Second):
		f.Fatal("nobody was woken")
	}
}

// settled makes sure that what was sent before has been applied.
func (f *fixture) settled(pod *v1.Pod) {
	f.Helper()
	f.session.Direct(f, admitOf(0, pod))
	f.woken(1)
}

func admitOf(quiet uint32, pods ...*v1.Pod) *pb.Directive {
	a := &pb.Admit{Group: "g", Cycle: 1, QuietPermits: quiet, WaitMs: 3600_000}
	for i, pod := range pods {
		a.Members = append(a.Members, &pb.Admission{Uid: string(pod.UID), Key: &pb.SortKey{Gang: "ns/g", Index: int64(i)}})
	}
	return &pb.Directive{Directive: &pb.Directive_Admit{Admit: a}}
}

func holdOf(reason string, pods ...*v1.Pod) *pb.Directive {
	return &pb.Directive{Directive: &pb.Directive_Hold{Hold: &pb.Hold{Reason: reason, Uids: uids(pods...)}}}
}

func rejectOf(reason string, pods ...*v1.Pod) *pb.Directive {
	return &pb.Directive{Directive: &pb.Directive_Reject{Reject: &pb.Reject{Reason: reason, Uids: uids(pods...)}}}
}

func allowOf(commit uint64, pods ...*v1.Pod) *pb.Directive {
	return &pb.Directive{Directive: &pb.Directive_Allow{Allow: &pb.Allow{Commit: commit, Uids: uids(pods...)}}}
}

func uids(pods ...*v1.Pod) (all []string) {
	for _, pod := range pods {
		all = append(all, string(pod.UID))
	}
	return all
}

// permit runs the plugin's Permit and, as the framework does, AddWaitingPod if it says Wait.
func (f *fixture) permit(pod *v1.Pod) *fwk.Status {
	f.Helper()
	status, limit := f.plugin.Permit(context.Background(), framework.NewCycleState(), pod, "node-1")
	if status.IsWait() {
		f.profile.AddWaitingPod(pod, map[string]time.Duration{Name: min(limit, 15*time.Minute)})
	}
	return status
}

func (f *fixture) outcome(pod *v1.Pod) string {
	f.Helper()
	f.handle.mu.Lock()
	wp := f.handle.waiting[pod.UID]
	f.handle.mu.Unlock()
	if wp == nil {
		f.Fatalf("%s does not wait", pod.Name)
	}
	select {
	case outcome := <-wp.outcome:
		return outcome
	case <-time.After(5 * time.Second):
		f.Fatalf("%s waits on", pod.Name)
		return ""
	}
}

func (f *fixture) preFilter(pod *v1.Pod) (*fwk.Status, fwk.CycleState) {
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(context.Background(), state, pod, nil)
	return status, state
}

// serve answers the next request with what reply returns.
func (f *fixture) serve(reply func(*pb.SchedulerFrame) *pb.ServerFrame) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.session.Send(f, reply(f.session.Next(f)))
	}()
	return done
}

func plainPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(1000, 0)},
		Spec:       v1.PodSpec{SchedulerName: profileName},
	}
}

func gangPod(name string) *v1.Pod {
	pod := plainPod(name)
	pod.Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": "g", "other": "x"}
	return pod
}

func gangPods(names ...string) (pods []*v1.Pod) {
	for _, name := range names {
		pods = append(pods, gangPod(name))
	}
	return pods
}

func (f *fixture) want(status *fwk.Status, code fwk.Code, reason string) {
	f.Helper()
	if status.Code() != code || status.Message() != reason {
		f.Fatalf("got %s %q, want %s %q", status.Code(), status.Message(), code, reason)
	}
}
