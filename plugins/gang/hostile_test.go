// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	fwk "k8s.io/kube-scheduler/framework"

	"muster.dev/muster/plugins/pb"
)

func TestUnknownUidsLeaveNoTrace(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	strangers := make([]string, 200_000)
	members := make([]*pb.Admission, len(strangers))
	for i := range strangers {
		strangers[i] = fmt.Sprint("nobody-", i)
		members[i] = &pb.Admission{Uid: strangers[i]}
	}
	f.session.Direct(t,
		&pb.Directive{Directive: &pb.Directive_Admit{Admit: &pb.Admit{Group: "nobody", Members: members}}},
		&pb.Directive{Directive: &pb.Directive_Hold{Hold: &pb.Hold{Uids: strangers}}},
		&pb.Directive{Directive: &pb.Directive_Reject{Reject: &pb.Reject{Uids: strangers}}},
	)
	f.settled(pod)
	if len(f.stub.table.entries) != 1 || len(f.stub.table.grants) != 1 || len(f.stub.waits) != 0 {
		t.Fatal("strangers are kept")
	}
	f.session.Direct(t, &pb.Directive{Directive: &pb.Directive_Allow{Allow: &pb.Allow{Commit: 1, Uids: strangers[:3]}}})
	f.report(1, strangers[:3]...)
}

func TestAnOversizedReasonIsCut(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.session.Direct(t, holdOf(strings.Repeat("日\n", 1<<20), pod))
	f.until(func() bool { return f.stub.table.heldBecause(pod.UID) != reasonUnjudged })
	got := f.plugin.PreEnqueue(context.Background(), pod).Message()
	if len(got) > maxText || !utf8.ValidString(got) || strings.Contains(got, "\n") {
		t.Fatalf("the reason is %d bytes", len(got))
	}
}

func TestAHoldWithoutAReasonStillHolds(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.admit(0, pod)
	f.session.Direct(t, holdOf("", pod))
	f.until(func() bool { return !f.plugin.PreEnqueue(context.Background(), pod).IsSuccess() })
	f.want(f.plugin.PreEnqueue(context.Background(), pod), fwk.UnschedulableAndUnresolvable, reasonUnexplained)
}

func TestADirectiveOfNoKindEndsTheSessionOnly(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	f.session.Direct(t, admitOf(0, pod), &pb.Directive{})
	f.session.Ended(t)
	f.accept()
	f.want(f.plugin.PreEnqueue(context.Background(), pod), fwk.UnschedulableAndUnresolvable, reasonUnjudged)
}

func TestExtremeNumbersDoNoHarm(t *testing.T) {
	pod := gangPod("a")
	f := connected(t, pod)
	d := admitOf(math.MaxUint32, pod)
	d.GetAdmit().Cycle, d.GetAdmit().WaitMs = math.MaxUint64, math.MaxInt64
	d.GetAdmit().Members[0].Key = &pb.SortKey{Priority: math.MinInt32, CreatedUnixNs: math.MinInt64, Gang: strings.Repeat("g", 1<<20), Index: math.MaxInt64}
	f.session.Direct(t, d)
	f.woken(1)
	f.quietly(pod)
	if got := f.inner.timers[Name]; got != maxWait+waitSlack {
		t.Fatalf("the timer is %s", got)
	}
	if f.plugin.Less(queued(pod), queued(pod)) {
		t.Fatal("a pod is before itself")
	}
}

// Whatever bytes make valid Directives: no panic, and the tables keep their bounds.
func TestRandomDirectivesDoNoHarm(t *testing.T) {
	pods := gangPods("a", "b", "c")
	f := disconnected(t)
	for _, pod := range pods {
		f.stub.podSeen(nil, pod)
	}
	random := rand.New(rand.NewPCG(1, 2))
	uid := func() string { return append(uids(pods...), "", "nobody")[random.IntN(5)] }
	for range 20_000 {
		frame := &pb.Directives{}
		for range random.IntN(4) {
			frame.Directives = append(frame.Directives, randomDirective(random, uid))
		}
		raw, err := proto.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > 0 && random.IntN(2) == 0 {
			raw[random.IntN(len(raw))] ^= byte(1 << random.IntN(8))
		}
		decoded := &pb.Directives{}
		if proto.Unmarshal(raw, decoded) != nil {
			continue
		}
		_ = f.stub.Directives(decoded)
		pod := pods[random.IntN(len(pods))]
		switch random.IntN(4) {
		case 0:
			f.permitQuietly(pod.Name)
		case 1:
			f.stub.register(pod.UID)
		case 2:
			f.stub.Late(&pb.SchedulerFrame{}, &pb.ServerFrame{Body: &pb.ServerFrame_Permit{Permit: &pb.PermitReply{
				Verdict: pb.Verdict_VERDICT_PASS, Allow: &pb.Allow{Uids: []string{uid()}},
			}}})
		}
		select {
		case <-f.handle.activated:
		default:
		}
		if len(f.stub.table.entries) != 3 || len(f.stub.table.grants) > 3 || len(f.stub.waits) > 3 {
			t.Fatal("the tables have no bound")
		}
	}
}

// permitQuietly notes a wait as Permit would.
func (f *fixture) permitQuietly(name string) {
	f.stub.mu.Lock()
	defer f.stub.mu.Unlock()
	f.stub.waits[gangPod(name).UID] = &waiter{phase: waiting}
}

func randomDirective(random *rand.Rand, uid func() string) *pb.Directive {
	switch random.IntN(5) {
	case 0:
		return &pb.Directive{Directive: &pb.Directive_Admit{Admit: &pb.Admit{
			Group: fmt.Sprint(random.IntN(3)), Cycle: random.Uint64N(3), QuietPermits: random.Uint32(), Free: random.IntN(3) == 0,
			Members: []*pb.Admission{{Uid: uid()}, {Uid: uid(), Key: &pb.SortKey{}}, {}},
		}}}
	case 1:
		return &pb.Directive{Directive: &pb.Directive_Hold{Hold: &pb.Hold{Uids: []string{uid(), uid()}}}}
	case 2:
		return &pb.Directive{Directive: &pb.Directive_Allow{Allow: &pb.Allow{Commit: random.Uint64(), Uids: []string{uid(), uid()}}}}
	case 3:
		return &pb.Directive{Directive: &pb.Directive_Reject{Reject: &pb.Reject{Uids: []string{uid()}}}}
	}
	return &pb.Directive{}
}
