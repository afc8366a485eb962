# SPDX-License-Identifier: Apache-2.0
"""The wait at Permit ends: members are marked, their room is free, and removing the marks revives the gang."""

import pytest

from tests.stories.world import World

pytestmark = pytest.mark.cluster
ALL = {"p0", "p1", "p2"}


def test_a_gang_out_of_time_is_marked_and_revived_by_removing_the_marks(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(sorted(ALL), "train", 3, mode="NonStrict", waiting_time="3s")
    world.wait_told("p0", "WaitingForQuorum", "2 of 3 members")
    world.wait(lambda: world.marked() == ALL, "all members to be marked")
    world.wait_told("p0", "TimedOut", "within 3s")
    world.pod("plain", cpu="2")
    world.wait_bound(["plain"])

    world.node("b", cpu=3)
    world.annotate("p0", timeout=None)
    world.annotate("p1", timeout=None)
    world.never(lambda: bool(world.bound() & ALL), "a member ran although p2 is still marked", 2)
    world.annotate("p2", timeout=None)

    world.wait_bound(ALL)


def test_a_gang_that_asks_for_it_is_tried_again(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(sorted(ALL), "train", 3, mode="NonStrict", waiting_time="2s", on_timeout="Retry")
    world.wait_told("p0", "TimedOut", "it is tried again")
    assert not world.marked()
    world.node("b", cpu=1)
    world.wait_bound(ALL)
