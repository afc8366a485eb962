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

from collections.abc import Callable, Iterator

from muster.core import reasons
from muster.core.decision import Admit, Allow, Effect, Hold, Mark, Reject, Verdict
from muster.core.gang import Gang, Member, TimeoutMark
from muster.core.model import GangKey, GroupId, MatchPolicy, Mode, OnTimeout, Phase, PodUid, SortKey
from muster.core.order import inner_order
from muster.core.reasons import Reason, Why

BACKOFF_FIRST, BACKOFF_MAX = 1.0, 10.0
NUDGE = 10.0  # admitted members that nothing is heard of are named again: a lost wake-up costs time, not the gang


class Group:
    def __init__(self, group_id: GroupId, wanted: tuple[GangKey, ...]) -> None:
        self.id = group_id
        self.wanted = wanted
        self.gangs: dict[GangKey, Gang] = {}
        self.cycle = 0
        self.running = False  # a cycle is under way
        self.trying: dict[PodUid, Member] = {}
        self.admitted: dict[PodUid, Member] = {}
        self.commits: dict[int, tuple[PodUid, ...]] = {}
        self.satisfied = False
        self.deadline: float | None = None
        self.retry_at: float | None = None
        self.failed_at = 0.0
        self.setbacks = 0
        self.failure: Why | None = None
        self.message = ""  # why the last failed member found no node, in the scheduler's words
        self.nudge_at: float | None = None
        self._key_base: tuple[int, int] | None = None
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
        if not self.satisfied or gang.spec is None:
            return False
        if gang.spec.policy is MatchPolicy.WAITING_AND_RUNNING:
            return gang.lacking() == 0
        return gang.spec.policy is MatchPolicy.ONCE_SATISFIED

    def quorum(self) -> bool:
        return all(self.free(gang) or gang.lacking() == 0 for gang in self.gangs.values())

    def lacking(self) -> int:
        return sum(gang.lacking() for gang in self.gangs.values() if not self.free(gang))

    def obstacle(self) -> Why | None:
        """What keeps the group from being tried at all, if anything. Time and room are no obstacles."""
        for gang in self.gangs.values():
            if gang.spec is None and gang.flawed:
                flawed = next(member for member in gang.members.values() if member.declared.problems)
                return reasons.no_valid_member(gang.key, flawed.declared.problems)
            if gang.spec is None:
                return reasons.missing_pod_group(gang.key)
            if gang.marked:
                return reasons.timed_out(gang.key, gang.spec.wait)
        if all(self.free(gang) for gang in self.gangs.values()):
            return None
        first = next(iter(self.gangs.values()))
        namespace = first.key.partition("/")[0]
        if any(key.partition("/")[0] != namespace for key in self.wanted):
            return reasons.group_not_allowed(first.key)
        missing = [key for key in self.wanted if key not in self.gangs]
        if missing:
            return reasons.group_incomplete(first.key, missing)
        for gang in self.gangs.values():
            known = gang.placed() + gang.eligible
            if gang.spec and not self.free(gang) and known < gang.spec.min:
                return reasons.not_enough_members(gang.key, known, gang.spec.min)
        return None

    def _would_release(self, member: Member) -> int:
        """How many members with a place a failure of this one costs it."""
        strict = member.gang.spec is None or member.gang.spec.mode is Mode.STRICT
        return self.count(Phase.WAITING) if strict else 0

    def due(self) -> float | None:
        """When to look at this group again although nothing happened."""
        nudge_at = self.nudge_at if self.trying and not self.commits else None
        instants = (self.deadline, self.retry_at, nudge_at)
        return min((at for at in instants if at is not None), default=None)

    # ---- what follows from it -----------------------------------------------------------------------------

    def advance(self, now: float, next_commit: Callable[[GroupId], int], out: list[Effect]) -> None:
        """Do whatever follows from what is true now; safe at any time."""
        if self.deadline is not None and now >= self.deadline:
            self._time_out(now, out)
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
        if self.commits:
            return  # the scheduler is about to say how it went
        why = self.obstacle()
        if why is not None:
            self._stand_down(why, out)
            return
        if self.quorum() and self.count(Phase.WAITING):
            out.append(self.commit(next_commit(self.id)))
            return
        if self.retry_at is not None:
            return
        self._admit_free(out)
        self._top_up(now, out)
        if self.trying and self.nudge_at is not None and now >= self.nudge_at:
            self._admit(list(self.trying.values()), now, out)

    def wake(self, now: float) -> None:
        """Something may have helped: cut the backoff short, but leave the scheduler a second to breathe."""
        if self.retry_at is not None:
            self.retry_at = min(self.retry_at, max(now, self.failed_at + BACKOFF_FIRST))

    def place(self, member: Member, node: str, now: float) -> Verdict:
        """A member reached Permit. PASS means quorum: the caller commits."""
        if member.phase is not Phase.PENDING:
            return Verdict.WAIT if member.phase is Phase.WAITING else Verdict.PASS
        free = self.free(member.gang)
        if not free and member.uid not in self.trying:
            return Verdict.REFUSE  # its try was taken back while it was on its way here
        member.node, member.echoes = node, 0
        self._leave_try(member)
        if free:
            member.gang.move(member, Phase.BINDING)
            return Verdict.PASS
        member.gang.move(member, Phase.WAITING)
        if self.deadline is None:
            self.deadline = now + self.wait
        self.nudge_at = now + NUDGE
        return Verdict.PASS if self.quorum() else Verdict.WAIT

    def commit(self, commit_id: int, without: PodUid | None = None) -> Allow:
        """Let everyone with a place through. `without`: the pod whose own verdict carries the good news."""
        members = self.in_phase(Phase.WAITING)
        for member in members:
            member.gang.move(member, Phase.BINDING)
            member.commit = commit_id
        uids = tuple(member.uid for member in members)
        self.commits[commit_id] = uids
        self.deadline = self.retry_at = self.failure = None
        self.running, self.setbacks, self.message = False, 0, ""
        return Allow(commit_id, tuple(uid for uid in uids if uid != without))

    def committed(self, commit_id: int, missing: tuple[PodUid, ...], now: float, out: list[Effect]) -> None:
        """The scheduler let all of them go, or, if one no longer waited, none."""
        uids = self.commits.pop(commit_id)
        if not missing:
            self.satisfied = True
            return
        for member in list(self.members()):
            if member.uid in uids and member.phase is Phase.BINDING and member.commit == commit_id:
                member.gang.move(member, Phase.PENDING)
                member.echoes += member.uid not in missing
        lost = next((member for member in self.members() if member.uid in missing), None)
        gang = lost.gang.key if lost else next(iter(self.gangs))
        self._set_back(reasons.lost_place(gang, lost.pod.name if lost else "that was deleted", 0), now, out)

    def no_node(self, member: Member, message: str, now: float, out: list[Effect]) -> Why:
        """A member's try ended without a node."""
        self.message = message
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
        if not self.count(Phase.WAITING):
            self.deadline = None
        if waited and member.usable:
            self.fail(
                member, reasons.lost_place(member.gang.key, member.pod.name, self._would_release(member)), now, out
            )
        else:  # a failed bind, or a pod on its way out: nobody else is touched
            self._hold([member], reasons.bind_failed(member.gang.key, member.pod.name), out)

    def withdraw(self, member: Member, out: list[Effect]) -> None:
        """The member is no longer usable: take back its try."""
        if member.phase is Phase.PENDING and member.admitted:
            self._hold([member], reasons.bind_failed(member.gang.key, member.pod.name), out)

    def expel(self, gang: Gang, out: list[Effect]) -> None:
        """The gang joins another group: it takes along neither places nor tries."""
        why = reasons.regrouped(gang.key)
        self._hold([member for member in gang.members.values() if member.admitted], why, out)
        waiting = list(gang.in_phase(Phase.WAITING))
        self._give_back(waiting, why, out)
        del self.gangs[gang.key]
        if not self.count(Phase.WAITING):
            self.deadline = None

    def restore(self, member: Member, now: float) -> None:
        """A session opened: take over where the scheduler says the member stands."""
        if member.pod.node:
            self.bound(member, member.pod.node)
            self.satisfied = True
        elif member.pod.standing is Phase.BINDING:
            member.gang.move(member, Phase.BINDING)
            self.satisfied = True
        elif member.pod.standing is Phase.WAITING:
            member.gang.move(member, Phase.WAITING)
            since = now - member.pod.waited + self.wait
            self.deadline = since if self.deadline is None else min(self.deadline, since)

    def bound(self, member: Member, node: str) -> None:
        self._leave_try(member)
        self.admitted.pop(member.uid, None)
        member.node = node
        member.gang.move(member, Phase.BOUND)
        if not self.count(Phase.WAITING):
            self.deadline = None

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

    def _time_out(self, now: float, out: list[Effect]) -> None:
        first = next(gang for gang in self.gangs.values() if gang.spec)
        if not any(gang.spec and gang.spec.on_timeout is OnTimeout.FAIL for gang in self.gangs.values()):
            self._set_back(reasons.timed_out_and_retried(first.key, self.wait), now, out)
            return
        self._stop(reasons.timed_out(first.key, self.wait), out)
        self.running = False
        unbound = [m for m in self.members() if m.phase is not Phase.BOUND and m.mark is TimeoutMark.NONE]
        for member in unbound:
            member.gang.set_mark(member, TimeoutMark.DUE)
        out.append(Mark(tuple(member.uid for member in unbound)))

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

    def _stand_down(self, why: Why, out: list[Effect]) -> None:
        """It cannot be tried now. Places are given back, unless a lenient group may still become whole."""
        lenient = all(gang.spec and gang.spec.mode is Mode.NON_STRICT for gang in self.gangs.values())
        if why.reason is Reason.NOT_ENOUGH_MEMBERS and lenient:
            self._hold(list(self.admitted.values()), why, out)
        else:
            self._stop(why, out)
        self.running = False

    def _stop(self, why: Why, out: list[Effect]) -> None:
        self._hold(list(self.admitted.values()), why, out)
        self._give_back(self.in_phase(Phase.WAITING), why, out)
        self.deadline = None

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
                members = [m for m in gang.members.values() if m.eligible and not m.admitted]
                self._send(members, out, free=True)

    def _top_up(self, now: float, out: list[Effect]) -> None:
        """Admit as many members as the minimums still lack; start or end the cycle if that is due."""
        short = [gang for gang in self.gangs.values() if not self.free(gang) and gang.lacking() > gang.trying]
        if not short:
            return
        if not self.running:
            self.running = True
            self.cycle += 1
        picks: list[Member] = []
        for gang in short:
            fresh = [m for m in gang.members.values() if m.eligible and m.tried < self.cycle]
            fresh.sort(key=lambda member: (member.failures, inner_order(member.pod)))
            picks += fresh[: gang.lacking() - gang.trying]
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
            self.admitted[member.uid] = member
            admissions.append((member.uid, self._key(member)))
        quiet = 0 if free else max(0, self.lacking() - 1)
        out.append(Admit(self.id, self.cycle, tuple(admissions), quiet, self.wait, free))

    def _key(self, member: Member) -> SortKey:
        """Given once and for good: a key must not change while its pod is in the queue.

        The group's priority is that of its least important member, so that nobody gains rank by company.
        """
        if member.key is None:
            if self._key_base is None:
                usable = [m.pod for m in self.members() if m.usable]
                self._key_base = (min(p.priority for p in usable), min(p.created_ns for p in usable))
            priority, created = self._key_base
            member.key = SortKey(min(priority, member.pod.priority), created, self.id, self._next_index)
            self._next_index += 1
        return member.key
