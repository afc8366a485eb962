# SPDX-License-Identifier: Apache-2.0
"""Two gangs of up to three pods on two slots, and everything that can happen to them, one step at a time.

Small enough to visit every history up to a length, since states that differ in nothing that matters are visited once;
large enough for every bug found so far.
"""

import hashlib
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from muster.core import events
from muster.core.gang import Gang
from muster.core.group import Group
from muster.core.model import GangSpec, Phase, Pod, PodUid, SortKey
from muster.core.reasons import Why
from muster.core.spec import GROUPS, NAME, Declaration, Defaults
from muster.core.view import GangPhase, view
from tests.builders import pod
from tests.core.simulator import At, Simulator

GANGS = ("one", "two")
MEMBERS = 3
MINIMUM = 2
Action = tuple[str, ...]


# Copies share what never changes: that is most of the weight.
_NEVER_CHANGE = (Pod, Declaration, GangSpec, SortKey, Why, Defaults)
_numbered: dict[int, object] = {}


def _by_number(thing: object) -> tuple[Callable[[int], object], tuple[int]]:
    _numbered[id(thing)] = thing
    return _thing, (id(thing),)


def _thing(number: int) -> object:
    return _numbered[number]


def thaw(frozen: bytes) -> "SmallWorld":
    world: SmallWorld = pickle.loads(frozen)
    return world


@dataclass(frozen=True)
class Shape:
    """What a world starts with."""

    modes: tuple[str, str] = ("Strict", "Strict")
    policy: str = "once-satisfied"
    grouped: bool = False
    on_timeout: str = "Retry"

    @property
    def slots(self) -> int:
        """Just enough for whoever must start together."""
        return MINIMUM * len(GANGS) if self.grouped else MINIMUM

    def __str__(self) -> str:
        return f"{'+'.join(self.modes)} {self.policy} {'grouped' if self.grouped else 'apart'} {self.on_timeout}"


@dataclass
class SmallWorld:
    shape: Shape
    troubles: int  # how many more things may go wrong
    lag: bool = False
    again: int = 0  # how many pods come for those that were deleted
    made: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GANGS, 0))

    def __post_init__(self) -> None:
        self.sim = Simulator(self.shape.slots, lag=self.lag)

    def freeze(self) -> bytes:
        """Everything as it is now; `thaw` makes any number of worlds of it."""
        stream = io.BytesIO()
        pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = dict.fromkeys(_NEVER_CHANGE, _by_number)
        pickler.dump(self)
        return stream.getvalue()

    # ---- what can happen ----------------------------------------------------------------------------------

    def actions(self) -> list[Action]:
        """The ordinary course of things, then what may go wrong."""
        sim = self.sim
        could: list[Action] = [("create", gang) for gang in GANGS if self.made[gang] < MEMBERS + self.again]
        if sim.asking is None and sim.queued():
            could.append(("pop",))
        could += [("bind", uid) for uid in self._first(At.BINDING)]
        could += [("unreserve", uid) for uid in self._first(At.LEAVING)]
        if sim.core.next_due() is not None:
            could.append(("time",))
        could += [(way,) for way, queue in (("up", sim.up), ("down", sim.down)) if queue]
        return could + (self._troubles() if self.troubles else [])

    def _troubles(self) -> list[Action]:
        sim = self.sim
        could: list[Action] = [("fail bind", uid) for uid in self._first(At.BINDING)]
        asked = sim.asking.uid if isinstance(sim.asking, events.Permit) else None
        could += [("end wait", uid) for uid in self._first(At.WAITING) if uid != asked]
        could += [("delete", uid) for uid in self._first(*At)]
        could += [("come back", uid) for uid in self._first(At.QUEUE) if sim.asking is None]
        could += [("leave gang", uid) for uid in self._first(*At)]
        could += [("restart server",), ("restart scheduler",), ("regroup",)]
        could.append(("free slot",) if sim.plain else ("take slot",))
        if sim.asking is not None:
            could.append(("give up",))
        return could

    def _first(self, *places: At) -> list[PodUid]:
        """One pod of each gang in each of these places: the others of its kind would tell the same story."""
        found: dict[tuple[str, At], PodUid] = {}
        for uid, entry in sorted(self.sim.entries.items()):
            if entry.at in places:
                found.setdefault((uid.partition("-")[0], entry.at), uid)
        return list(found.values())

    def act(self, action: Action) -> None:
        sim = self.sim
        match action:
            case ("create", gang):
                self._create(gang)
            case ("pop",):
                sim.schedule_one()
            case ("bind", uid):
                sim.finish_bind(PodUid(uid))
            case ("unreserve", uid):
                sim.end_wait(PodUid(uid))
            case ("time",):
                sim.pass_time(max(0.0, (sim.core.next_due() or sim.now) - sim.now))
            case ("up",):
                sim.arrive_up()
            case ("down",):
                sim.arrive_down()
            case _:
                self.troubles -= 1
                self._trouble(action)

    def _trouble(self, action: Action) -> None:
        sim = self.sim
        match action:
            case ("fail bind", uid):
                sim.fail_bind(PodUid(uid))
            case ("end wait", uid):
                sim.end_wait(PodUid(uid))
            case ("delete", uid):
                sim.delete(PodUid(uid))
            case ("come back", uid):
                sim.comes_back(PodUid(uid))
            case ("leave gang", uid):
                known = sim.entries[PodUid(uid)].pod
                other = {"one": "two", "two": "one"}[known.annotations[NAME]]
                sim.change(replace(known, annotations={**known.annotations, NAME: other}))
            case ("regroup",):
                self.shape = replace(self.shape, grouped=not self.shape.grouped)
                for entry in list(sim.entries.values()):
                    sim.change(replace(entry.pod, annotations={**entry.pod.annotations, GROUPS: self._groups()}))
            case ("restart server",):
                sim.restart_server()
            case ("restart scheduler",):
                sim.restart_scheduler()
            case ("take slot",):
                sim.take_slot()
            case ("free slot",):
                sim.free_slot()
            case ("give up",):
                sim.give_up_call()

    def _create(self, gang: str) -> None:
        self.made[gang] += 1
        self.sim.create(
            pod(
                f"{gang}-{self.made[gang]}",
                gang,
                MINIMUM,
                created=GANGS.index(gang),
                mode=self.shape.modes[GANGS.index(gang)],
                match_policy=self.shape.policy,
                waiting_time="40s",
                on_timeout=self.shape.on_timeout,
                groups=self._groups(),
            )
        )

    def _groups(self) -> str:
        return json.dumps([f"a/{gang}" for gang in GANGS] if self.shape.grouped else [])

    # ---- the state, without what does not matter ----------------------------------------------------------

    def fingerprint(self) -> int:
        """Times count from now, numbers of cycles and orders only as far as they are compared."""
        sim = self.sim
        state = (
            self.troubles,
            tuple(self.made.values()),
            sim.plain,
            tuple(sorted((uid, e.at, e.admitted, e.tries, e.free) for uid, e in sim.entries.items())),
            tuple(sorted(sim.quiet.items())),
            tuple(self._group(group) for group in sim.core.groups.values()),
            sim.asking,
            sim.up,
            sim.down,
        )
        return int.from_bytes(hashlib.blake2b(repr(state).encode(), digest_size=8).digest())

    def _group(self, group: Group) -> tuple[object, ...]:
        def left(at: float | None) -> float | None:
            return None if at is None else round(at - self.sim.now, 3)

        return (
            group.id,
            group.running,
            bool(group.commits),
            left(group.deadline),
            left(group.retry_at),
            left(group.nudge_at) if group.trying else None,
            left(group.remind_at),
            left(max(group.failed_at + 1, self.sim.now)),
            min(group.setbacks, 4),
            tuple(self._gang(group, gang) for gang in group.gangs.values()),
        )

    def _gang(self, group: Group, gang: Gang) -> tuple[object, ...]:
        least = min((m.failures for m in gang.members.values()), default=0)
        return (
            gang.key,
            gang.satisfied,
            gang.freed,
            tuple(
                (
                    uid,
                    m.phase,
                    m.admitted,
                    m.freely,
                    uid in group.trying,
                    m.tried < group.cycle,
                    min(m.failures - least, 2),
                    m.echoes,
                    m.mark,
                    m.commit in group.commits,
                )
                for uid, m in gang.members.items()
            ),
        )

    # ---- the end ------------------------------------------------------------------------------------------

    def must_end_well(self, limit: float = 400.0) -> None:
        """The world stands still from here on, but pods that run finish some day. Each gang fits alone, so each runs,
        one after the other, unless it says that it lacks members or was given up."""
        sim = self.sim
        sim.plain, sim.lag, sim.slots = 0, False, self.shape.slots
        sim.flush()
        if sim.asking is not None:
            sim.give_up_call()
        sim.tell(events.Room())
        end = sim.now + limit
        while sim.now < end and sim.core.gangs:
            self._work()
            due = sim.core.next_due()
            done = [uid for uid, entry in sim.entries.items() if entry.at is At.BOUND]
            if not done and due is None:
                break
            for uid in done:
                sim.delete(uid)
            sim.pass_time(max(0.0, due - sim.now) if due is not None else 0.0)
        for key, gang in sim.core.gangs.items():
            seen = view(sim.core, key, sim.now)
            assert seen.phase in (GangPhase.FORMING, GangPhase.TIMED_OUT), f"{key} never ran: {seen}"
            if seen.phase is GangPhase.FORMING:
                group = sim.core.group_of(key)
                short = any(g.spec and g.placed() + g.eligible < g.spec.min for g in group.gangs.values())
                assert short or len(group.gangs) < len(group.wanted), f"{key} is not short of anything: {seen}"
            assert not gang.count(Phase.BINDING)

    def _work(self) -> None:
        """The scheduler does all it can."""
        sim = self.sim
        for _ in range(20):
            for uid in [uid for uid, entry in sim.entries.items() if entry.at is At.LEAVING]:
                sim.end_wait(uid)
            for uid in [uid for uid, entry in sim.entries.items() if entry.at is At.BINDING]:
                sim.finish_bind(uid)
            if not sim.schedule_one():
                break
