// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"muster.dev/muster/plugins/internal/fakeserver"
	"muster.dev/muster/plugins/pb"
)

// recorder is a Handler that opens with Hello and Synced and remembers what happened.
type recorder struct {
	mu     sync.Mutex
	ready  chan struct{}
	closed chan error
	late   chan *pb.ServerFrame
	told   chan *pb.Directives
}

func newRecorder() *recorder {
	return &recorder{ready: make(chan struct{}, 16), closed: make(chan error, 16), late: make(chan *pb.ServerFrame, 16), told: make(chan *pb.Directives, 16)}
}

func (r *recorder) Open(begin func([]*pb.SchedulerFrame)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begin([]*pb.SchedulerFrame{
		{Body: &pb.SchedulerFrame_Hello{Hello: &pb.Hello{Contract: Contract}}},
		{Body: &pb.SchedulerFrame_Synced{Synced: &pb.Synced{}}},
	})
}
func (r *recorder) Ready()                                       { r.ready <- struct{}{} }
func (r *recorder) Closed(err error)                             { r.closed <- err }
func (r *recorder) Late(_ *pb.SchedulerFrame, f *pb.ServerFrame) { r.late <- f }
func (r *recorder) Directives(d *pb.Directives) error {
	r.told <- d
	return nil
}

func wait[T any](t *testing.T, from chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(5 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func start(t *testing.T, config Config) (*Client, *recorder) {
	t.Helper()
	r := newRecorder()
	c := New(config, r)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c, r
}

func open(t *testing.T) (*Client, *recorder, *fakeserver.Server, *fakeserver.Session) {
	t.Helper()
	server := fakeserver.Start(t)
	c, r := start(t, Config{Server: server.Address})
	s, _, _ := server.Accept(t)
	wait(t, r.ready)
	return c, r, server, s
}

func fact(uid string) *pb.SchedulerFrame {
	return &pb.SchedulerFrame{Body: &pb.SchedulerFrame_Facts{Facts: &pb.Facts{Facts: []*pb.Fact{
		{Fact: &pb.Fact_PodGone{PodGone: &pb.PodGone{Uid: uid}}},
	}}}}
}

func preFilter(id uint64) *pb.SchedulerFrame {
	return &pb.SchedulerFrame{Body: &pb.SchedulerFrame_PreFilter{PreFilter: &pb.PreFilterRequest{CallId: id, Uid: "a"}}}
}

func preFilterReply(id uint64) *pb.ServerFrame {
	return &pb.ServerFrame{Body: &pb.ServerFrame_PreFilter{PreFilter: &pb.PreFilterReply{CallId: id, Pass: true}}}
}

func TestFramesKeepOneOrderAndAreNumberedWithoutAGap(t *testing.T) {
	c, _, _, s := open(t)
	var want []string
	for i := range 2000 {
		name := fmt.Sprint(i)
		if i%7 == 0 {
			if _, err := c.Ask(preFilter); err != nil {
				t.Fatal(err)
			}
			want = append(want, "call")
			continue
		}
		c.Send(fact(name))
		want = append(want, name)
	}
	seq := uint64(2) // Hello and Synced
	for i := 0; i < len(want); {
		frame := s.Next(t)
		if seq++; frame.GetSeq() != seq {
			t.Fatalf("frame has number %d, want %d", frame.GetSeq(), seq)
		}
		if frame.GetPreFilter() != nil {
			if want[i] != "call" {
				t.Fatalf("a call came before fact %s", want[i])
			}
			i++
			continue
		}
		for _, f := range frame.GetFacts().GetFacts() {
			if got := f.GetPodGone().GetUid(); got != want[i] {
				t.Fatalf("got %s, want %s", got, want[i])
			}
			i++
		}
	}
}

func TestFactsThatStandTogetherShareFrames(t *testing.T) {
	var frames []*pb.SchedulerFrame
	for i := range 2*maxFactsPerFrame + 1 {
		frames = append(frames, fact(fmt.Sprint(i)))
	}
	frames = append(frames, preFilter(1), fact("x"), fact("y"))
	big := strings.Repeat("v", maxFactsBytes/2+1)
	frames = append(frames, fact(big), fact(big))
	var sizes []int
	for _, frame := range coalesce(frames) {
		sizes = append(sizes, len(frame.GetFacts().GetFacts()))
	}
	// Full, full, rest, the call, x and y and one big, the other big.
	if got, want := fmt.Sprint(sizes), fmt.Sprint([]int{maxFactsPerFrame, maxFactsPerFrame, 1, 0, 3, 1}); got != want {
		t.Fatalf("frames hold %s facts, want %s", got, want)
	}
}

func TestACallGetsItsReply(t *testing.T) {
	c, _, _, s := open(t)
	first, _ := c.Ask(preFilter)
	second, _ := c.Ask(preFilter)
	one, two := s.Next(t).GetPreFilter().GetCallId(), s.Next(t).GetPreFilter().GetCallId()
	s.Send(t, preFilterReply(two))
	s.Send(t, preFilterReply(4711)) // of no call: passed over
	s.Send(t, preFilterReply(one))
	for _, call := range []*Call{first, second} {
		reply, err := call.Wait(context.Background(), time.Minute)
		if err != nil || reply.GetPreFilter().GetCallId() != call.id {
			t.Fatalf("call %d got %v, %v", call.id, reply, err)
		}
	}
}

func TestACallTimesOutAndItsLateReplyIsHandedOver(t *testing.T) {
	c, r, _, s := open(t)
	call, _ := c.Ask(preFilter)
	id := s.Next(t).GetPreFilter().GetCallId()
	if _, err := call.Wait(context.Background(), time.Millisecond); !errors.Is(err, ErrTimeout) {
		t.Fatalf("got %v", err)
	}
	s.Send(t, preFilterReply(id))
	if got := wait(t, r.late).GetPreFilter().GetCallId(); got != id {
		t.Fatalf("late reply to call %d, want %d", got, id)
	}
}

func TestAServerThatLeavesCallsUnansweredIsHungUpOn(t *testing.T) {
	c, r, _, s := open(t)
	for range maxTimeoutsInARow {
		call, err := c.Ask(preFilter)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = call.Wait(context.Background(), time.Millisecond)
	}
	if err := wait(t, r.closed); !errors.Is(err, errSilent) {
		t.Fatalf("closed with %v", err)
	}
	s.Ended(t)
}

func TestTheEndOfASessionFailsItsCallsAndANewOneFollows(t *testing.T) {
	c, r, server, s := open(t)
	call, _ := c.Ask(preFilter)
	s.Next(t)
	s.End(status.Error(codes.Aborted, "a newer session took over"))
	if _, err := call.Wait(context.Background(), time.Minute); !errors.Is(err, ErrNotConnected) {
		t.Fatalf("got %v", err)
	}
	if err := wait(t, r.closed); status.Code(err) != codes.Aborted {
		t.Fatalf("closed with %v", err)
	}
	server.Accept(t)
	wait(t, r.ready)
	if _, err := c.Ask(preFilter); err != nil {
		t.Fatal(err)
	}
}

func TestBeforeWelcomeFactsFlowAndCallsDoNot(t *testing.T) {
	server := fakeserver.Start(t)
	c, r := start(t, Config{Server: server.Address})
	if c.Send(fact("early")) {
		t.Fatal("a fact was taken without a session")
	}
	s := server.AcceptSilently(t)
	s.Next(t)
	s.Next(t)
	if !c.Send(fact("a")) {
		t.Fatal("a fact was not taken")
	}
	if _, err := c.Ask(preFilter); !errors.Is(err, ErrNotConnected) {
		t.Fatalf("got %v", err)
	}
	s.Next(t)
	s.Send(t, &pb.ServerFrame{Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{Contract: 1}}})
	wait(t, r.ready)
	if _, err := c.Ask(preFilter); err != nil {
		t.Fatal(err)
	}
}

func TestABadFrameEndsTheSessionOnly(t *testing.T) {
	for name, frame := range map[string]*pb.ServerFrame{
		"no body":          {},
		"second welcome":   {Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{Contract: 1}}},
		"no verdict":       {Body: &pb.ServerFrame_Permit{Permit: &pb.PermitReply{CallId: 1}}},
		"unknown verdict":  {Body: &pb.ServerFrame_Permit{Permit: &pb.PermitReply{CallId: 1, Verdict: 99}}},
		"wrong reply kind": {Body: &pb.ServerFrame_PostFilter{PostFilter: &pb.PostFilterReply{CallId: 1}}},
		"too large": {Body: &pb.ServerFrame_PreFilter{PreFilter: &pb.PreFilterReply{
			Reason: strings.Repeat("x", maxReceiveBytes+1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, r, server, s := open(t)
			if _, err := c.Ask(preFilter); err != nil {
				t.Fatal(err)
			}
			s.Send(t, frame)
			if err := wait(t, r.closed); err == nil {
				t.Fatal("closed without an error")
			}
			server.Accept(t)
			wait(t, r.ready)
		})
	}
}

func TestAnotherContractIsNamed(t *testing.T) {
	server := fakeserver.Start(t)
	_, r := start(t, Config{Server: server.Address})
	s := server.AcceptSilently(t)
	s.Send(t, &pb.ServerFrame{Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{Contract: 7}}})
	if err := wait(t, r.closed); err == nil || !strings.Contains(err.Error(), "contract 7") {
		t.Fatalf("closed with %v", err)
	}
}

func TestAQueueThatOverflowsEndsTheSession(t *testing.T) {
	server := fakeserver.Start(t)
	r := newRecorder()
	c := New(Config{Server: server.Address, MaxQueue: 3}, r)
	hungUp := make(chan error, 1)
	c.begin(nil, func(err error) { hungUp <- err })
	for i := range 3 {
		if !c.Send(fact(fmt.Sprint(i))) {
			t.Fatal("the queue should have room")
		}
	}
	if c.Send(fact("too many")) || c.Send(fact("and now there is no session")) {
		t.Fatal("the queue has no bound")
	}
	if err := wait(t, hungUp); !errors.Is(err, errOverflow) {
		t.Fatalf("hung up with %v", err)
	}
}

func TestTheServerMayComeLaterAndGoAndComeBack(t *testing.T) {
	server := fakeserver.Start(t)
	server.Stop()
	c, r := start(t, Config{Server: server.Address})
	time.Sleep(100 * time.Millisecond)
	server.Listen(t)
	server.Accept(t)
	wait(t, r.ready)
	server.Stop()
	wait(t, r.closed)
	if c.Connected() {
		t.Fatal("still connected")
	}
	server.Listen(t)
	server.Accept(t)
	wait(t, r.ready)
	if !c.Connected() {
		t.Fatal("not connected")
	}
}

// BenchmarkRoundTrip is what a call costs when the server answers at once.
func BenchmarkRoundTrip(b *testing.B) {
	server := fakeserver.Start(b)
	r := newRecorder()
	c := New(Config{Server: server.Address}, r)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go c.Run(ctx)
	s, _, _ := server.Accept(b)
	<-r.ready
	go func() {
		for frame := s.Try(time.Minute); frame != nil; frame = s.Try(time.Minute) {
			s.Send(b, preFilterReply(frame.GetPreFilter().GetCallId()))
		}
	}()
	for b.Loop() {
		call, err := c.Ask(preFilter)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := call.Wait(ctx, time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
