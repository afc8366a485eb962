# SPDX-License-Identifier: Apache-2.0
"""Gangs that start together (a lone gang is a group of one): cycles, quorum, wait and backoff, as one.

A cycle picks as many members as the minimums lack, those with the fewest failures first, and admits just these to
the scheduler's queue; the rest is held as surplus. Each picked member ends its try in one of two ways:

    Permit      it has a node and waits; when no gang lacks anything the whole group is let through (a commit)
    a failure   Strict: everything is given back and the group backs off as one
                NonStrict: it is replaced by a member that was not tried yet, if there is one; those with a place
                keep it until the deadline, and the rest is tried again after a backoff

So a member that can never be placed moves to the end of the line and does not keep the gang from running, and a
cycle needs no count of declared members to end. docs/decisions/0003 compares this with the document's counters.

The state and the questions are in standing.py, the steps in steps.py; here is what follows from what happens.
"""

from collections.abc import Callable

from muster.core import reasons
from muster.core.decision import Allow, Effect, Verdict
from muster.core.gang import Gang, Member
from muster.core.model import GroupId, Mode, Phase, PodUid
from muster.core.reasons import Reason, Why
from muster.core.steps import BACKOFF_FIRST, NUDGE, Steps


class Group(Steps):
    def advance(self, now: float, next_commit: Callable[[GroupId], int], out: list[Effect]) -> None:
        """Do whatever follows from what is true now; safe at any time."""
        self._recall(out)
        if self.commits:
            self._admit_free(out)
            return
        if self.deadline is not None and now >= self.deadline:
            self._time_out(now, out)
        if self.remind_at is not None and now >= self.remind_at:
            self._remind(now, out)
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self.vain += bool(self.yields_to)
            self.yields_to.clear()
        self._recognize()
        self._admit_free(out)
        why = self.obstacle()
        if why is not None:
            self._stand_down(why, now, out)
        if self.ready():
            out.append(self.commit(next_commit(self.id)))
        elif why is None and self.retry_at is None:
            self._top_up(now, out)
            if self.trying and self.nudge_at is not None and now >= self.nudge_at:
                self._admit(list(self.trying.values()), now, out)

    def start_over(self, gang: Gang) -> None:
        """The object that declared the gang is gone, or another has its name. What was reached counts no more, unless
        somebody runs: a new server would see these and conclude that the minimum had been there."""
        if not gang.count(Phase.BINDING) + gang.count(Phase.BOUND):
            gang.satisfied = False

    def wake(self, earliest: float) -> None:
        """Something may have helped: cut the backoff short, but leave the scheduler a second to breathe."""
        if self.retry_at is not None and not self.yields_to:
            self.retry_at = max(earliest, min(self.retry_at, self.failed_at + BACKOFF_FIRST))

    def give_way(self, others: "list[Group]", now: float, until: float, out: list[Effect]) -> None:
        """Give everything back and stay back, so that the others (the most deserving last) can finish."""
        winner = max(others[-1].gangs.values(), key=lambda gang: gang.lacking())
        lacking = winner.lacking()
        why = reasons.gave_way(
            next(iter(self.gangs)), self.count(Phase.WAITING), winner.key, lacking, lacking + winner.placed()
        )
        self._stop(why, out)
        self.failure, self.failed_at, self.running, self.retry_at = why, now, False, until
        self.yields_to = {other.id: other for other in others}

    def come_back(self, now: float) -> None:
        """Those for whom it stepped back have started, or gave up."""
        self.retry_at, self.vain = now, 0

    def place(self, member: Member, node: str, now: float, asked: bool, went: bool) -> Verdict:
        """A member reached Permit. PASS and still WAITING means that it is ready: the caller commits."""
        if member.phase is not Phase.PENDING:
            return Verdict.WAIT if member.phase is Phase.WAITING else Verdict.PASS
        free, trying = self.free(member.gang), member.uid in self.trying
        if not (free or trying or went):
            member.echoes += 1
            return Verdict.REFUSE  # its try was taken back while it was on its way here
        member.node, member.echoes = node, 0
        self._leave_try(member)
        if went or (free and asked):
            member.gang.move(member, Phase.BINDING)
            return Verdict.PASS
        member.gang.move(member, Phase.WAITING)
        self.blocked, self.moved_at = None, now
        if self.deadline is None:
            self.deadline = now + self.wait
        self.nudge_at = now + NUDGE
        if self.commits:
            return Verdict.WAIT  # what the scheduler is about to report decides for this one too
        return Verdict.PASS if free or self.quorum() else Verdict.WAIT

    def commit(self, commit_id: int, without: PodUid | None = None) -> Allow:
        """Let go whoever is ready. `without`: the pod whose own verdict carries the good news."""
        members = self.ready()
        if self.quorum():
            self.retry_at = self.failure = None
            self.running, self.setbacks, self.message, self.vain = False, 0, "", 0
        for member in members:
            member.gang.move(member, Phase.BINDING)
            member.commit = commit_id
        self.commits.add(commit_id)
        self._stop_clock()
        return Allow(commit_id, tuple(member.uid for member in members if member.uid != without))

    def committed(self, commit_id: int, missing: tuple[PodUid, ...], now: float, out: list[Effect]) -> None:
        """The scheduler let all of them go, or, if one no longer waited, none."""
        self.commits.discard(commit_id)
        members = [member for member in self.members() if member.commit == commit_id]
        if not missing:
            for member in members:
                member.gang.satisfied = True
            return
        lost = [member for member in members if member.uid in missing]
        for member in members:
            if member.phase is Phase.BINDING:
                self.undo(member, missing)
        gang = lost[0].gang.key if lost else next(iter(self.gangs))
        self._set_back(reasons.lost_place(gang, lost[0].pod.name if lost else "that was deleted", 0), now, out)

    def undo(self, member: Member, missing: tuple[PodUid, ...]) -> None:
        """Its commit failed: it is where it was before, and if it still waited the scheduler has rejected it."""
        member.gang.move(member, Phase.PENDING)
        member.node = ""
        member.echoes += member.uid not in missing

    def no_node(self, member: Member, message: str, now: float, out: list[Effect]) -> Why:
        """A member's try ended without a node."""
        self.message = message
        self._block(Reason.NO_ROOM, now)
        why = reasons.no_room(member.gang.key, member.pod.name, message, self._would_release(member))
        self.fail(member, why, now, out)
        return why

    def fail(self, member: Member, why: Why, now: float, out: list[Effect]) -> None:
        """A member's try ended without a place, or it lost the place it had."""
        self._leave_try(member)
        member.failures += 1
        self.failure = why
        if member.gang.spec is None or member.gang.spec.mode is Mode.STRICT:
            self._set_back(why, now, out)
        else:
            self._hold([member], why, out)

    def lose(self, member: Member, now: float, out: list[Effect]) -> None:
        """A member gave its node back; what that means depends on the phase it was in."""
        if member.phase is Phase.PENDING:
            if member.echoes:
                member.echoes -= 1  # the answer to our own Reject
            elif member.uid in self.trying:
                self.fail(member, reasons.lost_place(member.gang.key, member.pod.name, 0), now, out)
            return
        if member.phase is Phase.BOUND:
            return
        waited = member.phase is Phase.WAITING
        member.gang.move(member, Phase.PENDING)
        member.node = ""
        self._stop_clock()
        if member.commit in self.commits:  # the scheduler is about to report that the others stay too
            self.failure = reasons.lost_place(member.gang.key, member.pod.name, 0)
            self._hold([member], self.failure, out)
            return
        if waited and member.usable:
            why = reasons.lost_place(member.gang.key, member.pod.name, self._would_release(member))
            self.fail(member, why, now, out)
        elif not (self.free(member.gang) and member.freely and member.usable):
            # A failed bind, or a pod on its way out: nobody else is touched.
            why = reasons.bind_failed(member.gang.key, member.pod.name)
            self._hold([member], why, out)
            if not waited and not self.commits and not self.free(member.gang):
                self.failure = why
                self._back_off(now)  # a bind that fails at once must not be tried again at once, for ever

    def release(self, member: Member) -> None:
        """Its gang became free while it had a try: from now on it may try as often as it likes."""
        self._leave_try(member)
        self.admitted.pop(member.uid, None)
        member.gang.set_admitted(member, False)

    def withdraw(self, member: Member, why: Why, out: list[Effect]) -> None:
        """Take back the try or the place that a member has and may not keep."""
        if member.phase in (Phase.PENDING, Phase.WAITING):
            if member.admitted:
                self._hold([member], why, out)
            if member.phase is Phase.WAITING:
                self._give_back([member], why, out)
                self._stop_clock()

    def expel(self, gang: Gang, out: list[Effect]) -> None:
        """The gang joins another group: it takes along neither places nor tries, nor the number of a cycle."""
        why = reasons.regrouped(gang.key)
        unplaced = (Phase.PENDING, Phase.WAITING)
        self._hold([m for m in gang.members.values() if m.admitted and m.phase in unplaced], why, out)
        self._give_back(list(gang.in_phase(Phase.WAITING)), why, out)
        for member in gang.members.values():
            member.tried = 0
            self.admitted.pop(member.uid, None)
        del self.gangs[gang.key]
        self._stop_clock()

    def restore(self, member: Member, now: float) -> None:
        """A session opened: take over where the scheduler says the member stands."""
        if member.pod.node:
            self.bound(member, member.pod.node)
            member.gang.satisfied = True
        elif member.pod.standing is Phase.BINDING:
            member.gang.move(member, Phase.BINDING)
            member.gang.satisfied = True
        elif member.pod.standing is Phase.WAITING:
            member.gang.move(member, Phase.WAITING)
            self.moved_at = max(self.moved_at, now - member.pod.waited)
            since = now - member.pod.waited + self.wait
            self.deadline = since if self.deadline is None else min(self.deadline, since)

    def bound(self, member: Member, node: str) -> None:
        self._leave_try(member)
        self.admitted.pop(member.uid, None)
        member.node = node
        member.gang.move(member, Phase.BOUND)
        self._stop_clock()

    def forget(self, member: Member) -> None:
        """The pod is gone."""
        self._leave_try(member)
        self.admitted.pop(member.uid, None)
        if not self.count(Phase.WAITING) - (member.phase is Phase.WAITING):
            self.deadline = None
