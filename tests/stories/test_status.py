# SPDX-License-Identifier: Apache-2.0
"""The status of PodGroups follows their pods on a real control plane, also those that have finished."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import Client
from lightkube.resources.core_v1 import Pod

from localcluster import Cluster
from localcluster.layout import REPO
from muster.core.model import Source
from tests.stories.podgroups import PodGroups
from tests.stories.world import World, new_world

pytestmark = pytest.mark.cluster
RUN_FOR, EXIT_CODE = "localcluster.muster.dev/run-for", "localcluster.muster.dev/exit-code"
SOON = 3.0  # seconds; what users must see takes about half of one on a quiet machine


@pytest.fixture(params=[Source.SIGS, Source.X_K8S], ids=["sigs", "x-k8s"])
def either(world: World, request: pytest.FixtureRequest) -> PodGroups:
    return PodGroups(world, request.param)


@pytest.fixture
def groups(world: World) -> PodGroups:
    return PodGroups(world)


@pytest.fixture
def other(client: Client, world: World) -> Iterator[World]:
    """Another namespace."""
    with new_world(client, f"{world.namespace}-o") as made:
        yield made


def status(groups: PodGroups, name: str = "train") -> dict[str, Any]:
    found: dict[str, Any] = groups.get(name).get("status") or {}
    return found


def scheduled(groups: PodGroups, name: str = "train") -> dict[str, Any]:
    """The condition; empty while there is none."""
    listed = status(groups, name).get("conditions") or []
    return next((dict(c) for c in listed if c["type"] == "Scheduled"), {})


def wait_status(groups: PodGroups, name: str = "train", **fields: object) -> float:
    def so() -> bool:
        now = status(groups, name)
        return all(now.get(field) == value for field, value in fields.items())

    return groups.world.wait(so, f"status {fields} of {name}; it is {status(groups, name)}")


def wait_condition(groups: PodGroups, flag: str, reason: str, sentence: str = "", name: str = "train") -> float:
    def so() -> bool:
        said = scheduled(groups, name)
        return (said.get("status"), said.get("reason")) == (flag, reason) and sentence in said["message"]

    return groups.world.wait(so, f"Scheduled={flag} {reason} {sentence!r}; it is {scheduled(groups, name)}")


def test_from_pending_to_finished(world: World, either: PodGroups) -> None:
    world.node("small", cpu=1)
    either.create("train", 3)
    wait_status(either, phase="Pending", members=0, scheduled=0, running=0, succeeded=0, failed=0)
    wait_condition(
        either, "False", "NotEnoughMembers", f"waiting for 3 more of 3 members of gang {world.namespace}/train"
    )
    either.pods(["p0", "p1"], "train", {RUN_FOR: "3s"})
    wait_status(either, phase="Pending", members=2)
    wait_condition(either, "False", "NotEnoughMembers", "waiting for 1 more of 3 members")
    assert "scheduleStartTime" not in status(either)
    either.pods(["p2"], "train", {RUN_FOR: "3s"})
    wait_status(either, phase="Scheduling", members=3, scheduled=0)
    wait_condition(either, "False", "NoRoom")
    started = status(either)["scheduleStartTime"]

    world.node("a")

    wait_status(either, phase="Running", scheduled=3, running=3)
    wait_condition(either, "True", "Scheduled")
    since = scheduled(either)["lastTransitionTime"]
    wait_status(either, phase="Finished", succeeded=3, running=0, scheduled=3)
    assert scheduled(either)["lastTransitionTime"] == since
    assert status(either)["scheduleStartTime"] == started


def test_users_see_it_within_moments(world: World, groups: PodGroups) -> None:
    groups.create("train", 2)
    wait_condition(groups, "False", "NotEnoughMembers")
    world.node("a")
    groups.pods(["p0", "p1"], "train")
    world.wait_bound(["p0", "p1"])
    assert wait_status(groups, phase="Running", running=2) < SOON
    assert wait_condition(groups, "True", "Scheduled") < SOON


def test_a_failed_member_fails_the_gang_until_it_is_replaced(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 2)
    groups.pods(["p0"], "train")
    groups.pods(["p1"], "train", {RUN_FOR: "2s", EXIT_CODE: "1"})
    wait_status(groups, phase="Running", running=2)
    wait_status(groups, phase="Failed", running=1, failed=1, scheduled=1)
    wait_condition(groups, "False", "NotEnoughMembers", "waiting for 1 more of 2 members")
    assert scheduled(groups)["message"].endswith("; 1 failed")

    groups.pods(["p2"], "train")

    wait_status(groups, phase="Running", running=2, failed=1)


def test_a_gang_whose_minimum_runs_is_running_although_surplus_failed(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 2)
    groups.pods(["p0", "p1"], "train")
    groups.pods(["p2"], "train", {RUN_FOR: "1s", EXIT_CODE: "1"})
    wait_status(groups, phase="Running", running=2, failed=1, members=3)


def test_counters_go_down_when_members_are_deleted(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 2)
    groups.pods(["p0", "p1", "p2"], "train")
    wait_status(groups, phase="Running", running=3, scheduled=3)
    world.delete("p0")
    wait_status(groups, phase="Running", running=2, scheduled=2)
    world.delete("p1")
    wait_status(groups, phase="Pending", running=1, scheduled=1)
    wait_condition(groups, "False", "NotEnoughMembers", "waiting for 1 more of 2 members")
    world.delete("p2")
    wait_status(groups, phase="Pending", running=0, scheduled=0, members=0)
    world.wait(lambda: "scheduleStartTime" not in status(groups), "the next members to start over")


def test_equal_names_in_two_namespaces_do_not_mix(world: World, other: World, groups: PodGroups) -> None:
    theirs = PodGroups(other)
    world.node("a")
    groups.create("train", 2)
    theirs.create("train", 2)
    groups.pods(["p0", "p1"], "train")
    theirs.pods(["p0"], "train")
    wait_status(groups, phase="Running", members=2)
    wait_status(theirs, phase="Pending", members=1, running=0)
    wait_condition(
        theirs, "False", "NotEnoughMembers", f"waiting for 1 more of 2 members of gang {other.namespace}/train"
    )


def test_a_killed_server_catches_up(world: World, groups: PodGroups, cluster: Cluster) -> None:
    world.node("a")
    groups.create("train", 2)
    groups.create("late", 2)
    groups.pods(["p0", "p1"], "train", {RUN_FOR: "2s"})
    wait_status(groups, phase="Running", running=2)
    since = scheduled(groups)["lastTransitionTime"]

    old = cluster.kill("server")
    groups.pods(["q0", "q1"], "late")
    world.wait(lambda: all(_phase(world, name) == "Succeeded" for name in ("p0", "p1")), "both to finish")
    seen = [status(groups)["phase"]]
    cluster.wait_restart("server", old)

    # Never anything but one of the two: a server that has not counted yet must not write.
    while seen[-1] != "Finished":
        seen.append(status(groups)["phase"])
    assert set(seen) <= {"Running", "Finished"}
    assert scheduled(groups)["lastTransitionTime"] == since
    wait_status(groups, "late", phase="Running", running=2)


def test_an_event_says_when_the_reason_changes_and_not_at_every_retry(world: World, groups: PodGroups) -> None:
    world.node("a", cpu=1)
    groups.create("train", 2)
    groups.pods(["p0", "p1"], "train")
    world.wait_told("train", "NoRoom")
    time.sleep(5)  # some retries
    told = [reason for reason, _ in world.events("train")]
    assert told.count("NoRoom") == 1, told
    world.node("b", cpu=1)
    world.wait_told("train", "Scheduled", "the minimum of 2")


def test_whose_pods_they_are(world: World, groups: PodGroups) -> None:
    groups.create("train", 2)
    groups.pods(["p0"], "train")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "epoch", "uid": "1", "controller": True}
    patch = {"metadata": {"ownerReferences": [owner], "finalizers": ["muster.dev/test"]}}
    world.client.patch(Pod, "p0", patch, namespace=world.namespace)
    try:
        wait_status(groups, occupiedBy=f"{world.namespace}/epoch")
    finally:
        world.client.patch(Pod, "p0", {"metadata": {"finalizers": None}}, namespace=world.namespace)


def test_a_wrong_minimum_is_told_on_the_podgroup(world: World, groups: PodGroups) -> None:
    groups.create("train", 2, settings={"mode": "Nope"})
    wait_condition(groups, "False", "InvalidGang", "Strict or NonStrict")


def test_a_definition_without_a_status_of_its_own(world: World, cluster: Cluster) -> None:
    """As Koordinator ships it: one more right is needed, and then it works the same."""
    right = str(REPO / "manifests" / "rbac" / "optional" / "podgroups-without-status.yaml")
    drop = '[{"op": "remove", "path": "/spec/versions/0/subresources"}]'
    definition = ("crd", "podgroups.scheduling.x-k8s.io", "--type=json", "-p")
    groups = PodGroups(world, Source.X_K8S)
    cluster.kubectl("apply", "-f", right)
    cluster.kubectl("patch", *definition, drop)
    try:
        groups.create("train", 2)
        groups.pods(["p0"], "train")
        wait_status(groups, phase="Pending", members=1)
        wait_condition(groups, "False", "NotEnoughMembers", "waiting for 1 more of 2 members")
    finally:
        restore = '[{"op": "add", "path": "/spec/versions/0/subresources", "value": {"status": {}}}]'
        cluster.kubectl("patch", *definition, restore)
        cluster.kubectl("delete", "-f", right)


def _phase(world: World, name: str) -> str:
    pod = world.pods()[name]
    return str(pod.status and pod.status.phase)
