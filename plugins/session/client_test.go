// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"muster.dev/muster/plugins/internal/fakeserver"
	"muster.dev/muster/plugins/pb"
)

// recorder is a Handler that opens with Hello and Synced and remembers what happened.
type recorder struct {
	all    []*pb.Fact // that the opening tells
	ready  chan struct{}
	closed chan error
	late   chan *pb.ServerFrame
	told   chan *pb.Directives
}

func newRecorder() *recorder {
	return &recorder{ready: make(chan struct{}, 16), closed: make(chan error, 16), late: make(chan *pb.ServerFrame, 16), told: make(chan *pb.Directives, 16)}
}

func (r *recorder) Open(begin func(*pb.Hello, []*pb.Fact)) {
	begin(&pb.Hello{Contract: Contract}, r.all)
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
	run(t, c)
	return c, r
}

func run(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func open(t *testing.T) (*Client, *recorder, *fakeserver.Server, *fakeserver.Session) {
	t.Helper()
	return openWith(t, 0)
}

// openWith opens a session that holds facts back for so long.
func openWith(t *testing.T, window time.Duration) (*Client, *recorder, *fakeserver.Server, *fakeserver.Session) {
	t.Helper()
	server := fakeserver.Start(t)
	c, r := start(t, Config{Server: server.Address, Window: window})
	s, _, _ := server.Accept(t)
	wait(t, r.ready)
	return c, r, server, s
}

func fact(uid string) *pb.Fact {
	return &pb.Fact{Fact: &pb.Fact_PodGone{PodGone: &pb.PodGone{Uid: uid}}}
}

// told are the uids of the facts of a frame.
func told(frame *pb.SchedulerFrame) (uids []string) {
	for _, f := range frame.GetFacts().GetFacts() {
		uids = append(uids, f.GetPodGone().GetUid())
	}
	return uids
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
		if i%5 == 0 {
			c.SendNow(fact(name))
		} else {
			c.Send(fact(name))
		}
		want = append(want, name)
	}
	c.SendNow(fact("last"))
	want = append(want, "last")
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
		for _, got := range told(frame) {
			if got != want[i] {
				t.Fatalf("got %s, want %s", got, want[i])
			}
			i++
		}
	}
}

// forever is a window that is never over while a test runs.
const forever = time.Hour

func TestFactsWaitForOthersUntilTheWindowIsOver(t *testing.T) {
	c, _, _, s := openWith(t, 300*time.Millisecond)
	for range 3 { // each window begins with the first fact that is held back, not with the session
		begin := time.Now()
		c.Send(fact("a"))
		time.Sleep(100 * time.Millisecond)
		c.Send(fact("b"))
		c.Send(fact("c"))
		if got := told(s.Next(t)); fmt.Sprint(got) != "[a b c]" {
			t.Fatalf("the frame holds %v", got)
		}
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Fatalf("it came after %s", took)
		}
	}
	s.Silent(t)
}

func TestACallTakesAlongWhatWasHeldBack(t *testing.T) {
	c, _, _, s := openWith(t, forever)
	c.Send(fact("a"))
	c.Send(fact("b"))
	s.Silent(t)
	if _, err := c.Ask(preFilter); err != nil {
		t.Fatal(err)
	}
	c.Send(fact("behind"))
	if got := told(s.Next(t)); fmt.Sprint(got) != "[a b]" {
		t.Fatalf("the first frame holds %v", got)
	}
	if got := s.Next(t); got.GetPreFilter() == nil {
		t.Fatalf("the second frame is %v", got)
	}
	c.SendNow(fact("last"))
	var got []string
	for len(got) < 2 { // in one frame or, if the sender was quick, in two
		got = append(got, told(s.Next(t))...)
	}
	if fmt.Sprint(got) != "[behind last]" {
		t.Fatalf("then came %v", got)
	}
}

func TestAnUrgentFactDoesNotWaitAndKeepsItsPlace(t *testing.T) {
	c, _, _, s := openWith(t, forever)
	for round := range 50 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		c.Send(fact(a))
		c.SendNow(fact(b))
		if got := told(s.Next(t)); fmt.Sprint(got) != fmt.Sprint([]string{a, b}) {
			t.Fatalf("the frame holds %v", got)
		}
	}
}

func TestAFullFrameDoesNotWait(t *testing.T) {
	c, _, _, s := openWith(t, forever)
	for range maxFactsPerFrame - 1 {
		c.Send(fact("a"))
	}
	s.Silent(t)
	c.Send(fact("a"))
	if got := len(told(s.Next(t))); got != maxFactsPerFrame {
		t.Fatalf("the frame holds %d facts", got)
	}
}

func TestTheOpeningDoesNotWait(t *testing.T) {
	server := fakeserver.Start(t)
	r := newRecorder()
	for range maxFactsPerFrame + 1 {
		r.all = append(r.all, fact("a"))
	}
	run(t, New(Config{Server: server.Address, Window: forever}, r))
	_, hello, all := server.Accept(t)
	if hello.GetContract() != Contract || len(all) != len(r.all) {
		t.Fatalf("the opening has contract %d and %d facts", hello.GetContract(), len(all))
	}
}

func TestFactsThatAreHeldBackEndWithTheirSession(t *testing.T) {
	c, r, server, s := openWith(t, 100*time.Millisecond)
	c.Send(fact("old"))
	s.End(status.Error(codes.Unavailable, "draining"))
	wait(t, r.closed)
	s, _, all := server.Accept(t)
	wait(t, r.ready)
	c.SendNow(fact("new"))
	if got := told(s.Next(t)); len(all) != 0 || fmt.Sprint(got) != "[new]" {
		t.Fatalf("the new session opened with %v and was told %v", all, got)
	}
}

func TestFactsThatStandTogetherShareFrames(t *testing.T) {
	var queue []item
	for i := range 2*maxFactsPerFrame + 1 {
		queue = append(queue, item{fact: fact(fmt.Sprint(i))})
	}
	queue = append(queue, item{frame: preFilter(1)}, item{fact: fact("x")}, item{fact: fact("y")})
	big := strings.Repeat("v", maxFactsBytes/2+1)
	queue = append(queue, item{fact: fact(big)}, item{fact: fact(big)})
	var sizes []int
	for _, frame := range pack(queue) {
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
	c := New(Config{Server: server.Address, MaxQueue: 5}, r)
	hungUp := make(chan error, 1)
	c.begin(&pb.Hello{}, nil, func(err error) { hungUp <- err })
	for i := range 3 { // beside Hello and Synced
		if !c.Send(fact(fmt.Sprint(i))) {
			t.Fatal("the queue should have room")
		}
	}
	if c.Send(fact("too many")) || c.SendNow(fact("and now there is no session")) {
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
