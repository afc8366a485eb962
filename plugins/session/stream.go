// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"muster.dev/muster/plugins/metrics"
	"muster.dev/muster/plugins/pb"
)

// sendAll writes what is queued until the session ends. Only this goroutine numbers frames, in queue order.
func (c *Client) sendAll(ctx context.Context, stream pb.Scheduling_SessionClient) error {
	seq := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		for _, frame := range pack(c.take()) {
			seq++
			frame.Seq = seq
			if err := stream.Send(frame); err != nil {
				// Send says no more than EOF; receiveAll gets the status.
				return nil
			}
			if facts := frame.GetFacts(); facts != nil {
				metrics.FactsSent.Add(float64(len(facts.GetFacts())))
			}
		}
	}
}

// pack puts facts that stand next to each other into one frame. The order of everything stays.
func pack(queue []item) (frames []*pb.SchedulerFrame) {
	var open *pb.Facts // those of the last frame, if more may be added
	size := 0
	for _, next := range queue {
		if next.fact == nil {
			frames, open = append(frames, next.frame), nil
			continue
		}
		n := proto.Size(next.fact)
		if open == nil || size+n > maxFactsBytes || len(open.Facts) == maxFactsPerFrame {
			open, size = &pb.Facts{}, 0
			frames = append(frames, &pb.SchedulerFrame{Body: &pb.SchedulerFrame_Facts{Facts: open}})
		}
		open.Facts = append(open.Facts, next.fact)
		size += n
	}
	return frames
}

// receiveAll reads until the stream ends or a frame breaks the contract.
func (c *Client) receiveAll(ctx context.Context, stream pb.Scheduling_SessionClient, patience *time.Timer) error {
	welcomed := false
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		if welcome := frame.GetWelcome(); welcome != nil {
			if welcomed {
				return errors.New("the server sent a second Welcome")
			}
			if welcome.GetContract() != Contract {
				return fmt.Errorf("the server speaks contract %d, this scheduler speaks %d", welcome.GetContract(), Contract)
			}
			welcomed = true
			patience.Stop()
			c.welcome()
			klog.FromContext(ctx).Info("Session with muster-server stands", "server", c.config.Server, "serverEpoch", cut(welcome.GetEpoch()))
			c.handler.Ready()
			continue
		}
		if !welcomed {
			return fmt.Errorf("the server's first frame is %T, not Welcome", frame.GetBody())
		}
		if err := c.receive(frame); err != nil {
			return err
		}
	}
}

func (c *Client) receive(frame *pb.ServerFrame) error {
	switch body := frame.GetBody().(type) {
	case *pb.ServerFrame_Directives:
		return c.handler.Directives(body.Directives)
	case *pb.ServerFrame_PreFilter:
		return c.answer(body.PreFilter.GetCallId(), frame)
	case *pb.ServerFrame_PostFilter:
		return c.answer(body.PostFilter.GetCallId(), frame)
	case *pb.ServerFrame_Permit:
		switch body.Permit.GetVerdict() {
		case pb.Verdict_VERDICT_PASS, pb.Verdict_VERDICT_WAIT, pb.Verdict_VERDICT_REFUSE:
			return c.answer(body.Permit.GetCallId(), frame)
		}
		return fmt.Errorf("call %d was answered with verdict %d", body.Permit.GetCallId(), body.Permit.GetVerdict())
	}
	return fmt.Errorf("a frame without a known body: %T", frame.GetBody())
}

// cut keeps what a server says about itself out of the log in bulk.
func cut(text string) string {
	if len(text) > 64 {
		return text[:64]
	}
	return text
}
