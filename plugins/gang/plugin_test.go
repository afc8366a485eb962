// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

func TestPlainPodsSendNothingAndPass(t *testing.T) {
	f := connected(t)
	pod := plainPod("plain")
	f.stub.podSeen(nil, pod)
	f.stub.podSeen(pod, pod)
	f.want(f.plugin.PreEnqueue(context.Background(), pod), fwk.Success, "")
	status, state := f.preFilter(pod)
	f.want(status, fwk.Success, "")
	_, status = f.plugin.PostFilter(context.Background(), state, pod, framework.NewDefaultNodeToStatus())
	f.want(status, fwk.Unschedulable, "")
	f.want(f.plugin.Reserve(context.Background(), state, pod, "n"), fwk.Success, "")
	f.want(f.permit(pod), fwk.Success, "")
	f.plugin.Unreserve(context.Background(), state, pod, "n")
	f.stub.podDeleted(pod)
	f.session.Silent(t)
}

func TestPlainPodsCostNoAllocation(t *testing.T) {
	f := disconnected(t)
	pod := plainPod("plain")
	pod.Labels = map[string]string{"app": "a", "tier": "b"}
	a, b := queued(pod), queued(plainPod("other"))
	state := framework.NewCycleState()
	if n := testing.AllocsPerRun(100, func() {
		f.plugin.PreEnqueue(context.Background(), pod)
		_, _ = f.plugin.PreFilter(context.Background(), state, pod, nil)
		_, _ = f.plugin.Permit(context.Background(), state, pod, "n")
		f.plugin.Unreserve(context.Background(), state, pod, "n")
		f.plugin.Less(a, b)
		f.stub.podSeen(pod, pod)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestPreEnqueueGatesUntilAdmitAndAgainAfterHold(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	enqueue := func() *fwk.Status { return f.plugin.PreEnqueue(context.Background(), pod) }
	f.want(enqueue(), fwk.UnschedulableAndUnresolvable, reasonUnjudged)
	f.admit(0, pod)
	f.want(enqueue(), fwk.Success, "")
	f.session.Direct(t, holdOf("waiting for 1 more", pod))
	f.until(func() bool { return !enqueue().IsSuccess() })
	f.want(enqueue(), fwk.UnschedulableAndUnresolvable, "waiting for 1 more")
}

func TestAPodThatWasNotSeenYetIsGated(t *testing.T) {
	f := connected(t)
	f.want(f.plugin.PreEnqueue(context.Background(), gangPod("new")), fwk.UnschedulableAndUnresolvable, reasonUnjudged)
}

func TestAnAdmittedMemberPassesPreFilterOnceAndIsThenAskedAbout(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(0, pod)
	status, _ := f.preFilter(pod)
	f.want(status, fwk.Success, "")
	f.session.Silent(t)

	for _, pass := range []bool{true, false} {
		done := f.serve(func(frame *pb.SchedulerFrame) *pb.ServerFrame {
			request := frame.GetPreFilter()
			if request.GetUid() != string(pod.UID) {
				t.Errorf("asked with %v", frame)
			}
			return &pb.ServerFrame{Body: &pb.ServerFrame_PreFilter{PreFilter: &pb.PreFilterReply{CallId: request.GetCallId(), Pass: pass, Reason: "backs off"}}}
		})
		status, state := f.preFilter(pod)
		<-done
		if pass {
			f.want(status, fwk.Success, "")
			continue
		}
		f.want(status, fwk.UnschedulableAndUnresolvable, "backs off")
		_, status = f.plugin.PostFilter(context.Background(), state, pod, framework.NewDefaultNodeToStatus())
		f.want(status, fwk.UnschedulableAndUnresolvable, "")
		f.session.Silent(t)
	}
}

func TestAHeldMemberIsRefusedAtPreFilterWithoutACall(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.session.Direct(t, holdOf("not now", pod))
	f.until(func() bool { return f.stub.table.heldBecause(pod.UID) == "not now" })
	status, _ := f.preFilter(pod)
	f.want(status, fwk.UnschedulableAndUnresolvable, "not now")
	f.want(f.permit(pod), fwk.Unschedulable, "not now")
	f.session.Silent(t)
}

func TestAFreeMemberPassesAnyNumberOfTimesAndOnlyTells(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	d := admitOf(0, pod)
	d.GetAdmit().Free = true
	f.session.Direct(t, d)
	f.woken(1)
	for range 3 {
		status, state := f.preFilter(pod)
		f.want(status, fwk.Success, "")
		f.want(f.permit(pod), fwk.Success, "")
		if got := f.nextFact().GetPermit(); got == nil || got.GetCallId() != 0 || got.GetNodeName() != "node-1" {
			t.Fatalf("told %v", got)
		}
		_, status = f.plugin.PostFilter(context.Background(), state, pod, framework.NewDefaultNodeToStatus())
		f.want(status, fwk.Unschedulable, "")
		if got := f.nextFact().GetPostFilter(); got == nil || got.GetCallId() != 0 {
			t.Fatalf("told %v", got)
		}
	}
}

func TestPostFilterTellsWhyAndLetsPreemptionOnOnlyIfTheServerAgrees(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(0, pod)
	nodes := framework.NewDefaultNodeToStatus()
	for i := range 4 {
		nodes.Set(fmt.Sprint("node-", i), fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu"))
	}
	for _, may := range []bool{true, false} {
		done := f.serve(func(frame *pb.SchedulerFrame) *pb.ServerFrame {
			request := frame.GetPostFilter()
			if got := request.GetMessage(); got != "0/4 nodes are available: 4 Insufficient cpu." {
				t.Errorf("message is %q", got)
			}
			return &pb.ServerFrame{Body: &pb.ServerFrame_PostFilter{PostFilter: &pb.PostFilterReply{CallId: request.GetCallId(), MayPreempt: may, Reason: "the gang could not be whole"}}}
		})
		_, status := f.plugin.PostFilter(context.Background(), framework.NewCycleState(), pod, nodes)
		<-done
		if may {
			f.want(status, fwk.Unschedulable, "")
		} else {
			f.want(status, fwk.UnschedulableAndUnresolvable, "the gang could not be whole")
		}
	}
	// The failed try is spent, although our PreFilter never ran: the next one is asked about.
	if leave, _ := f.stub.table.preFilter(pod.UID); leave != leaveAsk {
		t.Fatalf("leave is %v", leave)
	}
}

func TestALongPostFilterMessageIsCut(t *testing.T) {
	f := disconnected(t)
	nodes := framework.NewDefaultNodeToStatus()
	nodes.Set("n", fwk.NewStatus(fwk.Unschedulable, strings.Repeat("ü", 2000)))
	if got := f.stub.whyNoNode(gangPod("a"), nodes); len(got) > maxText || !strings.HasPrefix(got, "0/1 nodes") || strings.ContainsRune(got, '\uFFFD') {
		t.Fatalf("message is %d bytes: %q", len(got), got)
	}
}

func TestATimeoutAtPreFilterRefusesAndEndsTheTry(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.stub.callTimeout = 20 * time.Millisecond
	f.admit(0, pod)
	f.preFilter(pod)
	status, _ := f.preFilter(pod)
	f.want(status, fwk.UnschedulableAndUnresolvable, "muster-server did not answer PreFilter within 20ms")
	if f.session.Next(t).GetPreFilter() == nil {
		t.Fatal("no PreFilter came")
	}
	if got := f.nextFact().GetPostFilter(); got == nil || got.GetCallId() != 0 {
		t.Fatalf("the server was not told that the try is over: %v", got)
	}
}

func TestASignatureIsEmptyAndASuccess(t *testing.T) {
	f := disconnected(t)
	for _, pod := range []*v1.Pod{plainPod("a"), gangPod("b")} {
		fragments, status := f.plugin.SignPod(context.Background(), pod)
		if len(fragments) != 0 || !status.IsSuccess() {
			t.Fatalf("got %v, %v", fragments, status)
		}
	}
}

func TestNoEventWakesAMember(t *testing.T) {
	f := disconnected(t)
	if events, err := f.plugin.EventsToRegister(context.Background()); len(events) != 0 || err != nil {
		t.Fatalf("got %v, %v", events, err)
	}
}

func TestFactsComeBeforeTheCallsThatFollowThem(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(0, pod)
	f.preFilter(pod)
	f.stub.callTimeout = 10 * time.Millisecond
	var want, got []string
	for i := range 50 {
		name := fmt.Sprint("p", i)
		f.stub.podSeen(nil, gangPod(name))
		want = append(want, "uid-"+name)
	}
	f.preFilter(pod)
	want = append(want, "call")
	for !slices.Contains(got, "call") {
		frame := f.session.Next(t)
		for _, fact := range frame.GetFacts().GetFacts() {
			got = append(got, fact.GetPod().GetUid())
		}
		if frame.GetPreFilter() != nil {
			got = append(got, "call")
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v\nwant %v", got, want)
	}
}
