# SPDX-License-Identifier: Apache-2.0
"""What is true of a group: its state, and the questions that can be asked of it. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.core import reasons
from muster.core.gang import Gang, Member
from muster.core.model import GangKey, GroupId, MatchPolicy, Mode, Phase, PodUid, Surroundings
from muster.core.order import inner_order
from muster.core.reasons import Reason, Why

if TYPE_CHECKING:
    from muster.core.group import Group


class Standing:
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

    @property
    def wait(self) -> float:
        return min((gang.spec.wait for gang in self.gangs.values() if gang.spec), default=0.0)

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
