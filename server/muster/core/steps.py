# SPDX-License-Identifier: Apache-2.0
"""The steps a group's decisions are made of: admit, hold, give back, back off, run out of time."""

from collections.abc import Iterable

from muster.core import reasons
from muster.core.decision import Admit, Effect, Hold, Mark, Reject
from muster.core.gang import Member, TimeoutMark
from muster.core.model import Mode, OnTimeout, Phase, PodUid, SortKey
from muster.core.order import inner_order
from muster.core.reasons import Reason, Why
from muster.core.standing import Standing

BACKOFF_FIRST, BACKOFF_MAX = 1.0, 10.0
NUDGE = 10.0  # admitted members that nothing is heard of are named again: a lost wake-up costs time, not the gang
REMIND = 30.0  # timeout marks that nobody has seen on the pods are ordered again


class Steps(Standing):
    def _recognize(self) -> None:
        """Enough members run, although no commit of ours says so: that they were let through is a fact."""
        for gang in self.gangs.values():
            if not gang.satisfied and gang.spec and not gang.count(Phase.WAITING) and gang.lacking() == 0:
                gang.satisfied = True

    def _recall(self, out: list[Effect]) -> None:
        """A gang that was free is so no more, because some of those who ran are gone."""
        for gang in self.gangs.values():
            if gang.freed and not self.free(gang):
                gang.freed = False
                loose = [m for m in gang.members.values() if m.admitted and m.freely and m.phase is Phase.PENDING]
                if gang.spec and loose:
                    self._hold(loose, self.obstacle() or reasons.surplus(gang.key, gang.spec.min), out)

    def _time_out(self, now: float, out: list[Effect]) -> None:
        bound_by_it = [gang for gang in self.gangs.values() if not self.free(gang)]
        short = max(bound_by_it, key=lambda gang: gang.lacking(), default=None)
        self.deadline = None
        if short is None or short.spec is None:
            return  # its settings went away, and that is an obstacle
        if not any(gang.spec and gang.spec.on_timeout is OnTimeout.FAIL for gang in bound_by_it):
            self._set_back(reasons.timed_out_and_retried(short.key, self.wait), now, out)
            return
        self._stop(reasons.timed_out(short.key, self.wait), out)
        self.running, self.setbacks, self.late = False, 0, short.key
        for gang in bound_by_it:
            for member in gang.in_phase(Phase.PENDING):
                if member.mark is TimeoutMark.NONE:
                    gang.set_mark(member, TimeoutMark.DUE)
        self._remind(now, out)

    def _remind(self, now: float, out: list[Effect]) -> None:
        """Order the marks that are due. A user can only remove what is there, so a mark that got lost on its way to the
        pod would hold the gang for ever."""
        due = tuple(member.uid for member in self.members() if member.mark is TimeoutMark.DUE)
        self.remind_at = now + REMIND if due else None
        if due:
            out.append(Mark(due))

    def _stop_clock(self) -> None:
        if not self.count(Phase.WAITING):
            self.deadline = None

    def _set_back(self, why: Why, now: float, out: list[Effect]) -> None:
        """Give everything back, close the gates, try again later."""
        self._stop(why, out)
        self.failure = why
        self._back_off(now)

    def _back_off(self, now: float) -> None:
        self.running = False
        self.setbacks += 1
        self.failed_at = now
        self.retry_at = now + min(BACKOFF_MAX, BACKOFF_FIRST * 2 ** (self.setbacks - 1))

    def _block(self, reason: Reason, now: float) -> None:
        if self.blocked is not reason:
            self.blocked, self.moved_at = reason, now

    def _stand_down(self, why: Why, now: float, out: list[Effect]) -> None:
        """It cannot be tried now. Places are given back, unless a lenient group may still become whole."""
        bound_by_it = [gang for gang in self.gangs.values() if not self.free(gang)]
        lenient = all(gang.spec and gang.spec.mode is Mode.NON_STRICT for gang in bound_by_it)
        if why.reason is Reason.NOT_ENOUGH_MEMBERS and lenient:
            self._hold(self._unfree(self.admitted.values()), why, out)
            self._block(why.reason, now)
        else:
            self._stop(why, out)
        self.running = False

    def _stop(self, why: Why, out: list[Effect]) -> None:
        self._hold(self._unfree(self.admitted.values()), why, out)
        self._give_back(self._unfree(self.in_phase(Phase.WAITING)), why, out)
        self._stop_clock()
        self.blocked = None

    def _unfree(self, members: Iterable[Member]) -> list[Member]:
        """Those without a node for good whom the gang rule binds: what befalls the group does not touch the others."""
        bound_by_it = {gang.key for gang in self.gangs.values() if not self.free(gang)}
        unplaced = (Phase.PENDING, Phase.WAITING)
        return [member for member in members if member.phase in unplaced and member.gang.key in bound_by_it]

    def _give_back(self, waiting: list[Member], why: Why, out: list[Effect]) -> None:
        for member in waiting:
            member.gang.move(member, Phase.PENDING)
            member.node = ""
            member.echoes += 1
        if waiting:
            out.append(Reject(tuple(member.uid for member in waiting), why.sentence))

    def _hold(self, members: list[Member], why: Why, out: list[Effect]) -> None:
        for member in members:
            self._leave_try(member)
            self.admitted.pop(member.uid, None)
            member.gang.set_admitted(member, False)
        if members:
            out.append(Hold(tuple(member.uid for member in members), why.sentence))

    def _leave_try(self, member: Member) -> None:
        if self.trying.pop(member.uid, None):
            member.gang.trying -= 1

    def _admit_free(self, out: list[Effect]) -> None:
        for gang in self.gangs.values():
            if gang.outside and self.free(gang):
                gang.freed = True
                members = [m for m in gang.members.values() if m.eligible and not m.admitted]
                self._send(members, out, free=True)

    def _top_up(self, now: float, out: list[Effect]) -> None:
        """Admit as many members as the minimums still lack; start or end the cycle if that is due."""
        short = [gang for gang in self.gangs.values() if not self.free(gang) and gang.lacking() > gang.trying]
        if not short or (self.trying and self.probing()):
            return
        if not self.running:
            self.running = True
            self.cycle += 1
        picks: list[Member] = []
        for gang in short:
            picks += self._fresh(gang)[: gang.lacking() - gang.trying]
        if picks and self.probing():
            picks = [max(picks, key=lambda member: member.failures)]
        if picks:
            self._admit(picks, now, out)
        elif not self.trying:
            self._back_off(now)  # a lenient cycle in which everybody had a try and too few found a place

    def _admit(self, members: list[Member], now: float, out: list[Effect]) -> None:
        for member in members:
            member.tried = self.cycle
            if member.uid not in self.trying:
                self.trying[member.uid] = member
                member.gang.trying += 1
        self.nudge_at = now + NUDGE
        self._send(members, out, free=False)

    def _send(self, members: list[Member], out: list[Effect], *, free: bool) -> None:
        admissions: list[tuple[PodUid, SortKey]] = []
        for member in sorted(members, key=lambda member: inner_order(member.pod)):
            member.gang.set_admitted(member, True)
            member.freely = free
            self.admitted[member.uid] = member
            admissions.append((member.uid, self._key(member)))
        # The last one too: that the quorum is complete comes back as an Allow, and the scheduling loop never waits.
        quiet = 0 if free else self.lacking()
        out.append(Admit(self.id, self.cycle, tuple(admissions), quiet, self.wait, free))

    def _key(self, member: Member) -> SortKey:
        """Given once and for good: a key must not change while its pod is in the queue."""
        if member.key is None:
            priority, created = self.rank
            member.key = SortKey(min(priority, member.pod.priority), created, self.id, self._next_index)
            self._next_index += 1
        return member.key
