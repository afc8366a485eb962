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
"""

from collections.abc import Callable, Iterable, Iterator

from muster.core import reasons
from muster.core.decision import Admit, Allow, Effect, Hold, Mark, Reject, Verdict
from muster.core.gang import Gang, Member, TimeoutMark
from muster.core.model import GangKey, GroupId, MatchPolicy, Mode, OnTimeout, Phase, PodUid, SortKey, Surroundings
from muster.core.order import inner_order
from muster.core.reasons import Reason, Why

BACKOFF_FIRST, BACKOFF_MAX = 1.0, 10.0
NUDGE = 10.0  # admitted members that nothing is heard of are named again: a lost wake-up costs time, not the gang
REMIND = 30.0


class Group:
    def __init__(
        self, group_id: GroupId, wanted: tuple[GangKey, ...], surroundings: Surroundings | None = None
    ) -> None:
        self.id = group_id
        self.wanted = wanted
        self.namespaces = {key.partition("/")[0] for key in wanted}
        self._surroundings = surroundings or Surroundings()
        self.gangs: dict[GangKey, Gang] = {}
        self.cycle = 0
        self.running = False  # a cycle is under way
        self.trying: dict[PodUid, Member] = {}
        self.admitted: dict[PodUid, Member] = {}
        self.commits: set[int] = set()  # orders to let members go that the scheduler has not answered yet
        self.deadline: float | None = None
        self.waits = 0.0  # how long a wait is by the settings seen last; core.py keeps it
        self.retry_at: float | None = None
        self.failed_at = 0.0
        self.setbacks = 0
        self.failure: Why | None = None
        self.message = ""  # why the last failed member found no node, in the scheduler's words
        self.nudge_at: float | None = None
        self.stirred_at = self.untold_since = 0.0  # when something happened to it; since when somebody is to be told
        self.remind_at: float | None = None  # timeout marks that nobody has seen on the pods are ordered again
        self.late: GangKey | None = None  # the gang for whose sake the group ran out of time
        # standoff.py reads and sets these
        self.blocked: Reason | None = None  # what the last tries came to, since a member got a place
        self.moved_at = 0.0  # when something last changed for those with a place
        self.yields_to: dict[GroupId, Group] = {}  # it gave its places back for these and stays back
        self.vain = 0  # so often that helped nobody
        self._rank: tuple[int, int] | None = None
        self._next_index = 0

    # ---- what is true -----------------------------------------------------------------------------------

    def members(self) -> Iterator[Member]:
        for gang in self.gangs.values():
            yield from gang.members.values()

    def in_phase(self, phase: Phase) -> list[Member]:
        return [member for gang in self.gangs.values() for member in gang.in_phase(phase)]

    def count(self, phase: Phase) -> int:
        return sum(gang.count(phase) for gang in self.gangs.values())

    def free(self, gang: Gang) -> bool:
        """The gang rule binds this gang no more (the document's After-Gang)."""
        if not gang.satisfied or gang.spec is None or gang.marked:
            return False
        match gang.spec.policy:
            case MatchPolicy.ONCE_SATISFIED:
                return True
            case MatchPolicy.WAITING_AND_RUNNING:
                return gang.lacking() == 0
            case MatchPolicy.ONLY_WAITING:  # those who run bind nobody, so there must be somebody to bind
                return not gang.eligible and not gang.count(Phase.WAITING)

    def quorum(self) -> bool:
        return all(self.free(gang) or gang.lacking() == 0 for gang in self.gangs.values())

    def lacking(self) -> int:
        return sum(gang.lacking() for gang in self.gangs.values() if not self.free(gang))

    def ready(self) -> list[Member]:
        """Who may be let through now: everyone with a place if nothing lacks, else those of gangs that are free."""
        if self.quorum():
            return self.in_phase(Phase.WAITING)
        return [member for gang in self.gangs.values() if self.free(gang) for member in gang.in_phase(Phase.WAITING)]

    def obstacle(self) -> Why | None:
        """What keeps the group from being tried at all, if anything. Time and room are no obstacles."""
        free = all(self.free(gang) for gang in self.gangs.values())
        # Before anything that could tell one namespace about a gang of another.
        if not free and len(self.namespaces) > 1 and not self.namespaces <= self._surroundings.consenting:
            return reasons.group_not_allowed()
        for gang in self.gangs.values():
            if gang.spec is None:
                return gang.unsettled()
            if gang.marked:
                return reasons.timed_out(self.late if self.late in self.gangs else gang.key, self.wait)
        if free:
            return None
        missing = [key for key in self.wanted if key not in self.gangs]
        if missing and not all(gang.satisfied for gang in self.gangs.values()):  # those that ran have started together
            return reasons.group_incomplete(next(iter(self.gangs)), missing)
        for gang in self.gangs.values():
            if gang.spec is None or self.free(gang):
                continue
            if (oversized := gang.oversized(self._surroundings.capacity)) is not None:
                return oversized
            known = gang.placed() + gang.eligible
            if known < gang.spec.min:
                return reasons.not_enough_members(gang.key, known, gang.spec.min)
        return None

    @property
    def holds(self) -> bool:
        """It sits on places and cannot start yet."""
        return self.count(Phase.WAITING) > 0 and self.lacking() > 0

    @property
    def stuck(self) -> bool:
        return self.blocked is not None and not self.commits and self.holds

    @property
    def rank(self) -> tuple[int, int]:
        """Priority and creation: those of its least important and of its oldest member, so that nobody gains rank by
        company. For good, since sort keys are made of it."""
        if self._rank is None:
            pods = [member.pod for member in self.members() if member.usable or member.phase is Phase.WAITING]
            if not pods:
                return (0, 0)  # nobody who could be queued: it is not for good yet
            self._rank = (min(pod.priority for pod in pods), min(pod.created_ns for pod in pods))
        return self._rank

    def progress(self) -> float:
        """The share of its minimum that has a place."""
        bound_by_it = [gang for gang in self.gangs.values() if gang.spec and not self.free(gang)]
        wanted = sum(gang.spec.min for gang in bound_by_it if gang.spec)
        return 1 - self.lacking() / wanted if wanted else 1.0

    def _would_release(self, member: Member) -> int:
        """How many members with a place a failure of this one costs it."""
        strict = member.gang.spec is None or member.gang.spec.mode is Mode.STRICT
        return self.count(Phase.WAITING) if strict else 0

    def due(self) -> float | None:
        """When to look at this group again although nothing happened."""
        if self.commits:
            return None  # the scheduler is about to say how it went
        nudge_at = self.nudge_at if self.trying and self.retry_at is None else None
        instants = (self.deadline, self.retry_at, nudge_at, self.remind_at)
        return min((at for at in instants if at is not None), default=None)

    # ---- what follows from it -----------------------------------------------------------------------------

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

    @property
    def wait(self) -> float:
        return min((gang.spec.wait for gang in self.gangs.values() if gang.spec), default=0.0)

    # ---- steps --------------------------------------------------------------------------------------------

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

    def _fresh(self, gang: Gang) -> list[Member]:
        """Members that had no try in this cycle, those with the fewest failures first."""
        fresh = [member for member in gang.members.values() if member.eligible and member.tried < self.cycle]
        return sorted(fresh, key=lambda member: (member.failures, inner_order(member.pod)))

    def probing(self) -> bool:
        """After a setback a strict group sends ahead the member that failed, and the others when that one has a place:
        a gang that still does not fit then costs the scheduler one attempt and not one for each member."""
        strict = all(gang.spec and gang.spec.mode is Mode.STRICT for gang in self.gangs.values())
        return strict and self.setbacks > 0 and not self.count(Phase.WAITING)

    def companions(self, member: Member) -> tuple[PodUid, ...] | None:
        """The members that have to be placed besides this one for all minimums to be met; None if too few are left."""
        chosen: list[PodUid] = []
        for gang in self.gangs.values():
            if self.free(gang):
                continue
            wanted = gang.lacking() - (gang is member.gang)
            under_way = [m for m in self.trying.values() if m.gang is gang and m is not member]
            found = [m.uid for m in (*under_way, *self._fresh(gang))][: max(0, wanted)]
            if len(found) < wanted:
                return None
            chosen += found
        return tuple(chosen)

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
