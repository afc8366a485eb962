// SPDX-License-Identifier: Apache-2.0

// Package session keeps the one stream between muster-scheduler and muster-server.
//
// It knows frames, calls, deadlines and reconnecting, and nothing about gangs. Sending only appends to a queue
// in memory: no caller ever waits for the network, except in Call.Wait, which has a deadline. Whatever goes
// wrong on the stream ends the session and never the process; the next session starts with a snapshot.
package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
)

// Contract is the version of the contract this build speaks.
const Contract = 1

var (
	// ErrNotConnected is returned while there is no session that the server welcomed.
	ErrNotConnected = errors.New("muster-server is not connected")
	// ErrTimeout is returned by a call whose reply did not come in time.
	ErrTimeout = errors.New("muster-server did not answer in time")

	errOverflow = errors.New("the server does not keep up: too many frames wait to be sent")
	errSilent   = errors.New("the server left several calls in a row unanswered")
)

// Handler is the other side of a Client within the scheduler. All its methods are called from one goroutine.
type Handler interface {
	// Open is called when a stream stands. It calls begin once with the frames that open the session, while it
	// holds whatever lock orders its later calls of Send and Ask: those then follow the opening.
	Open(begin func(opening []*pb.SchedulerFrame))
	// Ready is called when the server has welcomed the session.
	Ready()
	// Directives is called for each Directives frame. An error ends the session.
	Directives(*pb.Directives) error
	// Late is called with the reply to a call that was given up, so that what it ordered can be undone.
	Late(request *pb.SchedulerFrame, reply *pb.ServerFrame)
	// Closed is called when a session that was opened has ended.
	Closed(err error)
}

// Client keeps a session open for as long as Run runs.
type Client struct {
	config  Config
	handler Handler

	mu       sync.Mutex
	live     bool // between begin and the end of the session: frames may be queued
	welcomed bool // between Welcome and the end of the session: calls may be made
	queue    []*pb.SchedulerFrame
	wake     chan struct{}
	cancel   context.CancelCauseFunc
	calls    calls
}

// New returns a client for a valid config.
func New(config Config, handler Handler) *Client {
	if config.MaxQueue <= 0 {
		config.MaxQueue = defaultMaxQueue
	}
	return &Client{config: config, handler: handler, wake: make(chan struct{}, 1)}
}

// Run holds a session open until ctx ends.
func (c *Client) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	delay := minBackoff
	lastLogged := ""
	for ctx.Err() == nil {
		welcomed, err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if welcomed {
			delay, lastLogged = minBackoff, ""
		}
		// A server that is away for an hour must not fill the log with one and the same line.
		if text := fmt.Sprint(err); text != lastLogged {
			logger.Info("No session with muster-server; gang pods are held until it is back", "server", c.config.Server, "err", err)
			lastLogged = text
		} else {
			logger.V(4).Info("Still no session with muster-server", "server", c.config.Server, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay/2 + rand.N(delay)):
		}
		delay = min(2*delay, maxBackoff)
	}
}

// session is one life of the stream. It reports whether the server welcomed it, and why it ended.
func (c *Client) session(ctx context.Context) (welcomed bool, err error) {
	conn, err := c.config.dial(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := pb.NewSchedulingClient(conn).Session(ctx)
	if err != nil {
		return false, err
	}
	c.handler.Open(func(opening []*pb.SchedulerFrame) { c.begin(opening, cancel) })

	var sender sync.WaitGroup
	sender.Go(func() {
		if err := c.sendAll(ctx, stream); err != nil {
			cancel(err)
		}
	})
	patience := time.AfterFunc(welcomeTimeout, func() { cancel(errors.New("the server sent no Welcome")) })
	err = c.receiveAll(ctx, stream, patience)
	patience.Stop()
	// The reason for which we hung up says more than the "canceled" that the stream then reports.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(err)
	sender.Wait()
	welcomed = c.end()
	c.handler.Closed(err)
	return welcomed, err
}

func (c *Client) begin(opening []*pb.SchedulerFrame, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.welcomed, c.cancel = true, false, cancel
	c.queue = append([]*pb.SchedulerFrame(nil), opening...)
	c.signal()
}

func (c *Client) welcome() {
	c.mu.Lock()
	c.welcomed = true
	c.mu.Unlock()
	metrics.SessionConnected.Set(1)
}

func (c *Client) end() (welcomed bool) {
	metrics.SessionConnected.Set(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	welcomed = c.welcomed
	c.live, c.welcomed, c.cancel, c.queue = false, false, nil, nil
	c.calls.failAll()
	return welcomed
}

// Connected says whether the server has welcomed the current session.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live && c.welcomed
}

// Send queues a frame. False means that there is no session; the next one will start from a snapshot.
func (c *Client) Send(frame *pb.SchedulerFrame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.push(frame)
}

func (c *Client) push(frame *pb.SchedulerFrame) bool {
	if !c.live {
		return false
	}
	if len(c.queue) >= c.config.MaxQueue {
		c.hangUp(errOverflow)
		return false
	}
	c.queue = append(c.queue, frame)
	c.signal()
	return true
}

// hangUp ends the session from our side; session does the rest.
func (c *Client) hangUp(err error) {
	c.live, c.queue = false, nil
	if c.cancel != nil {
		c.cancel(err)
	}
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (c *Client) take() []*pb.SchedulerFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames := c.queue
	c.queue = nil
	return frames
}
