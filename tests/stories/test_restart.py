# SPDX-License-Identifier: Apache-2.0
"""Either side dies while gangs wait: nothing starts in part, nothing is lost, plain pods do not notice."""

import signal

import pytest

from localcluster import Cluster
from tests.stories.world import World

pytestmark = pytest.mark.cluster
PARTS = ["server", "scheduler"]


@pytest.mark.parametrize("part", PARTS)
def test_killed_while_a_gang_waits_for_members(world: World, cluster: Cluster, part: str) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 3)
    world.wait_told("p0", "NotEnoughMembers")

    old = cluster.kill(part)
    world.gang(["p2"], "train", 3)
    cluster.wait_restart(part, old)

    world.wait_bound(["p0", "p1", "p2"])


@pytest.mark.parametrize("part", PARTS)
def test_killed_while_members_wait_at_permit(world: World, cluster: Cluster, part: str) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3, mode="NonStrict")
    world.wait_told("p0", "WaitingForQuorum", "2 of 3 members")

    old = cluster.kill(part)
    world.never(lambda: bool(world.bound()), "a member was bound without the others", 1)
    cluster.wait_restart(part, old)
    world.node("b", cpu=1)

    world.wait_bound(["p0", "p1", "p2"])


@pytest.mark.parametrize("part", PARTS)
def test_killed_while_a_gang_without_room_is_tried(world: World, cluster: Cluster, part: str) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3)
    world.wait_told("p0", "NoRoom")

    old = cluster.kill(part)
    cluster.wait_restart(part, old)
    world.never(lambda: bool(world.bound()), "a member was bound without the others", 1)
    world.node("b", cpu=1)

    world.wait_bound(["p0", "p1", "p2"])


def test_while_the_server_is_away_plain_pods_run_and_gangs_are_held(world: World, cluster: Cluster) -> None:
    world.node("a")
    pid = cluster.kill("server", signal.SIGSTOP)
    try:
        world.gang(["p0", "p1"], "train", 2)
        world.pod("plain")
        world.wait_bound(["plain"])
        world.never(lambda: bool(world.bound() - {"plain"}), "a gang ran without the server", 2)
    finally:
        cluster.kill("server", signal.SIGCONT)
    assert cluster.pid("server") == pid
    world.wait_bound(["p0", "p1"])


def test_a_drained_server_hands_its_waiting_gang_to_the_next(world: World, cluster: Cluster) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3, mode="NonStrict")
    world.wait_told("p0", "WaitingForQuorum", "2 of 3 members")

    old = cluster.kill("server", signal.SIGTERM)
    cluster.wait_restart("server", old)
    world.node("b", cpu=1)

    world.wait_bound(["p0", "p1", "p2"])
