# SPDX-License-Identifier: Apache-2.0
"""Gangs that PodGroups declare, on a real control plane."""

import json
import time
from collections.abc import Iterator, Mapping

import pytest
from lightkube import ApiError, Client

from localcluster import Cluster, access
from muster.core import spec
from muster.core.model import Source
from tests.stories.podgroups import PodGroups, allow_groups
from tests.stories.world import STORY, World, new_world

pytestmark = pytest.mark.cluster
SOON = 5.0  # seconds; it takes a tenth of that on a quiet machine


@pytest.fixture(params=[Source.SIGS, Source.X_K8S], ids=["sigs", "x-k8s"])
def either(world: World, request: pytest.FixtureRequest) -> PodGroups:
    """PodGroups of either API group: they work the same."""
    return PodGroups(world, request.param)


@pytest.fixture
def groups(world: World) -> PodGroups:
    return PodGroups(world)


@pytest.fixture
def other(client: Client, world: World) -> Iterator[World]:
    """Another namespace."""
    with new_world(client, f"{world.namespace}-o") as made:
        yield made


def test_a_podgroup_and_then_its_pods(world: World, either: PodGroups) -> None:
    world.node("a")
    either.create("train", 3)
    either.pods(["p0", "p1"], "train")
    world.wait_told("p0", "NotEnoughMembers", f"waiting for 1 more of 3 members of gang {world.namespace}/train")
    assert not world.bound()

    either.pods(["p2"], "train")

    assert world.wait_bound(["p0", "p1", "p2"]) < SOON


def test_pods_and_then_their_podgroup(world: World, either: PodGroups) -> None:
    world.node("a")
    either.pods(["p0", "p1"], "train")
    world.wait_told("p0", "MissingPodGroup", f"waiting for PodGroup {world.namespace}/train to exist")
    world.never(lambda: bool(world.bound()), "a pod was bound without its PodGroup", 1)

    either.create("train", 2)

    assert world.wait_bound(["p0", "p1"]) < SOON


def test_a_minimum_that_is_lowered_lets_the_gang_run(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 3)
    groups.pods(["p0", "p1"], "train")
    world.wait_told("p0", "NotEnoughMembers", "1 more of 3")

    groups.change("train", minMember=2)

    assert world.wait_bound(["p0", "p1"]) < SOON


def test_a_minimum_that_is_raised_holds_a_gang_that_did_not_start(world: World, groups: PodGroups) -> None:
    world.node("a", cpu=1)
    groups.create("train", 2)
    groups.pods(["p0", "p1"], "train")
    world.wait_told("p0", "NoRoom")

    groups.change("train", minMember=3)
    world.wait_told("p0", "NotEnoughMembers", "1 more of 3")
    world.node("b", cpu=4)
    world.never(lambda: bool(world.bound()), "two of three were bound", 2)
    groups.pods(["p2"], "train")

    world.wait_bound(["p0", "p1", "p2"])


def test_deleted_and_created_again(world: World, groups: PodGroups) -> None:
    world.node("a", cpu=2)
    groups.create("train", 2)
    groups.pods(["p0", "p1", "p2"], "train")
    world.wait(lambda: len(world.bound()) == 2, "the minimum to run")
    ran = world.bound()
    (held,) = {"p0", "p1", "p2"} - ran

    groups.delete("train")
    world.wait_told(held, "MissingPodGroup")
    world.node("b")
    world.never(lambda: world.bound() != ran, "what runs was touched, or what is held ran", 2)
    groups.create("train", 2)

    assert world.wait_bound(["p0", "p1", "p2"]) < SOON


def test_what_a_podgroup_says_about_time_counts(world: World, groups: PodGroups) -> None:
    world.node("a", cpu=1)
    groups.create("train", 2, settings={"mode": "NonStrict"}, scheduleTimeoutSeconds=3)
    groups.pods(["p0", "p1"], "train")
    world.wait_told("p0", "TimedOut", "within 3s")
    assert not world.bound()


def test_a_gang_too_big_for_the_cluster_waits_for_it_to_grow(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 2, minResources={"cpu": "1000000"})
    groups.pods(["p0", "p1"], "train")
    world.wait_told("p0", "TooBigForCluster", "needs more than all nodes together have: 1000000 cpu of ")
    world.never(lambda: bool(world.bound()), "it ran", 1)

    world.node("b", cpu=1_000_000)

    world.wait_bound(["p0", "p1"])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"minMember": 0}, "greater than or equal to 1"),
        ({"minMember": 10_001}, "less than or equal to 10000"),
        ({"minMember": 1, "scheduleTimeoutSeconds": 2_592_001}, "less than or equal to 2592000"),
        ({"minMember": 1, "minResources": {"cpu": "lots"}}, "should match"),
    ],
)
def test_our_definitions_refuse_bad_numbers(either: PodGroups, fields: dict[str, object], complaint: str) -> None:
    minimum, *_ = fields.values()
    with pytest.raises(ApiError, match=complaint):
        either.create("bad", minimum, **{k: v for k, v in fields.items() if k != "minMember"})  # type: ignore[arg-type]


def test_a_bad_annotation_on_a_podgroup_is_told_on_its_pods(world: World, either: PodGroups) -> None:
    world.node("a")
    either.create("train", 2, settings={"mode": "Lenient"})
    either.pods(["p0", "p1"], "train")
    world.wait_told("p0", "InvalidGang", f'{either.source.value} {world.namespace}/train: {spec.MODE} is "Lenient"')
    assert not world.bound()


def test_settings_on_pods_come_before_those_of_a_podgroup(world: World, groups: PodGroups) -> None:
    world.node("a")
    groups.create("train", 4)
    world.gang(["p0", "p1"], "train", 2)
    world.wait_bound(["p0", "p1"])
    world.wait_told("p0", "SettingsDiffer", f"those of {Source.SIGS.value} {world.namespace}/train differ")


def test_of_two_kinds_of_the_same_name_the_older_one_counts(world: World, groups: PodGroups) -> None:
    world.node("a")
    younger = PodGroups(world, Source.X_K8S)
    groups.create("train", 2)
    time.sleep(1.1)  # creation has whole seconds only
    younger.create("train", 3)
    younger.pods(["p0", "p1"], "train")
    world.wait_bound(["p0", "p1"])
    world.wait_told("p0", "SettingsDiffer", f"has the settings of {Source.SIGS.value}")


def test_gangs_of_two_namespaces_start_together_only_with_the_consent_of_both(world: World, other: World) -> None:
    both = json.dumps([f"{world.namespace}/left", f"{other.namespace}/right"])
    world.node("a")
    other.node("a")
    PodGroups(world).create("left", 2, settings={"groups": both})
    PodGroups(world).pods(["p0", "p1"], "left")
    PodGroups(other, Source.X_K8S).create("right", 1, settings={"groups": both})
    PodGroups(other, Source.X_K8S).pods(["q0"], "right")
    world.wait_told("p0", "GroupNotAllowed")
    allow_groups(world)
    world.never(lambda: bool(world.bound() or other.bound()), "they ran with the consent of one", 2)

    allow_groups(other)

    assert world.wait_bound(["p0", "p1"]) < SOON
    other.wait_bound(["q0"])


def test_a_list_of_one_side_holds_only_the_gang_that_wrote_it(world: World, other: World) -> None:
    world.node("a")
    other.node("a")
    other.gang(["q0"], "right", 1)
    other.wait_bound(["q0"])
    for gang, listed in (("knows", "right"), ("guesses", "nobody")):
        world.gang([gang], gang, 1, groups=json.dumps([f"{other.namespace}/{listed}"]))
        world.wait_told(gang, "GroupNotAllowed")
    allow_groups(world)
    allow_groups(other)
    for gang in ("knows", "guesses"):
        world.wait_told(gang, "GroupIncomplete")
    sentences = {gang: {text for _, text in world.events(gang)} for gang in ("knows", "guesses")}
    told = {text.replace("guesses", "knows").replace("nobody", "right") for text in sentences["guesses"]}
    assert told == sentences["knows"], "what is told reveals who exists"
    assert not world.bound()


def test_a_definition_that_comes_later_is_noticed(world: World, cluster: Cluster) -> None:
    groups = PodGroups(world, Source.X_K8S)
    world.node("a")
    cluster.kubectl("delete", "crd", "podgroups.scheduling.x-k8s.io")
    groups.pods(["p0", "p1"], "train")
    world.wait_told("p0", "MissingPodGroup")
    access.apply_manifests(cluster.kubectl)
    groups.create("train", 2)
    assert world.wait_bound(["p0", "p1"]) < 15


def test_podgroups_of_kubernetes_itself(world: World, cluster: Cluster) -> None:
    world.node("a")

    def native(kind: str, api: str, name: str, body: Mapping[str, object]) -> None:
        metadata = {"name": name, "namespace": world.namespace}
        made = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": body}
        cluster.kubectl("create", "-f", "-", input=json.dumps(made))

    for name in ("p0", "p1"):
        pod = {
            "schedulerName": "muster-scheduler",
            "nodeSelector": {STORY: world.namespace},
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
            "schedulingGroup": {"podGroupName": "train"},
        }
        native("Pod", "v1", name, pod)
    world.wait_told("p0", "MissingPodGroup")

    native("PodGroup", "scheduling.k8s.io/v1beta1", "train", {"schedulingPolicy": {"gang": {"minCount": 2}}})

    assert world.wait_bound(["p0", "p1"]) < SOON
