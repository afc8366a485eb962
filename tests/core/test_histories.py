# SPDX-License-Identifier: Apache-2.0
"""Any history of the world, played against the core by a small scheduler.

Checked after every step: nobody is let through without the quorum of the whole group; counts agree with the members.
Checked at the end, when the world stands still and there is room: every gang that could run does, or says that it is
out of time.
"""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.core.gang import Gang, TimeoutMark
from muster.core.model import GangKey, Phase, PodUid, Source
from muster.core.view import GangPhase, view
from tests.builders import pod, podgroup
from tests.core.simulator import At, Simulator

GANGS = ("one", "two", "three")


def recount(gang: Gang) -> dict[str, int]:
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


class Histories(RuleBasedStateMachine):
    @initialize(
        slots=st.integers(1, 8),
        minimums=st.lists(st.integers(1, 3), min_size=3, max_size=3),
        modes=st.lists(st.sampled_from(["Strict", "NonStrict"]), min_size=3, max_size=3),
        policy=st.sampled_from(["once-satisfied", "only-waiting", "waiting-and-running"]),
        grouped=st.booleans(),
        on_timeout=st.sampled_from(["Fail", "Retry"]),
        by_object=st.lists(st.booleans(), min_size=3, max_size=3),
    )
    def build(
        self,
        slots: int,
        minimums: list[int],
        modes: list[str],
        policy: str,
        grouped: bool,
        on_timeout: str,
        by_object: list[bool],
    ) -> None:
        self.world = Simulator(slots)
        self.made = 0
        self.grouped = grouped
        self.policy = policy
        self.by_object = {gang for gang, yes in zip(GANGS, by_object, strict=True) if yes}
        self.settings: dict[str, dict[str, Any]] = {
            gang: {
                "minimum": minimum,
                "mode": mode,
                "match_policy": policy,
                "waiting_time": "20s",
                "on_timeout": on_timeout,
            }
            for gang, minimum, mode in zip(GANGS, minimums, modes, strict=True)
        }
        if grouped:
            for gang in GANGS[:2]:
                self.settings[gang]["groups"] = '["a/one", "a/two"]'
        self.checked = 0
        for gang in self.by_object:
            self.declare(gang, self.settings[gang]["minimum"])

    def among(self, data: st.DataObject, *places: At) -> PodUid | None:
        uids = sorted(uid for uid, entry in self.world.entries.items() if entry.at in places)
        return data.draw(st.sampled_from(uids)) if uids else None

    @rule(gang=st.sampled_from(GANGS), priority=st.sampled_from([0, 0, 5]))
    def create(self, gang: str, priority: int) -> None:
        self.made += 1
        chosen = dict(self.settings[gang])
        minimum = chosen.pop("minimum")
        name = f"{gang}-{self.made}"
        if gang in self.by_object:
            made = pod(name, gang, priority=priority, created=self.made, joins=Source.SIGS)
        else:
            made = pod(name, gang, minimum, priority=priority, created=self.made, **chosen)
        self.world.create(made)

    @rule(gang=st.sampled_from(GANGS), minimum=st.integers(1, 3))
    def declare(self, gang: str, minimum: int) -> None:
        """The PodGroup comes, or its minimum changes."""
        if gang in self.by_object:
            self.made += 1
            chosen = self.settings[gang] | {"minimum": minimum}
            known = self.world.objects.get(GangKey(f"a/{gang}"))
            self.settings[gang] = dict(chosen)
            self.world.declare(
                podgroup(gang, chosen.pop("minimum"), uid=known.uid if known else str(self.made), **chosen)
            )

    @rule(gang=st.sampled_from(GANGS))
    def undeclare(self, gang: str) -> None:
        if (key := GangKey(f"a/{gang}")) in self.world.objects:
            self.world.undeclare(key)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if uid := self.among(data, *At):
            self.world.delete(uid)

    @rule()
    def schedule(self) -> None:
        self.world.schedule_one()

    @rule(data=st.data())
    def finish_bind(self, data: st.DataObject) -> None:
        if uid := self.among(data, At.BINDING):
            self.world.finish_bind(uid)

    @rule(data=st.data())
    def fail_bind(self, data: st.DataObject) -> None:
        if uid := self.among(data, At.BINDING):
            self.world.fail_bind(uid)

    @rule(data=st.data())
    def evict_waiting(self, data: st.DataObject) -> None:
        if uid := self.among(data, At.WAITING):
            self.world.evict_waiting(uid)

    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        if uid := self.among(data, At.QUEUE):
            self.world.comes_back(uid)

    @rule()
    def take_slot(self) -> None:
        self.world.take_slot()

    @rule()
    def free_slot(self) -> None:
        self.world.free_slot()

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 25.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def restart_server(self) -> None:
        self.world.restart_server()

    @rule()
    def restart_scheduler(self) -> None:
        self.world.restart_scheduler()

    @invariant()
    def counts_agree(self) -> None:
        for gang in self.world.core.gangs.values():
            assert counted(gang) == recount(gang)

    @invariant()
    def core_and_scheduler_agree_on_places(self) -> None:
        for gang in self.world.core.gangs.values():
            for member in gang.members.values():
                entry = self.world.entries[member.uid]
                assert member.phase.name == ("PENDING" if entry.at is At.QUEUE else entry.at.name)

    @invariant()
    def every_commit_had_the_quorum_of_its_group(self) -> None:
        for uids in self.world.released[self.checked :]:
            gangs = Counter(uid.rpartition("-")[0] for uid in uids)
            wanted = set(GANGS[:2]) if self.grouped and set(gangs) & set(GANGS[:2]) else set(gangs)
            for gang in wanted:
                placed = sum(
                    entry.at is not At.QUEUE for uid, entry in self.world.entries.items() if uid.startswith(gang + "-")
                )
                known = self.world.core.gangs.get(f"a/{gang}")  # type: ignore[call-overload]
                satisfied_before = known is not None and self.world.core.group_of(known.key).satisfied
                assert placed >= self.settings[gang]["minimum"] or (
                    satisfied_before and self.policy == "once-satisfied"
                )
        self.checked = len(self.world.released)

    @precondition(lambda self: self.world.core.gangs)
    @rule()
    def why_is_always_answered(self) -> None:
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
        from muster.core import events

        self.world.tell(events.Room())
        self.world.settle()
        self.counts_agree()
        for key in self.world.core.gangs:
            seen = view(self.world.core, key, self.world.now)
            assert seen.phase in (GangPhase.SATISFIED, GangPhase.FORMING, GangPhase.TIMED_OUT), (
                seen,
                self.world.entries,
            )
            if seen.phase is GangPhase.FORMING:
                self.must_be_short(key)

    def must_be_short(self, key: str) -> None:
        """A gang may only still be forming because it, or a gang it starts with, lacks members or a PodGroup."""
        group = self.world.core.group_of(key)  # type: ignore[arg-type]
        missing = [wanted for wanted in group.wanted if wanted not in group.gangs]
        short = [g for g in group.gangs.values() if g.spec and g.placed() + g.eligible < g.spec.min]
        undeclared = [g for g in group.gangs.values() if g.spec is None]
        assert missing or short or undeclared


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=500, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
