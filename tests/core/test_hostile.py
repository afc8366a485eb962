# SPDX-License-Identifier: Apache-2.0
"""Whatever strings users write, reading them ends, stays small, and harms nobody else."""

import json
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core import Core, events, spec
from muster.core.agenda import Agenda
from muster.core.decision import Admit
from muster.core.model import GangSpec, GroupId, Pod, PodUid
from muster.core.spec import Declaration, Defaults, declare
from muster.core.view import GangPhase, view
from tests.builders import pod

KEYS = [
    *(spec.NAME, spec.MIN, spec.TOTAL, spec.MODE, spec.GROUPS, spec.WAIT, spec.POLICY, spec.TIMEOUT, spec.ON_TIMEOUT),
    *(spec.NAME_LABEL, spec.MIN_LABEL, *spec.POD_GROUP_LABELS),
]
NASTY = ["", " ", "\0", "３", "-1", "1e3", "0x10", "1_0", "9" * 5000, "a" * 254, "../..", "a/b", "%s{}", "\ud800", "١٢"]
VALUES = st.one_of(
    st.text(max_size=300),
    st.sampled_from(NASTY),
    st.sampled_from(
        ["[" * 100_000, '{"a":' * 5000, '["a/b"' + ',"a/b"' * 500 + "]", "[1]", '["a/b/c"]', "null", "NaN"]
    ),
    st.recursive(st.none() | st.booleans() | st.text(max_size=9), st.lists, max_leaves=20).map(json.dumps),
    st.sampled_from(["train", "3", "Strict", "90s", "once-satisfied", "Retry", '["a/x"]']),
)
SAYINGS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=40), VALUES, max_size=8)


def check(declared: Declaration) -> None:
    """Either sound settings within their bounds, or problems that can be shown."""
    assert (declared.spec is None) or not declared.problems
    for problem in declared.problems:
        shown = str(problem)
        assert len(shown) < 1000 and shown.isprintable(), "an event can show it"
    if isinstance(declared.spec, GangSpec):
        assert 1 <= declared.spec.min <= declared.spec.total <= spec.MAX_MEMBERS
        assert spec.MIN_WAIT <= declared.spec.wait <= spec.MAX_WAIT
        assert len(declared.spec.group) <= spec.MAX_GANGS and declared.gang in declared.spec.group


@given(annotations=SAYINGS, labels=SAYINGS)
@example(annotations={spec.NAME: "a", spec.MIN: "1", spec.GROUPS: "[" * 4096}, labels={})
@example(annotations={spec.NAME: "a", spec.MIN: "1", spec.WAIT: "9" * 12 + "h"}, labels={})
@example(annotations={spec.NAME: "a\n", spec.MIN: "1\n"}, labels={})
@settings(max_examples=400, deadline=None)
def test_any_text_can_be_read(annotations: dict[str, str], labels: dict[str, str]) -> None:
    said = Pod(PodUid("p"), "a", "p", annotations=annotations, labels=labels)
    check(declare(said, Defaults()))


@given(sayings=st.lists(st.tuples(SAYINGS, SAYINGS), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_the_core_takes_any_pods(sayings: list[tuple[dict[str, str], dict[str, str]]]) -> None:
    core = Core()
    for turn in (1, 2):  # the second time the pods change what they say
        for number, (annotations, labels) in enumerate(sayings):
            swapped = sayings[-number - 1][0] if turn == 2 else annotations
            core.handle(events.PodSeen(Pod(PodUid(str(number)), "a", "p", annotations=swapped, labels=labels)), turn)
    for key in core.gangs:
        view(core, key, 3.0)
    for number in range(len(sayings)):
        core.handle(events.PodGone(PodUid(str(number))), 4.0)
    assert not core.gangs and not core.groups and not core.strays and core.next_due() is None


def test_a_long_list_of_gangs_is_refused_and_says_how_many_are_allowed() -> None:
    listed = json.dumps([f"a/g{number}" for number in range(500)])
    declared = declare(pod("p", "g0", 1, groups=listed), Defaults())
    assert declared.spec is None
    assert "32" in str(declared.problems[0]) and len(str(declared.problems[0])) < 400


@pytest.mark.parametrize("groups", ['["a/train"]', '["a/train", "a/train"]', "[]", ""])
def test_a_gang_that_lists_only_itself_stands_alone(groups: str) -> None:
    decision = Core().handle(events.PodSeen(pod("p", "train", 1, groups=groups)), 0.0)
    assert [type(effect) for effect in decision.effects] == [Admit]


def test_gangs_of_the_same_name_in_two_namespaces_do_not_meet() -> None:
    core = Core()
    core.handle(events.PodSeen(pod("p", "train", 2, uid="a1", namespace="a")), 0.0)
    decision = core.handle(events.PodSeen(pod("p", "train", 2, uid="b1", namespace="b")), 0.0)
    assert not decision.effects and len(core.groups) == 2
    decision = core.handle(events.PodSeen(pod("q", "train", 2, uid="b2", namespace="b")), 0.0)
    admitted = [uid for effect in decision.effects if isinstance(effect, Admit) for uid, _ in effect.members]
    assert sorted(admitted) == ["b1", "b2"]


def test_one_that_lists_a_foreign_gang_holds_only_itself() -> None:
    core = Core()
    core.handle(events.PodSeen(pod("v", "victim", 1)), 0.0)
    core.handle(events.PodSeen(pod("x", "evil", 1, groups='["a/victim"]')), 0.0)
    assert view(core, core.gangs["a/evil"].key, 0.0).phase is GangPhase.FORMING  # type: ignore[index]
    assert view(core, core.gangs["a/victim"].key, 0.0).phase is GangPhase.TRYING  # type: ignore[index]


# ---- effort -----------------------------------------------------------------------------------------------


def calls(core: Core, event: events.Event, now: float) -> int:
    """How many Python functions run to handle it: a clock that does not depend on the machine."""
    count = 0

    def tick(_frame: Any, what: str, _arg: Any) -> None:
        nonlocal count
        count += what == "call"

    sys.setprofile(tick)
    try:
        core.handle(event, now)
    finally:
        sys.setprofile(None)
    return count


def crowd(gangs: int) -> Core:
    """So many other gangs, some forming, some trying, some waiting, some stuck."""
    core = Core()
    for number in range(gangs):
        for member in (1, 2)[: 1 + (number % 4 > 0)]:
            uid = f"{number}-{member}"
            core.handle(events.PodSeen(pod(uid, f"g{number}", 2, mode="NonStrict")), 0.0)
        if number % 4 > 1:
            core.handle(events.Permit(PodUid(f"{number}-1"), "n1", asked=False), 0.0)
        if number % 4 > 2:
            core.handle(events.PostFilter(PodUid(f"{number}-2"), "full"), 0.0)
    return core


def life(core: Core) -> list[int]:
    """The effort of each event in the life of one gang."""
    uids = [PodUid(f"p{number}") for number in range(3)]
    story: list[events.Event] = [events.PodSeen(pod(uid, "train", 3)) for uid in uids]
    story += [events.Permit(uids[0], "n1", asked=False), events.PostFilter(uids[1], "full"), events.Unreserve(uids[0])]
    story += [events.PodGone(uids[2])]
    return [calls(core, event, 0.5) for event in story]


def test_the_effort_for_a_gang_does_not_grow_with_the_number_of_others() -> None:
    life(Core())  # what is done once per process
    few, many = life(crowd(20)), life(crowd(400))
    # A collection of garbage may run a function or two in between; a look at every gang would run hundreds.
    assert all(abs(a - b) <= 5 for a, b in zip(few, many, strict=True)), (few, many)


def test_a_gang_that_tries_for_ever_leaves_no_trail_in_the_agenda() -> None:
    agenda = Agenda()
    for second in range(10_000):
        agenda.set(GroupId("a/train"), second + 1e6)
    assert len(agenda._heap) < 100 and agenda.next() == 9_999 + 1e6
