// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"muster.dev/muster/plugins/pb"
)

// maxAbandoned bounds the calls that were given up and whose reply may still come.
const maxAbandoned = 1024

// Call is a request that waits for its reply.
type Call struct {
	client  *Client
	id      uint64
	request *pb.SchedulerFrame
	// reply gets exactly one value, unless the call is abandoned first. Nil means that the session ended.
	reply chan *pb.ServerFrame
}

// calls are those of the current session; Client.mu guards them.
type calls struct {
	lastID       uint64
	pending      map[uint64]*Call
	abandoned    map[uint64]*Call
	timeoutsARow int
}

// Ask queues a request for which build gets the call id. The caller then calls Wait, holding no lock.
func (c *Client) Ask(build func(id uint64) *pb.SchedulerFrame) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.live || !c.welcomed {
		return nil, ErrNotConnected
	}
	// Ids are never used twice in the life of the process, so a stray reply cannot answer another call.
	c.calls.lastID++
	call := &Call{client: c, id: c.calls.lastID, reply: make(chan *pb.ServerFrame, 1)}
	call.request = build(call.id)
	if !c.push(item{frame: call.request}, true) {
		return nil, ErrNotConnected
	}
	if c.calls.pending == nil {
		c.calls.pending = map[uint64]*Call{}
		c.calls.abandoned = map[uint64]*Call{}
	}
	c.calls.pending[call.id] = call
	return call, nil
}

// Wait returns the reply, whose kind fits the request, or ErrTimeout, or ErrNotConnected if the session ended.
func (call *Call) Wait(ctx context.Context, timeout time.Duration) (*pb.ServerFrame, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case frame := <-call.reply:
		return result(frame)
	case <-ctx.Done():
	case <-timer.C:
	}
	if call.client.abandon(call) {
		return nil, ErrTimeout
	}
	// The reply won the race. It counts: what follows it on the stream was decided knowing it.
	return result(<-call.reply)
}

func result(frame *pb.ServerFrame) (*pb.ServerFrame, error) {
	if frame == nil {
		return nil, ErrNotConnected
	}
	return frame, nil
}

// abandon gives a call up. False: it was answered or failed already.
func (c *Client) abandon(call *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.calls.pending[call.id]; !ok {
		return false
	}
	delete(c.calls.pending, call.id)
	if len(c.calls.abandoned) < maxAbandoned {
		c.calls.abandoned[call.id] = call
	}
	c.calls.timeoutsARow++
	if c.calls.timeoutsARow >= maxTimeoutsInARow {
		c.hangUp(errSilent)
	}
	return true
}

// answer hands a reply to its call. A reply to no known call is passed over; one of the wrong kind is an error.
func (c *Client) answer(id uint64, frame *pb.ServerFrame) error {
	c.mu.Lock()
	call, pending := c.calls.pending[id]
	if !pending {
		call = c.calls.abandoned[id]
	}
	if call == nil {
		c.mu.Unlock()
		return nil
	}
	if !fits(call.request, frame) {
		c.mu.Unlock()
		return fmt.Errorf("call %d was answered with %T", id, frame.GetBody())
	}
	delete(c.calls.pending, id)
	delete(c.calls.abandoned, id)
	c.calls.timeoutsARow = 0
	if pending {
		call.reply <- frame // never blocks: the channel has room for the one value
	}
	c.mu.Unlock()
	if !pending {
		c.handler.Late(call.request, frame)
	}
	return nil
}

// fits says whether the frame is a reply to that kind of request.
func fits(request *pb.SchedulerFrame, frame *pb.ServerFrame) bool {
	switch request.GetBody().(type) {
	case *pb.SchedulerFrame_PreFilter:
		return frame.GetPreFilter() != nil
	case *pb.SchedulerFrame_PostFilter:
		return frame.GetPostFilter() != nil
	case *pb.SchedulerFrame_Permit:
		return frame.GetPermit() != nil
	}
	return false
}

func (cs *calls) failAll() {
	for _, call := range cs.pending {
		call.reply <- nil
	}
	clear(cs.pending)
	clear(cs.abandoned)
	cs.timeoutsARow = 0
}
