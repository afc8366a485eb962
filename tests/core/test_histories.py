# SPDX-License-Identifier: Apache-2.0
"""Any history of the world, played against the core by a small scheduler.

judge.py says what holds after every event. Here: when nothing is on its way, core and scheduler agree on who has a
place; and at the end, when the world stands still and there is room, every gang that could run does, or says that it
is out of time.
"""

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.core import events
from muster.core.model import GangKey, Phase, Pod, PodUid, Source
from muster.core.spec import MIN, TIMEOUT
from muster.core.view import GangPhase, view
from tests.builders import pod, podgroup
from tests.core.simulator import At, Simulator

GANGS = ("one", "two", "three")
MODES = st.sampled_from(["Strict", "NonStrict"])
POLICIES = st.sampled_from(["once-satisfied", "only-waiting", "waiting-and-running"])
TERMINAL = (GangPhase.SATISFIED, GangPhase.FORMING, GangPhase.TIMED_OUT, GangPhase.INVALID)


def three(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=3, max_size=3)


def group_of(gang: str, grouped: int) -> str:
    """The first so many gangs start together; the others stand alone."""
    return json.dumps([f"a/{other}" for other in GANGS[:grouped]] if gang in GANGS[:grouped] else [])


class Histories(RuleBasedStateMachine):
    """Every message arrives at once."""

    lag = False

    @initialize(
        slots=st.integers(1, 8),
        minimums=three(st.integers(1, 3)),
        modes=three(MODES),
        policies=three(POLICIES),
        grouped=st.integers(1, 3),
        on_timeout=st.sampled_from(["Fail", "Retry"]),
        by_object=three(st.booleans()),
    )
    def build(
        self,
        slots: int,
        minimums: list[int],
        modes: list[str],
        policies: list[str],
        grouped: int,
        on_timeout: str,
        by_object: list[bool],
    ) -> None:
        self.world = Simulator(slots, lag=self.lag)
        self.made = 0
        self.by_object = {gang for gang, yes in zip(GANGS, by_object, strict=True) if yes}
        self.settings: dict[str, dict[str, Any]] = {
            gang: {
                "minimum": minimum,
                "mode": mode,
                "match_policy": policy,
                "waiting_time": "20s",
                "on_timeout": on_timeout,
                "groups": group_of(gang, grouped),
            }
            for gang, minimum, mode, policy in zip(GANGS, minimums, modes, policies, strict=True)
        }
        for gang in GANGS:
            if gang in self.by_object:
                self.declare(gang, self.settings[gang]["minimum"])
            self.create(gang, self.settings[gang]["minimum"], 0, False)

    def among(self, data: st.DataObject, *places: At) -> PodUid | None:
        uids = sorted(uid for uid, entry in self.world.entries.items() if entry.at in places)
        return data.draw(st.sampled_from(uids)) if uids else None

    def make(self, name: str, gang: str, **fields: Any) -> Pod:
        chosen = dict(self.settings[gang])
        minimum = chosen.pop("minimum")
        if gang in self.by_object:
            return pod(name, gang, joins=Source.SIGS, **fields)
        return pod(name, gang, minimum, **chosen, **fields)

    # ---- pods and PodGroups come, change and go -----------------------------------------------------------

    @rule(
        gang=st.sampled_from(GANGS),
        count=st.integers(1, 4),
        priority=st.sampled_from([0, 0, 5]),
        gated=st.sampled_from([False] * 4 + [True]),
    )
    def create(self, gang: str, count: int, priority: int, gated: bool) -> None:
        for _ in range(count):
            self.made += 1
            self.world.create(self.make(f"p{self.made}", gang, priority=priority, gated=gated, created=self.made))

    def declare(self, gang: str, minimum: int) -> None:
        """The PodGroup comes, or its minimum changes."""
        self.made += 1
        chosen = self.settings[gang] | {"minimum": minimum}
        known = self.world.objects.get(GangKey(f"a/{gang}"))
        self.settings[gang] = dict(chosen)
        uid = known.uid if known else str(self.made)
        self.world.declare(podgroup(gang, chosen.pop("minimum"), uid=uid, **chosen))

    @rule(gang=st.sampled_from(GANGS), minimum=st.integers(1, 3), gone=st.booleans())
    def change_object(self, gang: str, minimum: int, gone: bool) -> None:
        if gang in self.by_object:
            key = GangKey(f"a/{gang}")
            if gone and key in self.world.objects:
                self.world.undeclare(key)
            else:
                self.declare(gang, minimum)

    @rule(data=st.data(), unreserve_first=st.booleans())
    def delete(self, data: st.DataObject, unreserve_first: bool) -> None:
        if uid := self.among(data, *At):
            self.world.delete(uid, unreserve_first)

    @rule(data=st.data(), how=st.sampled_from(["deleting", "gate opened", "mark removed", "broken"]))
    def change_pod(self, data: st.DataObject, how: str) -> None:
        if uid := self.among(data, *At):
            known = self.world.entries[uid].pod
            kept = {key: value for key, value in known.annotations.items() if key != TIMEOUT}
            changed = {
                "deleting": replace(known, deleting=True),
                "gate opened": replace(known, gated=False),
                "mark removed": replace(known, annotations=kept),
                "broken": replace(known, annotations={**known.annotations, MIN: "many"}),
            }
            self.world.change(changed[how])

    @rule(
        data=st.data(),
        gang=st.sampled_from(GANGS),
        minimum=st.integers(1, 3),
        mode=MODES,
        policy=POLICIES,
        grouped=st.integers(1, 3),
    )
    def change_settings(
        self, data: st.DataObject, gang: str, minimum: int, mode: str, policy: str, grouped: int
    ) -> None:
        """One pod says something else than before, maybe that it belongs to another gang."""
        if uid := self.among(data, *At):
            known = self.world.entries[uid].pod
            self.settings[gang] |= {"minimum": minimum, "mode": mode, "match_policy": policy}
            self.settings[gang]["groups"] = group_of(gang, grouped)
            said = self.make(known.name, gang)
            self.world.change(replace(known, annotations=said.annotations, labels=said.labels))

    # ---- the scheduler works ------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6))
    def schedule(self, count: int) -> None:
        for _ in range(count):
            self.world.schedule_one()

    @rule(data=st.data(), count=st.integers(1, 4), fails=st.sampled_from([False, False, True]))
    def bind(self, data: st.DataObject, count: int, fails: bool) -> None:
        for _ in range(count):
            if uid := self.among(data, At.BINDING):
                self.world.fail_bind(uid) if fails else self.world.finish_bind(uid)

    @rule(data=st.data())
    def end_wait(self, data: st.DataObject) -> None:
        uid = self.among(data, At.WAITING, At.LEAVING)
        asked = self.world.asking
        if uid and not (isinstance(asked, events.Permit) and asked.uid == uid):
            self.world.end_wait(uid)

    @rule(data=st.data(), nominated=st.booleans())
    def come_back(self, data: st.DataObject, nominated: bool) -> None:
        if uid := self.among(data, At.QUEUE):
            if nominated:
                self.world.change(replace(self.world.entries[uid].pod, nominated="n1"))
            self.world.comes_back(uid)

    # ---- the world around it ------------------------------------------------------------------------------

    @rule(taken=st.booleans())
    def change_room(self, taken: bool) -> None:
        self.world.take_slot() if taken else self.world.free_slot()

    @rule(seconds=st.sampled_from([0.3, 1.0, 1.0, 5.0, 25.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(scheduler=st.booleans())
    def restart(self, scheduler: bool) -> None:
        self.world.restart_scheduler() if scheduler else self.world.restart_server()

    # ---- what holds ---------------------------------------------------------------------------------------

    @invariant()
    def core_and_scheduler_agree_on_places(self) -> None:
        if self.world.up or self.world.down:
            return  # somebody has not heard the news yet
        for gang in self.world.core.gangs.values():
            for member in gang.members.values():
                at = self.world.entries[member.uid].at
                assert member.phase.name == ("PENDING" if at in (At.QUEUE, At.LEAVING) else at.name), member.uid

    @precondition(lambda self: self.world.core.gangs)
    @invariant()
    def a_gang_says_why(self) -> None:
        for key, gang in self.world.core.gangs.items():
            seen = view(self.world.core, key, self.world.now)
            if seen.phase in (GangPhase.FORMING, GangPhase.INVALID, GangPhase.TIMED_OUT, GangPhase.BACKING_OFF):
                assert seen.why is not None
            assert seen.min == gang.spec.min if gang.spec else True

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.slots = 1000
        self.world.plain = 0
        self.world.tell(events.Room())
        self.world.settle()
        self.core_and_scheduler_agree_on_places()
        for key, gang in self.world.core.gangs.items():
            seen = view(self.world.core, key, self.world.now)
            assert seen.phase in TERMINAL, (seen, self.world.entries)
            if seen.phase is GangPhase.FORMING:
                self.must_be_short(key)
            if seen.phase is GangPhase.SATISFIED:
                assert not [m for m in gang.members.values() if m.usable and m.phase is not Phase.BOUND], seen

    def must_be_short(self, key: GangKey) -> None:
        """A gang may only still be forming because it, or a gang it starts with, lacks members or a PodGroup."""
        group = self.world.core.group_of(key)
        missing = [wanted for wanted in group.wanted if wanted not in group.gangs]
        short = [g for g in group.gangs.values() if g.spec and g.placed() + g.eligible < g.spec.min]
        undeclared = [g for g in group.gangs.values() if g.spec is None]
        assert missing or short or undeclared


class LaggingHistories(Histories):
    """Messages are on their way for as long as the history likes; calls may be given up."""

    lag = True

    @rule(count=st.sampled_from([1, 1, 3, 100]))
    def arrive_up(self, count: int) -> None:
        for _ in range(count):
            self.world.arrive_up()

    @rule(count=st.sampled_from([1, 1, 3, 100]))
    def arrive_down(self, count: int) -> None:
        for _ in range(count):
            self.world.arrive_down()

    @rule()
    def arrive_all(self) -> None:
        self.world.flush()

    @rule(count=st.integers(1, 6))
    def schedule_and_arrive(self, count: int) -> None:
        """The ordinary course of things, so that a history gets somewhere."""
        for _ in range(count):
            self.world.schedule_one()
            self.world.flush()

    @precondition(lambda self: self.world.asking is not None)
    @rule()
    def give_up_call(self) -> None:
        self.world.give_up_call()


TestHistories = Histories.TestCase
TestLaggingHistories = LaggingHistories.TestCase
TestHistories.settings = TestLaggingHistories.settings = settings(
    max_examples=250, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
