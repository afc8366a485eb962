# SPDX-License-Identifier: Apache-2.0
"""Gangs on a real control plane: all of the minimum or none of it."""

import pytest

from tests.stories.world import World

pytestmark = pytest.mark.cluster


def test_a_gang_that_fits_runs(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1", "p2"], "train", 3)
    world.wait_bound(["p0", "p1", "p2"])


def test_a_gang_waits_for_its_members_and_binds_soon_after_the_last(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 3)
    world.wait_told("p0", "NotEnoughMembers", f"waiting for 1 more of 3 members of gang {world.namespace}/train")
    world.never(lambda: bool(world.bound()), "a member was bound without the others", 2)

    world.gang(["p2"], "train", 3)

    assert world.wait_bound(["p0", "p1", "p2"]) < 5


def test_a_gang_without_room_binds_none_and_holds_nothing(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3)
    world.wait_told("p0", "NoRoom")
    assert not world.bound()

    world.pod("plain", cpu="2")  # takes all there is, so the gang must have given it back
    world.wait_bound(["plain"])
    assert world.bound() == {"plain"}


def test_a_gang_without_room_runs_when_a_node_comes(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3)
    world.wait_told("p0", "NoRoom")

    world.node("b", cpu=2)

    assert world.wait_bound(["p0", "p1", "p2"]) < 5


def test_a_gang_without_room_runs_when_a_pod_leaves(world: World) -> None:
    world.node("a", cpu=3)
    world.pod("plain", cpu="2")
    world.wait_bound(["plain"])
    world.gang(["p0", "p1", "p2"], "train", 3)
    world.wait_told("p0", "NoRoom")

    world.delete("plain")

    assert world.wait_bound(["p0", "p1", "p2"]) < 5


def test_of_two_gangs_with_room_for_one_exactly_one_runs(world: World) -> None:
    world.node("a", cpu=4)
    for index in range(3):  # interleaved, so that each could hold a part
        world.gang([f"left-{index}"], "left", 3)
        world.gang([f"right-{index}"], "right", 3)
    left, right = {f"left-{i}" for i in range(3)}, {f"right-{i}" for i in range(3)}
    world.wait(lambda: world.bound() in (left, right), "one of the gangs to run")
    world.never(lambda: world.bound() not in (left, right), "both gangs have members running", 3)


def test_members_past_the_minimum_follow_when_there_is_room(world: World) -> None:
    world.node("a", cpu=3)
    world.gang(["p0", "p1", "p2", "p3"], "train", 2)
    world.wait(lambda: len(world.bound()) == 3, "the minimum and one more to run")
    world.node("b", cpu=1)
    world.wait_bound(["p0", "p1", "p2", "p3"])


def test_a_running_gang_takes_a_replacement_by_itself(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 2)
    world.wait_bound(["p0", "p1"])
    world.delete("p0")
    world.wait(lambda: "p0" not in world.pods(), "p0 to be gone")

    world.gang(["p0"], "train", 2)  # the same name, another pod

    world.wait_bound(["p0", "p1"])


def test_a_gang_of_two_hundred_runs(world: World) -> None:
    for index in range(2):
        world.node(f"n{index}", cpu=110)
    names = [f"p{index}" for index in range(200)]
    world.gang(names[:-1], "wide", 200, cpu="100m")
    world.never(lambda: bool(world.bound()), "a member was bound without the others", 1)
    world.gang(names[-1:], "wide", 200, cpu="100m")
    world.wait_bound(names)


def test_a_member_deleted_while_the_others_wait_leaves_none_behind(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3, mode="NonStrict")
    world.wait_told("p0", "WaitingForQuorum")
    world.delete("p2")
    world.never(lambda: bool(world.bound()), "a member was bound without the others", 1)

    world.gang(["p3"], "train", 3, mode="NonStrict")
    world.node("b", cpu=1)

    world.wait_bound(["p0", "p1", "p3"])
