# SPDX-License-Identifier: Apache-2.0
"""Who goes first when room comes."""

import pytest

from tests.stories.world import World

pytestmark = pytest.mark.cluster


def members(gang: str, count: int = 3) -> list[str]:
    return [f"{gang}-{index}" for index in range(count)]


def test_a_newcomer_of_higher_priority_goes_first(world: World) -> None:
    high = world.priority("high", 1000)
    world.node("a", cpu=3)
    world.pod("filler", cpu="3", priorityClassName=world.priority("top", 2000))
    world.wait_bound(["filler"])
    world.gang(members("old"), "old", 3)
    world.wait_told("old-0", "NoRoom")
    world.gang(members("new"), "new", 3, priority=high)
    world.wait_told("new-0", "NoRoom")

    world.delete("filler")

    world.wait_bound(members("new"))
    assert world.bound() == set(members("new"))


def test_a_gang_that_does_not_fit_blocks_nobody_behind_it(world: World) -> None:
    world.node("a", cpu=4)
    world.gang(members("giant", 6), "giant", 6)
    world.wait_told("giant-0", "NoRoom")
    world.gang(members("small"), "small", 3)

    assert world.wait_bound(members("small")) < 5


def test_gangs_of_the_same_second_do_not_take_each_others_room(world: World) -> None:
    """Five gangs, created member by member in turn, with room for two: two run whole, three not at all."""
    world.node("a", cpu=8)
    gangs = [f"g{number}" for number in range(5)]
    for index in range(4):
        for gang in gangs:
            world.gang([f"{gang}-{index}"], gang, 4)

    def whole() -> list[str]:
        bound = world.bound()
        return [gang for gang in gangs if set(members(gang, 4)) <= bound]

    world.wait(lambda: len(whole()) == 2, "two gangs to run")
    world.never(lambda: len(world.bound()) != 8, "more than two gangs have members running", 3)
