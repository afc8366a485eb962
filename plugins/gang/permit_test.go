// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

func permitReply(verdict pb.Verdict, allow *pb.Allow) func(*pb.SchedulerFrame) *pb.ServerFrame {
	return func(frame *pb.SchedulerFrame) *pb.ServerFrame {
		return &pb.ServerFrame{Body: &pb.ServerFrame_Permit{Permit: &pb.PermitReply{
			CallId: frame.GetPermit().GetCallId(), Verdict: verdict, Reason: "said the server", Allow: allow,
		}}}
	}
}

// nextFact returns the next fact. Those that share a frame come one after the other.
func (f *fixture) nextFact() *pb.Fact {
	f.Helper()
	for len(f.unread) == 0 {
		frame := f.session.Next(f)
		if f.unread = frame.GetFacts().GetFacts(); len(f.unread) == 0 {
			f.Fatalf("got %v, want a fact", frame)
		}
	}
	fact := f.unread[0]
	f.unread = f.unread[1:]
	return fact
}

// quietly runs n Permits that must not ask.
func (f *fixture) quietly(pods ...*v1.Pod) {
	f.Helper()
	for _, pod := range pods {
		if status := f.permit(pod); !status.IsWait() {
			f.Fatalf("%s got %v", pod.Name, status)
		}
		if got := f.nextFact().GetPermit(); got == nil || got.GetCallId() != 0 || got.GetUid() != string(pod.UID) {
			f.Fatalf("told %v", got)
		}
	}
}

func (f *fixture) report(commit uint64, missing ...string) {
	f.Helper()
	got := f.nextFact().GetCommitReport()
	if got == nil || got.GetCommit() != commit || strings.Join(got.GetMissing(), ",") != strings.Join(missing, ",") {
		f.Fatalf("reported %v, want commit %d, missing %v", got, commit, missing)
	}
}

func TestQuietPermitsWaitWithoutACallAndTheLastOneAsks(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods[:2]...)
	if got := f.inner.timers[Name]; got != time.Hour+waitSlack {
		t.Fatalf("the framework's timer is %s, want what Admit said beyond the 15 minutes", got)
	}
	done := f.serve(permitReply(pb.Verdict_VERDICT_PASS, &pb.Allow{Commit: 7, Uids: uids(pods[:2]...)}))
	f.want(f.permit(pods[2]), fwk.Success, "")
	<-done
	for _, pod := range pods[:2] {
		if got := f.outcome(pod); got != "allowed" {
			t.Fatalf("%s: %s", pod.Name, got)
		}
	}
	f.report(7)
}

func TestNoPermitOfACycleAsksIfTheServerGrantsAllThatIsLacking(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := connected(t, pods...)
	f.admit(3, pods...)
	f.quietly(pods...)
	f.session.Direct(t, allowOf(1, pods...))
	for _, pod := range pods {
		if got := f.outcome(pod); got != "allowed" {
			t.Fatalf("%s: %s", pod.Name, got)
		}
	}
	f.report(1)
}

func TestOnlyWhatTheServerMayActOnIsSentAtOnce(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := patient(t, pods...)
	f.admit(3, pods...)
	frame := func() (kinds []string) {
		for _, fact := range f.session.Next(t).GetFacts().GetFacts() {
			switch {
			case fact.GetPermit() != nil:
				kinds = append(kinds, "permit "+fact.GetPermit().GetUid())
			case fact.GetUnreserve() != nil:
				kinds = append(kinds, "unreserve "+fact.GetUnreserve().GetUid())
			case fact.GetCommitReport() != nil:
				kinds = append(kinds, "report")
			case fact.GetPod() != nil:
				kinds = append(kinds, "pod "+fact.GetPod().GetUid())
			}
		}
		return kinds
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("the frame holds %v, want %v", got, want)
		}
	}
	f.permit(pods[0])
	f.stub.podSeen(nil, gangPod("d"))
	f.permit(pods[1])
	f.session.Silent(t)
	f.permit(pods[2]) // uses up the quiet Permits
	want(frame(), "permit uid-a", "pod uid-d", "permit uid-b", "permit uid-c")

	f.plugin.Unreserve(context.Background(), framework.NewCycleState(), pods[0], "node-1")
	f.session.Silent(t)
	f.session.Direct(t, allowOf(1, pods...))
	want(frame(), "unreserve uid-a", "report")
}

func TestTheTwoStepCommitRefusesAllWhenOneWaiterIsGone(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods[:2]...)
	f.handle.leave(pods[0].UID)
	done := f.serve(permitReply(pb.Verdict_VERDICT_PASS, &pb.Allow{Commit: 7, Uids: uids(pods[:2]...)}))
	status := f.permit(pods[2])
	<-done
	if status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "1 of its pods no longer waited") {
		t.Fatalf("got %v", status)
	}
	if got := f.outcome(pods[1]); got == "allowed" {
		t.Fatal("a part of the gang was allowed")
	}
	f.report(7, string(pods[0].UID))
}

func TestAnAllowDirectiveCommitsInTwoSteps(t *testing.T) {
	pods := gangPods("a", "b")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods...)
	f.session.Direct(t, allowOf(1, pods...))
	for _, pod := range pods {
		if got := f.outcome(pod); got != "allowed" {
			t.Fatalf("%s: %s", pod.Name, got)
		}
	}
	f.report(1)
	// Again: they do not wait any more, and nothing else happens to them.
	f.session.Direct(t, allowOf(2, pods...))
	f.report(2, uids(pods...)...)
}

func TestAPodThatIsBeingDeletedDoesNotCountAsWaiting(t *testing.T) {
	pods := gangPods("a", "b")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods...)
	dying := pods[0].DeepCopy()
	now := dying.CreationTimestamp
	dying.DeletionTimestamp = &now
	f.stub.podSeen(pods[0], dying)
	f.nextFact()
	f.session.Direct(t, allowOf(1, pods...))
	f.report(1, string(pods[0].UID))
}

func TestAnOrderThatComesBeforeTheFrameworkKnowsThePodIsReplayed(t *testing.T) {
	for name, test := range map[string]struct {
		order func(...*v1.Pod) *pb.Directive
		want  string
	}{
		"allow":  {func(pods ...*v1.Pod) *pb.Directive { return allowOf(1, pods...) }, "allowed"},
		"reject": {func(pods ...*v1.Pod) *pb.Directive { return rejectOf("gave up", pods...) }, "gave up"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, other := gangPod("a"), gangPod("other")
			f := connected(t, pod, other)
			f.admit(1, pod)
			status, limit := f.plugin.Permit(context.Background(), framework.NewCycleState(), pod, "node-1")
			if !status.IsWait() {
				t.Fatalf("got %v", status)
			}
			f.session.Direct(t, test.order(pod))
			f.settled(other)
			f.profile.AddWaitingPod(pod, map[string]time.Duration{Name: limit})
			if got := f.outcome(pod); got != test.want {
				t.Fatalf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestARejectedPodIsToldWhyAndUnreserveIsForwarded(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(1, pod)
	f.quietly(pod)
	f.session.Direct(t, rejectOf("the group gave up", pod))
	if got := f.outcome(pod); got != "the group gave up" {
		t.Fatalf("got %s", got)
	}
	f.plugin.Unreserve(context.Background(), framework.NewCycleState(), pod, "node-1")
	if got := f.nextFact().GetUnreserve(); got.GetUid() != string(pod.UID) || got.GetNodeName() != "node-1" {
		t.Fatalf("told %v", got)
	}
	if len(f.stub.waits) != 0 {
		t.Fatal("the wait is still on record")
	}
}

func TestPermitFollowsTheVerdict(t *testing.T) {
	pod := gangPod("a")
	for verdict, want := range map[pb.Verdict]fwk.Code{
		pb.Verdict_VERDICT_PASS: fwk.Success, pb.Verdict_VERDICT_WAIT: fwk.Wait, pb.Verdict_VERDICT_REFUSE: fwk.Unschedulable,
	} {
		f := connected(t, pod)
		f.admit(0, pod)
		done := f.serve(permitReply(verdict, nil))
		status := f.permit(pod)
		<-done
		if status.Code() != want {
			t.Errorf("%s became %v", verdict, status)
		}
		if verdict == pb.Verdict_VERDICT_REFUSE && status.Message() != "said the server" {
			t.Errorf("the reason is %q", status.Message())
		}
	}
}

func TestAPermitThatIsAnsweredTooLateUndoesItsCommit(t *testing.T) {
	pods := gangPods("a", "b")
	f := connected(t, pods...)
	f.admit(1, pods...)
	f.quietly(pods[0])
	f.stub.callTimeout = 20 * time.Millisecond
	f.want(f.permit(pods[1]), fwk.Unschedulable, "muster-server did not answer Permit within 20ms")
	request := f.session.Next(t)
	f.session.Send(t, permitReply(pb.Verdict_VERDICT_PASS, &pb.Allow{Commit: 3, Uids: uids(pods[0])})(request))
	f.report(3, string(pods[1].UID))
	if got := f.outcome(pods[0]); got == "allowed" {
		t.Fatal("a part of the gang was allowed")
	}
}

func TestQuietPermitsAreCountedPerCycleNotPerAdmit(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := connected(t, pods...)
	f.admit(2, pods...)
	f.quietly(pods[0])
	f.admit(2, pods[1:]...) // the same cycle once more
	f.quietly(pods[1])
	done := f.serve(permitReply(pb.Verdict_VERDICT_WAIT, nil))
	f.permit(pods[2])
	<-done
}

func TestAShortWaitNeverBecomesZeroAndAHugeOneNeverOverflows(t *testing.T) {
	for ms, want := range map[int64]time.Duration{-5: waitSlack, 0: waitSlack, 1000: time.Second + waitSlack, 1 << 62: maxWait + waitSlack} {
		if got := waitOf(ms); got != want {
			t.Errorf("%d ms became %s", ms, got)
		}
	}
}
