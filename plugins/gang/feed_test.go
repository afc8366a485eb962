// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

func TestAPodIsSentWhenItComesWhenItChangesAndWhenItGoes(t *testing.T) {
	f := connected(t)
	handler := f.stub.podHandler()
	priority := int32(7)
	pod := gangPod("a")
	pod.Labels = map[string]string{"pod-group.scheduling.sigs.k8s.io/name": "g", "app": "x"}
	pod.Spec.Priority = &priority
	handler.OnAdd(pod, false)
	want := &pb.Pod{
		Uid: "uid-a", Namespace: "ns", Name: "a", CreatedUnixNs: time.Unix(1000, 0).UnixNano(), Priority: 7,
		Annotations: map[string]string{"gang.scheduling.koordinator.sh/name": "g"},
		Labels:      map[string]string{"pod-group.scheduling.sigs.k8s.io/name": "g"},
	}
	if got := f.nextFact().GetPod(); !proto.Equal(got, want) {
		t.Fatalf("got %v", got)
	}

	same := pod.DeepCopy()
	same.ResourceVersion, same.Status.Message = "2", "nothing that matters"
	handler.OnUpdate(pod, same)
	f.session.Silent(t)

	bound := same.DeepCopy()
	bound.Spec.NodeName = "node-1"
	handler.OnUpdate(same, bound)
	if got := f.nextFact().GetPod(); got.GetNodeName() != "node-1" {
		t.Fatalf("got %v", got)
	}
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: bound})
	if got := f.nextFact().GetPodGone(); got.GetUid() != "uid-a" {
		t.Fatalf("got %v", got)
	}
	handler.OnDelete(bound)
	f.session.Silent(t)
	if len(f.stub.members) != 0 || len(f.stub.table.entries) != 0 || f.stub.unbound.Load() != 0 {
		t.Fatal("something of the pod is still kept")
	}
}

func TestAPodOfAnotherSchedulerIsNoneOfOurs(t *testing.T) {
	f := connected(t)
	pod := gangPod("a")
	pod.Spec.SchedulerName = "default-scheduler"
	f.stub.podHandler().OnAdd(pod, false)
	f.stub.podHandler().OnDelete(pod)
	f.stub.podHandler().OnDelete("nonsense")
	f.session.Silent(t)
}

func TestAPodThatLosesItsMarksIsGoneForTheServerAndWoken(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.stub.podHandler().OnUpdate(pod, plainPod("a"))
	if f.nextFact().GetPodGone() == nil {
		t.Fatal("the server was not told")
	}
	f.woken(1)
}

func TestAFinishedPodIsGone(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	done := pod.DeepCopy()
	done.Status.Phase = v1.PodSucceeded
	f.stub.podHandler().OnUpdate(pod, done)
	if f.nextFact().GetPodGone() == nil {
		t.Fatal("the server was not told")
	}
}

func TestADisconnectHoldsAndAReconnectTellsWhoWaitsAndResumes(t *testing.T) {
	pods := gangPods("waits", "binds", "idle")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods[:2]...)
	f.session.Direct(t, allowOf(1, pods[1]))
	f.report(1)

	f.session.End(status.Error(codes.Unavailable, "draining"))
	f.until(func() bool { return f.stub.table.heldBecause(pods[2].UID) == reasonDisconnected })
	refused, _ := f.preFilter(pods[2])
	f.want(refused, fwk.UnschedulableAndUnresolvable, reasonDisconnected)
	f.want(f.permit(pods[2]), fwk.Unschedulable, reasonDisconnected)
	f.stub.podSeen(nil, gangPod("while-away"))
	f.want(f.plugin.PreEnqueue(context.Background(), gangPod("while-away")), fwk.UnschedulableAndUnresolvable, reasonDisconnected)

	standing := map[string]pb.Standing{}
	for _, fact := range f.accept() {
		pod := fact.GetPod()
		standing[pod.GetName()] = pod.GetStanding()
		if pod.GetName() == "waits" && (pod.GetWaitedMs() < 0 || pod.GetWaitedMs() > 60_000) {
			t.Errorf("it waited for %d ms", pod.GetWaitedMs())
		}
	}
	want := map[string]pb.Standing{
		"waits": pb.Standing_STANDING_WAITING, "binds": pb.Standing_STANDING_BINDING, "idle": 0, "while-away": 0,
	}
	if fmt.Sprint(standing) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", standing, want)
	}
	f.until(func() bool { return f.stub.table.heldBecause(pods[2].UID) == reasonUnjudged })

	// The wait outlived the session, and the new one can end it.
	f.session.Direct(t, allowOf(2, pods[0]))
	f.report(2)
	f.admit(0, pods[2])
	passed, _ := f.preFilter(pods[2])
	f.want(passed, fwk.Success, "")
}

func TestNothingIsLostOrReorderedWhilePodsComeAndSessionsBreak(t *testing.T) {
	f := connected(t)
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for i := range 3000 {
			f.stub.podSeen(nil, gangPod(fmt.Sprint(i)))
			if i%3 == 0 {
				f.stub.podDeleted(gangPod(fmt.Sprint(i)))
			}
		}
	}()
	for range 3 {
		time.Sleep(5 * time.Millisecond)
		f.session.End(status.Error(codes.Unavailable, "again"))
		known := map[string]bool{}
		for _, fact := range f.accept() {
			known[fact.GetPod().GetUid()] = true
		}
		f.drain(known)
	}
	<-stop
	f.session.End(status.Error(codes.Unavailable, "last"))
	if got := len(f.accept()); got != 2000 {
		t.Fatalf("the last opening has %d pods, want 2000", got)
	}
}

// drain applies what has come so far to a copy of the server's view and checks that it makes sense.
func (f *fixture) drain(known map[string]bool) {
	f.Helper()
	marker := gangPod("marker")
	f.stub.podSeen(nil, marker)
	for {
		for _, fact := range f.session.Next(f).GetFacts().GetFacts() {
			switch {
			case fact.GetPod().GetUid() == string(marker.UID):
				f.stub.podDeleted(marker)
				return
			case fact.GetPod() != nil:
				if known[fact.GetPod().GetUid()] {
					f.Fatalf("%s came twice", fact.GetPod().GetUid())
				}
				known[fact.GetPod().GetUid()] = true
			case fact.GetPodGone() != nil:
				if !known[fact.GetPodGone().GetUid()] {
					f.Fatalf("%s went without having come", fact.GetPodGone().GetUid())
				}
			}
		}
	}
}

func TestRoomIsToldAtMostOncePerIntervalAndOnlyIfSomebodyWantsIt(t *testing.T) {
	f := connected(t)
	nodes := f.stub.nodeHandler()
	nodes.OnAdd(&v1.Node{}, false)
	f.session.Silent(t)

	f.stub.podSeen(nil, gangPod("wants-room"))
	f.nextFact()
	begin := time.Now()
	leaving := plainPod("leaving")
	leaving.Spec.NodeName = "node-1"
	for range 1000 {
		nodes.OnAdd(&v1.Node{}, false)
		f.stub.podHandler().OnDelete(leaving)
	}
	took := time.Since(begin)
	rooms := 0
	deadline := time.After(3*roomInterval + took)
	for reading := true; reading; {
		select {
		case <-deadline:
			reading = false
		default:
			if f.quickFact() {
				rooms++
			}
		}
	}
	if limit := 2 + int(took/roomInterval); rooms < 1 || rooms > limit {
		t.Fatalf("told %d times, want 1 to %d", rooms, limit)
	}
}

// quickFact says whether a Room fact came within a moment.
func (f *fixture) quickFact() bool {
	frame := f.session.Try(10 * time.Millisecond)
	return frame != nil && frame.GetFacts().GetFacts()[0].GetRoom() != nil
}

func TestOnlySomeChangesOfANodeMakeRoom(t *testing.T) {
	base := &v1.Node{}
	for name, test := range map[string]struct {
		change func(*v1.Node)
		want   bool
	}{
		"heartbeat":   {func(n *v1.Node) { n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady}} }, false},
		"cordon":      {func(n *v1.Node) { n.Spec.Unschedulable = true }, false},
		"allocatable": {func(n *v1.Node) { n.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("1")} }, true},
		"labels":      {func(n *v1.Node) { n.Labels = map[string]string{"a": "b"} }, true},
		"taints":      {func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "a"}} }, true},
	} {
		after := base.DeepCopy()
		test.change(after)
		if got := mayMakeRoom(base, after); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	cordoned := &v1.Node{Spec: v1.NodeSpec{Unschedulable: true}}
	if !mayMakeRoom(cordoned, base) {
		t.Error("uncordon makes room")
	}
}
