# SPDX-License-Identifier: Apache-2.0
"""Corners of gangs that objects declare; the ordinary course is in scenarios/podgroup*.txt."""

import itertools
import random

import pytest

from muster.core import Core, events, spec
from muster.core.decision import Admit, Hold, Mark
from muster.core.model import GangKey, GangObject, Pod, Source
from muster.core.view import GangPhase, view
from tests.builders import pod, podgroup

DEFAULTS = spec.Defaults()
KEY = GangKey("a/train")


def seen(core: Core, *things: Pod | GangObject, now: float = 0.0) -> None:
    for thing in things:
        core.handle(events.PodSeen(thing) if isinstance(thing, Pod) else events.ObjectSeen(thing), now)


def members(*names: str) -> list[Pod]:
    return [pod(name, "train", joins=Source.SIGS) for name in names]


def problems(declared: GangObject) -> list[str]:
    return [str(problem) for problem in spec.declare_object(declared, DEFAULTS).problems]


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (podgroup("train"), "spec.minMember is not set: it must be a whole number from 1 to 10000"),
        (podgroup("train", 0), 'spec.minMember is "0"'),
        (podgroup("train", -(2**63)), f'spec.minMember is "{-(2**63)}"'),
        (podgroup("train", 1, timeout=0), 'spec.scheduleTimeoutSeconds is "0": it must be a whole number of seconds'),
        (podgroup("train", 1, resources={"cpu": -1500}), 'spec.minResources.cpu is "-1500m": it must not be negative'),
        (podgroup("train", unreadable={"spec.minMember": '"3"'}), r'spec.minMember is "\"3\"": it must be a whole'),
        (podgroup("train", 1, unreadable={"spec.minResources.cpu": "[]"}), 'cpu is "[]": it must be a quantity'),
        (podgroup("train", 3, total_number=2), "not be less than the minimum, 3"),
        (podgroup("train", 3, waiting_time="1"), f'{spec.WAIT} is "1"'),
        (podgroup("train", 3, source=Source.NATIVE, groups="x"), f'{spec.GROUPS} is "x"'),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_an_object_is_told_once(made: GangObject, complaint: str) -> None:
    (problem,) = problems(made)
    assert complaint in problem


def test_an_unknown_key_of_ours_on_an_object_is_wrong_and_keys_of_others_are_not() -> None:
    made = podgroup("train", 1)
    own = GangObject(Source.SIGS, "a", "train", "u", min=1, annotations={spec.MUSTER + "on-timout": "Retry"})
    others = GangObject(Source.SIGS, "a", "train", "u", min=1, annotations={spec.KOORDINATOR + "network-topology": "x"})
    assert "unknown key" in problems(own)[0]
    assert not problems(others) and not problems(made)


def test_an_annotation_of_an_object_comes_before_its_field() -> None:
    made = spec.declare_object(podgroup("train", 2, timeout=30, waiting_time="1m"), DEFAULTS).spec
    assert made is not None and made.wait == 60.0


def test_a_pod_with_a_name_but_no_minimum_joins_by_its_label() -> None:
    both = {spec.NAME: "other", spec.MODE: "NonStrict"}
    joined = Pod(pod("p").uid, "a", "p", annotations=both, labels={spec.POD_GROUP_LABELS[0]: "train"})
    declared = spec.declare(joined, DEFAULTS)
    assert (declared.gang, declared.spec, declared.problems, declared.unused) == (KEY, None, (), (spec.MODE,))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_in_which_objects_come_does_not_matter(order: tuple[int, ...]) -> None:
    objects = [
        podgroup("train", 0, source=Source.NATIVE, created=1),  # not sound
        podgroup("train", 2, source=Source.X_K8S, created=2),
        podgroup("train", 3, source=Source.SIGS, created=2),
    ]
    core = Core()
    seen(core, *(objects[index] for index in order))
    assert view(core, KEY, 0.0).min == 3  # the oldest sound ones are of the same second, and SIGS is named first


def test_an_object_without_members_is_seen_and_goes_without_a_trace() -> None:
    core = Core()
    seen(core, podgroup("train", 3, created=7))
    shown = view(core, KEY, 0.0)
    assert (shown.phase, shown.min, shown.members, shown.created_ns) == (GangPhase.FORMING, 3, (), 7)
    assert core.explanations(10.0) == []
    core.handle(events.ObjectGone(Source.SIGS, "a", "train", "SIGS-train"), 0.0)
    assert not core.gangs and not core.groups and core.next_due() is None


def test_a_gang_object_that_goes_at_the_instant_of_the_deadline_marks_nobody() -> None:
    core = Core()
    seen(core, podgroup("train", 2, timeout=10, mode="NonStrict"), *members("p1", "p2"))
    core.handle(events.Permit(pod("p1").uid, "n1", asked=False), 0.0)
    decision = core.handle(events.ObjectGone(Source.SIGS, "a", "train", "SIGS-train"), 10.0)
    assert not any(isinstance(effect, Mark) for effect in decision.effects)
    assert view(core, KEY, 10.0).phase is GangPhase.FORMING


def test_a_gang_that_is_marked_stays_so_when_its_object_is_created_again() -> None:
    core = Core()
    seen(core, podgroup("train", 2, timeout=1, mode="NonStrict"), *members("p1", "p2"))
    core.handle(events.Permit(pod("p1").uid, "n1", asked=False), 0.0)
    core.handle(events.Tick(), 1.0)
    core.handle(events.ObjectGone(Source.SIGS, "a", "train", "SIGS-train"), 2.0)
    seen(core, podgroup("train", 2, uid="new"), now=3.0)
    assert view(core, KEY, 3.0).phase is GangPhase.TIMED_OUT


def test_an_unknown_capacity_holds_nobody_and_an_empty_cluster_does() -> None:
    core = Core()
    seen(core, podgroup("train", 1, resources={"cpu": 1}), *members("p1"))
    assert view(core, KEY, 0.0).phase is GangPhase.TRYING
    decision = core.handle(events.Capacity({}), 0.0)
    assert [type(effect) for effect in decision.effects] == [Hold]
    assert "1m cpu of 0" in str(view(core, KEY, 0.0).why)
    decision = core.handle(events.Capacity({"cpu": 1}), 0.0)
    assert [type(effect) for effect in decision.effects] == [Admit]


def test_a_new_session_decides_as_the_old_one_did() -> None:
    """Whatever order the facts came in, a server that gets them all at once holds and admits the same."""
    things: list[Pod | GangObject] = [
        podgroup("train", 2, created=3, groups='["a/other"]'),
        podgroup("train", 4, source=Source.X_K8S, created=2, groups='["a/train"]'),
        podgroup("other", 1, created=1, groups='["a/train"]', source=Source.NATIVE),
        *members("p1", "p2"),
        pod("p3", "train", 2, created=5, groups='["a/other"]'),
        pod("o1", "other", joins=Source.NATIVE),
    ]
    pods = tuple(thing for thing in things if isinstance(thing, Pod))
    objects = tuple(thing for thing in things if isinstance(thing, GangObject))
    fresh = Core()
    fresh.handle(events.Synchronize(pods, objects), 0.0)
    expected = {key: (view(fresh, key, 0.0).min, view(fresh, key, 0.0).group) for key in fresh.gangs}
    for seed in range(50):
        random.Random(seed).shuffle(things)
        core = Core()
        seen(core, *things)
        assert {key: (view(core, key, 0.0).min, view(core, key, 0.0).group) for key in core.gangs} == expected


@pytest.mark.parametrize(
    ("thousandths", "text"),
    [(0, "0"), (1, "1m"), (1500, "1500m"), (64_000, "64"), (1_048_576_000, "1Mi"), (1 << 40, "1099511627776m"),
     (3 * (1 << 30) * 1000, "3Gi"), ((1 << 20) * 1000 + 1000, "1048577"), (-2000, "-2")],
)  # fmt: skip
def test_amounts_are_shown_as_people_write_them(thousandths: int, text: str) -> None:
    assert spec.quantity(thousandths) == text
