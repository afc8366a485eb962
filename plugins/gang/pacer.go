// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"sync"
	"time"
)

// pacer turns any number of events into few calls: the first of a series comes at once, the others together when the
// interval is over.
type pacer struct {
	interval time.Duration
	call     func()

	mu      sync.Mutex
	pending bool
	last    time.Time
}

func (p *pacer) poke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending {
		return
	}
	p.pending = true
	time.AfterFunc(max(0, p.interval-time.Since(p.last)), p.fire)
}

func (p *pacer) fire() {
	p.mu.Lock()
	p.pending, p.last = false, time.Now()
	p.mu.Unlock()
	p.call()
}
