// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/plugins/pb"
)

// waitSlack is added to the wait the server named: the server ends waits, the framework's timer is a safety net.
const waitSlack = 30 * time.Second

// maxWait is the longest wait the framework's timer is set to, whatever the server says.
const maxWait = 31 * 24 * time.Hour

// table is what muster-server said last, by pod. PreEnqueue and Less read it under the lock of the scheduling
// queue, so its lock is a leaf: nothing is called while it is held.
type table struct {
	mu      sync.RWMutex
	entries map[types.UID]*entry
	// grants holds the current cycle of each group that an entry refers to.
	grants map[grantKey]*grant
	// fallback is the reason of a pod about which the server said nothing.
	fallback string
}

type entry struct {
	admitted bool
	// try says that the member may pass PreFilter once without asking.
	try   bool
	grant *grant
	// reason why it is held, if it is.
	reason string
	// key is fixed by the first Admit, even if that brought none: the queue is a heap and never sorts again.
	key   *sortKey
	keyed bool
}

// grantKey tells apart the members of a group that the gang rule still binds and those that it does not.
type grantKey struct {
	group string
	free  bool
}

// grant is what the members of one cycle of a group share.
type grant struct {
	grantKey
	cycle uint64
	// quiet Permits of this cycle in all, and those spent so far.
	quiet, spent uint32
	wait         time.Duration
	refs         int
}

func newTable() *table {
	return &table{
		entries:  map[types.UID]*entry{},
		grants:   map[grantKey]*grant{},
		fallback: reasonDisconnected,
	}
}

// know makes room for what the server will say about a pod. Without it, what is said about a uid is passed over:
// that bounds the table by the pods that exist.
func (t *table) know(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.entries[uid]; !ok {
		t.entries[uid] = &entry{reason: t.fallback}
	}
}

// forget drops a pod that is gone.
func (t *table) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[uid]; ok {
		t.release(e)
		delete(t.entries, uid)
	}
}

// holdAll withdraws every admission and gives all pods one reason, which new pods get too.
func (t *table) holdAll(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fallback = reason
	for _, e := range t.entries {
		t.release(e)
		e.admitted, e.try, e.reason = false, false, reason
	}
}

// admit stores an Admit and returns the uids it was stored for.
func (t *table) admit(a *pb.Admit) []types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.cycle(a)
	var admitted []types.UID
	for _, member := range a.GetMembers() {
		uid := types.UID(member.GetUid())
		e, ok := t.entries[uid]
		if !ok {
			continue
		}
		if e.grant != g {
			t.release(e)
			e.grant = g
			g.refs++
		}
		e.admitted, e.try, e.reason = true, true, ""
		if !e.keyed {
			e.key, e.keyed = keyOf(member.GetKey()), true
		}
		admitted = append(admitted, uid)
	}
	if g.refs == 0 {
		delete(t.grants, g.grantKey)
	}
	return admitted
}

// cycle returns the grant for an Admit. A further Admit of the same cycle changes its numbers but not what was
// spent of it: quiet_permits counts the Permits of the whole cycle.
func (t *table) cycle(a *pb.Admit) *grant {
	key := grantKey{group: a.GetGroup(), free: a.GetFree()}
	g, ok := t.grants[key]
	if !ok || g.cycle != a.GetCycle() {
		g = &grant{grantKey: key, cycle: a.GetCycle()}
		t.grants[key] = g
	}
	g.quiet, g.wait = a.GetQuietPermits(), waitOf(a.GetWaitMs())
	return g
}

func waitOf(ms int64) time.Duration {
	ms = min(max(ms, 0), int64(maxWait/time.Millisecond))
	return time.Duration(ms)*time.Millisecond + waitSlack
}

func (t *table) release(e *entry) {
	if e.grant == nil {
		return
	}
	e.grant.refs--
	if e.grant.refs == 0 && t.grants[e.grant.grantKey] == e.grant {
		delete(t.grants, e.grant.grantKey)
	}
	e.grant = nil
}

// hold stores a Hold.
func (t *table) hold(uids []string, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, uid := range uids {
		if e, ok := t.entries[types.UID(uid)]; ok {
			t.release(e)
			e.admitted, e.try, e.reason = false, false, reason
		}
	}
}

// heldBecause returns why a pod may not enter the queue, or "".
func (t *table) heldBecause(uid types.UID) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e, ok := t.entries[uid]
	switch {
	case !ok:
		return t.fallback
	case !e.admitted:
		return e.reason
	}
	return ""
}

// leave is what the table allows without asking.
type leave int

const (
	leaveRefused leave = iota // held
	leaveAsk                  // only the server can say
	leaveQuiet                // allowed once, and this spent it
	leaveLast                 // as leaveQuiet, and the cycle has no other left
	leaveFree                 // allowed any number of times
)

// preFilter spends the member's try, if it has one.
func (t *table) preFilter(uid types.UID) (leave, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[uid]
	switch {
	case !ok:
		return leaveRefused, t.fallback
	case !e.admitted:
		return leaveRefused, e.reason
	case e.grant.free:
		return leaveFree, ""
	case e.try:
		e.try = false
		return leaveQuiet, ""
	}
	return leaveAsk, ""
}

// postFilter ends the member's try, whether or not our PreFilter was reached, and says if it is free.
func (t *table) postFilter(uid types.UID) leave {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[uid]
	if !ok || !e.admitted {
		return leaveAsk
	}
	if e.grant.free {
		return leaveFree
	}
	e.try = false
	return leaveAsk
}

// permit spends a quiet Permit of the member's cycle, if one is left.
func (t *table) permit(uid types.UID) (leave, time.Duration, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[uid]
	switch {
	case !ok:
		return leaveRefused, 0, t.fallback
	case !e.admitted:
		return leaveRefused, 0, e.reason
	case e.grant.free:
		return leaveFree, 0, ""
	case e.grant.spent < e.grant.quiet:
		e.grant.spent++
		if e.grant.spent == e.grant.quiet {
			return leaveLast, e.grant.wait, ""
		}
		return leaveQuiet, e.grant.wait, ""
	}
	if e.grant.spent < math.MaxUint32 {
		e.grant.spent++ // an asked Permit is one of the cycle's too
	}
	return leaveAsk, e.grant.wait, ""
}

// key returns the sort key the server gave, or nil.
func (t *table) key(uid types.UID) *sortKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e, ok := t.entries[uid]; ok {
		return e.key
	}
	return nil
}
