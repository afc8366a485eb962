// SPDX-License-Identifier: Apache-2.0

// Package session keeps the one stream between muster-scheduler and muster-server.
//
// It knows frames, calls, deadlines and reconnecting, and nothing about gangs. Sending only appends to a queue
// in memory: no caller ever waits for the network, except in Call.Wait, which has a deadline. Facts rest in that queue
// for a moment so that they share frames; see Config.Window. Whatever goes wrong on the stream ends the session and
// never the process; the next session starts with a snapshot.
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

	errOverflow = errors.New("the server does not keep up: too many facts and calls wait to be sent")
	errSilent   = errors.New("the server left several calls in a row unanswered")
)

// Handler is the other side of a Client within the scheduler. All its methods are called from one goroutine.
type Handler interface {
	// Open is called when a stream stands. It calls begin once with all there is, while it holds whatever lock orders
	// its later calls of Send and Ask: those then follow the opening.
	Open(begin func(hello *pb.Hello, all []*pb.Fact))
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
	live     bool // between begin and the end of the session: facts may be queued
	welcomed bool // between Welcome and the end of the session: calls may be made
	queue    []item
	window   *time.Timer   // runs while facts are held back
	wake     chan struct{} // has a value if the queue is to be sent now
	cancel   context.CancelCauseFunc
	calls    calls
}

// item is what stands in the queue: a fact, or a frame that holds something else.
type item struct {
	fact  *pb.Fact
	frame *pb.SchedulerFrame
}

// New returns a client for a valid config.
func New(config Config, handler Handler) *Client {
	if config.MaxQueue <= 0 {
		config.MaxQueue = defaultMaxQueue
	}
	if config.Window <= 0 {
		config.Window = defaultWindow
	}
	c := &Client{config: config, handler: handler, wake: make(chan struct{}, 1)}
	c.window = time.AfterFunc(time.Hour, c.flush)
	c.window.Stop()
	return c
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
	c.handler.Open(func(hello *pb.Hello, all []*pb.Fact) { c.begin(hello, all, cancel) })

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

func (c *Client) begin(hello *pb.Hello, all []*pb.Fact, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.welcomed, c.cancel = true, false, cancel
	c.queue = make([]item, 0, len(all)+2)
	c.queue = append(c.queue, item{frame: &pb.SchedulerFrame{Body: &pb.SchedulerFrame_Hello{Hello: hello}}})
	for _, fact := range all {
		c.queue = append(c.queue, item{fact: fact})
	}
	c.queue = append(c.queue, item{frame: &pb.SchedulerFrame{Body: &pb.SchedulerFrame_Synced{Synced: &pb.Synced{}}}})
	c.flush()
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

// Send queues a fact, which may wait for others to share its frame. False means that there is no session; the next one
// will start from a snapshot.
func (c *Client) Send(fact *pb.Fact) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.push(item{fact: fact}, false)
}

// SendNow queues a fact that the server may act on: neither it nor any before it waits any longer.
func (c *Client) SendNow(fact *pb.Fact) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.push(item{fact: fact}, true)
}

func (c *Client) push(next item, now bool) bool {
	if !c.live {
		return false
	}
	if len(c.queue) >= c.config.MaxQueue {
		c.hangUp(errOverflow)
		return false
	}
	c.queue = append(c.queue, next)
	switch {
	case now || len(c.queue) >= maxFactsPerFrame:
		c.flush()
	case len(c.queue) == 1:
		c.window.Reset(c.config.Window)
	}
	return true
}

// hangUp ends the session from our side; session does the rest.
func (c *Client) hangUp(err error) {
	c.live, c.queue = false, nil
	if c.cancel != nil {
		c.cancel(err)
	}
}

// flush has the queue sent. That it is empty by then does no harm.
func (c *Client) flush() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (c *Client) take() []item {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queue
	c.queue = nil
	return queue
}
