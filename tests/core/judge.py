# SPDX-License-Identifier: Apache-2.0
"""Looks over the core's shoulder: whatever the history, these hold after every event.

It keeps its own book of which gangs had their minimum, from what the scheduler reported, so that a core which fools
itself does not fool the judge.
"""

from dataclasses import dataclass, field

from muster.core import Core, events
from muster.core.decision import Admit, Allow, Decision
from muster.core.explain import why
from muster.core.gang import Gang, TimeoutMark
from muster.core.group import Group
from muster.core.model import GangKey, MatchPolicy, Phase, PodUid
from muster.core.reasons import Reason

LET_THROUGH = (Phase.BINDING, Phase.BOUND)


@dataclass
class Judge:
    core: Core
    started: set[GangKey] = field(default_factory=set)  # their minimum was let through, or they were found running
    orders: dict[int, tuple[PodUid, ...]] = field(default_factory=dict)
    gang_of: dict[PodUid, GangKey] = field(default_factory=dict)  # when the order was given

    def handle(self, event: events.Event, now: float) -> Decision:
        decision = self.core.handle(event, now)
        self._book(event)
        for effect in decision.effects:
            match effect:
                case Allow(commit, uids):
                    self._order(commit, uids)
                case Admit(free=True):
                    self._free(effect)
        if decision.allow is not None:
            assert isinstance(event, events.Permit)
            self._order(decision.allow.commit, (*decision.allow.uids, event.uid))
        for group in self.core.groups.values():
            check(group)
        if isinstance(event, events.Tick):
            due = self.core.next_due()
            assert due is None or due > now, "a tick is wanted that was just had"
        return decision

    def _book(self, event: events.Event) -> None:
        if isinstance(event, events.Synchronize):
            self.started.clear()
        if isinstance(event, events.CommitReport):
            uids = self.orders.pop(event.commit, ())
            if not event.missing:
                self.started |= {self.gang_of[uid] for uid in uids}
        for key, gang in self.core.gangs.items():
            running = gang.count(Phase.BINDING) + gang.count(Phase.BOUND)
            found = isinstance(event, events.Synchronize) and running
            placed_by_others = gang.spec and running >= gang.spec.min and not self.core.group_of(key).commits
            if found or placed_by_others:
                self.started.add(key)
        self.started &= {key for key, gang in self.core.gangs.items() if gang.members}

    def _order(self, commit: int, uids: tuple[PodUid, ...]) -> None:
        """Whoever is let through has a node, and so has the minimum of every gang of its group."""
        self.orders[commit] = uids
        assert len(set(uids)) == len(uids) > 0
        gangs = {key for key, gang in self.core.gangs.items() for uid in uids if uid in gang.members}
        assert sum(len(self.core.gangs[key].members.keys() & set(uids)) for key in gangs) == len(uids)
        for key in gangs:
            for uid in self.core.gangs[key].members.keys() & set(uids):
                self.gang_of[uid] = key
        if all(self._is_free(self.core.gangs[key]) for key in gangs):
            return
        for gang in self.core.group_of(next(iter(gangs))).gangs.values():
            assert self._is_free(gang) or has_minimum(gang), f"{gang.key} is let through without its minimum"

    def _free(self, admit: Admit) -> None:
        for uid, _ in admit.members:
            gang = next(gang for gang in self.core.gangs.values() if uid in gang.members)
            assert self._is_free(gang), f"{gang.key} has not started, but {uid} is free"

    def _is_free(self, gang: Gang) -> bool:
        if gang.key not in self.started or gang.spec is None or gang.marked:
            return False
        match gang.spec.policy:
            case MatchPolicy.ONCE_SATISFIED:
                return True
            case MatchPolicy.WAITING_AND_RUNNING:
                return has_minimum(gang)
            case MatchPolicy.ONLY_WAITING:
                return not any(m.eligible or m.phase is Phase.WAITING for m in gang.members.values())


def has_minimum(gang: Gang) -> bool:
    counted = {Phase.WAITING, Phase.BINDING}
    if gang.spec and gang.spec.policy is not MatchPolicy.ONLY_WAITING:
        counted.add(Phase.BOUND)
    return gang.spec is not None and sum(m.phase in counted for m in gang.members.values()) >= gang.spec.min


def check(group: Group) -> None:
    members = [member for gang in group.gangs.values() for member in gang.members.values()]
    for gang in group.gangs.values():
        assert counted(gang) == recounted(gang)
        assert gang.trying == sum(member.gang is gang for member in group.trying.values())
    for uid, member in {**group.trying, **group.admitted}.items():
        assert member in members and member.uid == uid
        assert member.admitted
    for member in group.trying.values():
        assert member.eligible
    assert not (group.deadline is None and group.count(Phase.WAITING) and not group.commits)
    assert group.deadline is None or group.count(Phase.WAITING), "a wait that nobody waits for"
    obstacle = group.obstacle()
    for member in members:
        said = why(group, member, obstacle)
        assert said is None or (isinstance(said.reason, Reason) and said.sentence)
        at_large = member.phase in LET_THROUGH or member.uid in group.trying or group.free(member.gang)
        if said is None:
            assert at_large or not member.usable, f"{member.uid} is held and nobody says why"


def recounted(gang: Gang) -> dict[str, int]:
    members = list(gang.members.values())
    return {
        "eligible": sum(m.eligible for m in members),
        "outside": sum(m.eligible and not m.admitted for m in members),
        "marked": sum(m.mark is not TimeoutMark.NONE for m in members),
        "flawed": sum(bool(m.declared.problems) for m in members),
        **{phase.name: sum(m.phase is phase for m in members) for phase in Phase},
    }


def counted(gang: Gang) -> dict[str, int]:
    counts = {name: getattr(gang, name) for name in ("eligible", "outside", "marked", "flawed")}
    return counts | {phase.name: gang.count(phase) for phase in Phase}
