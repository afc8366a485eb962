# SPDX-License-Identifier: Apache-2.0
"""Bad input is told on the pod, with key, value and what is allowed, and harms nobody else."""

import pytest

from muster.core import spec
from tests.stories.world import World

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("min_available", "many", "a whole number from 1 to 10000"),
        ("mode", "strict", "Strict or NonStrict"),
        ("waiting_time", "10", "a duration such as 90s"),
        ("total_number", "1", "not be less than the minimum, 2"),
        ("groups", "a/b", "a JSON array"),
    ],
)
def test_a_bad_value_is_told_on_the_pod(world: World, key: str, value: str, allowed: str) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 2, **{key: value})
    full = spec.KOORDINATOR + key.replace("_", "-")
    world.wait_told("p0", "InvalidGang", f'{full} is "{value}"')
    assert any(allowed in message for _, message in world.events("p0"))
    assert not world.bound()


def test_a_bad_member_does_not_keep_the_sound_ones_from_running(world: World) -> None:
    world.node("a")
    world.gang(["bad"], "train", 2, mode="Nope")
    world.gang(["p0", "p1"], "train", 2)
    world.wait_bound(["p0", "p1"])
    assert world.bound() == {"p0", "p1"}


def test_gang_keys_without_a_name_are_told(world: World) -> None:
    world.node("a")
    world.pod("p0", {spec.MIN: "2"})
    world.wait_told("p0", "InvalidGang", f"{spec.NAME} is not set")
    assert not world.bound()


def test_a_corrected_value_revives_the_gang(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 2, mode="Nope")
    world.wait_told("p0", "InvalidGang")

    for name in ("p0", "p1"):
        world.annotate(name, mode="Strict")

    world.wait_bound(["p0", "p1"])


def test_members_that_disagree_are_told(world: World) -> None:
    world.node("a")
    world.gang(["p0"], "train", 2)
    world.wait_told("p0", "NotEnoughMembers")
    world.gang(["p1"], "train", 3)
    world.wait_bound(["p0", "p1"])
    world.wait_told("p1", "SettingsDiffer", "the settings of its oldest member p0")
