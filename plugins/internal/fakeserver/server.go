// SPDX-License-Identifier: Apache-2.0

// Package fakeserver is a muster-server for tests that says only what the test tells it to say.
package fakeserver

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"muster.dev/muster/plugins/pb"
)

// patience is how long a test waits for what must come.
const patience = 5 * time.Second

// Server accepts sessions on a unix socket.
type Server struct {
	pb.UnimplementedSchedulingServer
	// Address is what the scheduler is configured with.
	Address  string
	path     string
	grpc     *grpc.Server
	sessions chan *Session
}

// Session is the server's end of one stream.
type Session struct {
	stream pb.Scheduling_SessionServer
	frames chan *pb.SchedulerFrame
	end    chan error
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{path: filepath.Join(t.TempDir(), "s.sock"), sessions: make(chan *Session, 16)}
	s.Address = "unix://" + s.path
	s.Listen(t)
	t.Cleanup(s.Stop)
	return s
}

// Listen starts a server that was stopped.
func (s *Server) Listen(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	s.grpc = grpc.NewServer()
	pb.RegisterSchedulingServer(s.grpc, s)
	go func(g *grpc.Server) { _ = g.Serve(listener) }(s.grpc)
}

// Stop ends all sessions and closes the socket.
func (s *Server) Stop() { s.grpc.Stop() }

// Session is the RPC.
func (s *Server) Session(stream pb.Scheduling_SessionServer) error {
	session := &Session{stream: stream, frames: make(chan *pb.SchedulerFrame, 1<<16), end: make(chan error, 1)}
	go func() {
		defer close(session.frames)
		for {
			frame, err := stream.Recv()
			if err != nil {
				return
			}
			session.frames <- frame
		}
	}()
	s.sessions <- session
	select {
	case err := <-session.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// Accept returns the next session and the facts of its opening, and welcomes it.
func (s *Server) Accept(t testing.TB) (*Session, *pb.Hello, []*pb.Fact) {
	t.Helper()
	session := s.AcceptSilently(t)
	hello := session.Next(t).GetHello()
	if hello == nil {
		t.Fatal("the first frame is not Hello")
	}
	var facts []*pb.Fact
	for {
		frame := session.Next(t)
		if frame.GetSynced() != nil {
			break
		}
		if frame.GetFacts() == nil {
			t.Fatalf("between Hello and Synced came %v", frame)
		}
		facts = append(facts, frame.GetFacts().GetFacts()...)
	}
	session.Send(t, &pb.ServerFrame{Body: &pb.ServerFrame_Welcome{Welcome: &pb.Welcome{Contract: 1, Epoch: "test"}}})
	return session, hello, facts
}

// AcceptSilently returns the next session and reads and says nothing.
func (s *Server) AcceptSilently(t testing.TB) *Session {
	t.Helper()
	select {
	case session := <-s.sessions:
		return session
	case <-time.After(patience):
		t.Fatal("no session was opened")
		return nil
	}
}

// Next returns the next frame of the scheduler.
func (s *Session) Next(t testing.TB) *pb.SchedulerFrame {
	t.Helper()
	select {
	case frame, ok := <-s.frames:
		if !ok {
			t.Fatal("the session ended")
		}
		return frame
	case <-time.After(patience):
		t.Fatal("no frame came")
	}
	return nil
}

// Silent fails the test if the scheduler sends anything for a while.
func (s *Session) Silent(t testing.TB) {
	t.Helper()
	select {
	case frame, ok := <-s.frames:
		if ok {
			t.Fatalf("unexpected frame: %v", frame)
		}
	case <-time.After(50 * time.Millisecond):
	}
}

// Ended waits until the scheduler has hung up.
func (s *Session) Ended(t testing.TB) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case _, ok := <-s.frames:
			if !ok {
				return
			}
		case <-deadline:
			t.Fatal("the session did not end")
		}
	}
}

// Send says something to the scheduler.
func (s *Session) Send(t testing.TB, frame *pb.ServerFrame) {
	t.Helper()
	if err := s.stream.Send(frame); err != nil {
		t.Fatal(err)
	}
}

// Direct sends directives in one frame.
func (s *Session) Direct(t testing.TB, directives ...*pb.Directive) {
	t.Helper()
	s.Send(t, &pb.ServerFrame{Body: &pb.ServerFrame_Directives{Directives: &pb.Directives{Directives: directives}}})
}

// End ends the stream with a status.
func (s *Session) End(err error) { s.end <- err }

// Try returns the next frame, or nil if none comes in time.
func (s *Session) Try(within time.Duration) *pb.SchedulerFrame {
	select {
	case frame := <-s.frames:
		return frame
	case <-time.After(within):
		return nil
	}
}
