# SPDX-License-Identifier: Apache-2.0
"""Eviction for gangs, and of gangs."""

import pytest

from tests.stories.world import World

pytestmark = pytest.mark.cluster


def test_nobody_is_evicted_for_a_gang_that_could_not_be_whole(world: World) -> None:
    high = world.priority("high", 1000)
    world.node("a", cpu=2)
    world.pod("low-0")
    world.pod("low-1")
    world.wait_bound(["low-0", "low-1"])

    world.gang(["p0", "p1", "p2"], "train", 3, priority=high)

    world.wait_told("p0", "NoRoom")
    world.never(lambda: world.bound() != {"low-0", "low-1"}, "a pod was evicted in vain", 4)


def test_the_last_member_may_evict_and_then_runs_with_its_gang(world: World) -> None:
    high = world.priority("high", 1000)
    world.node("a", cpu=3)
    world.pod("low")
    world.wait_bound(["low"])

    world.gang(["p0", "p1", "p2"], "train", 3, priority=high)

    world.wait_bound(["p0", "p1", "p2"])
    assert "low" not in world.pods()


def test_a_gang_evicts_as_many_as_it_takes_to_be_whole(world: World) -> None:
    high = world.priority("high", 1000)
    world.node("a", cpu=2)
    world.node("b", cpu=2)
    low = [f"low-{index}" for index in range(4)]
    for name in low:
        world.pod(name)
    world.wait_bound(low)

    world.gang(["p0", "p1", "p2"], "train", 3, priority=high)

    world.wait_bound(["p0", "p1", "p2"])
    assert len(set(low) & set(world.pods())) == 1


def test_a_waiting_gang_whose_place_is_taken_starts_none_and_runs_later(world: World) -> None:
    high = world.priority("high", 1000)
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3, mode="NonStrict")
    world.wait_told("p0", "WaitingForQuorum", "2 of 3 members")

    world.pod("urgent", cpu="2", priorityClassName=high)
    world.wait_bound(["urgent"])
    assert world.bound() == {"urgent"}

    world.node("b", cpu=3)
    world.wait_bound(["p0", "p1", "p2"])
