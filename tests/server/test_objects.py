# SPDX-License-Identifier: Apache-2.0
"""Facts that are not about pods, over a real socket."""

from collections.abc import AsyncIterator

import grpc
import pytest

from muster.v1 import scheduling_pb2 as pb
from tests.server.harness import Running, Scheduler, running

LABEL = "pod-group.scheduling.sigs.k8s.io"


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running() as made:
        yield made


@pytest.fixture
async def scheduler(server: Running) -> AsyncIterator[Scheduler]:
    made = Scheduler(server.address)
    yield made
    await made.close()


def member(name: str) -> pb.Fact:
    return pb.Fact(pod=pb.Pod(uid=f"uid-{name}", namespace="a", name=name, labels={LABEL: "train"}))


def train(minimum: int, **fields: object) -> pb.Fact:
    made = pb.GangObject(source=pb.GANG_SOURCE_SIGS, namespace="a", name="train", uid="o1", min=minimum, **fields)  # type: ignore[arg-type]
    return pb.Fact(gang_object=made)


async def opened(scheduler: Scheduler, *facts: pb.Fact) -> None:
    await scheduler.send(hello=pb.Hello(contract=1, epoch="e1"))
    await scheduler.send(facts=pb.Facts(facts=facts))
    await scheduler.send(synced=pb.Synced())


async def test_an_opening_may_have_objects_namespaces_and_the_size_of_the_cluster(scheduler: Scheduler) -> None:
    size = pb.Fact(capacity=pb.Capacity(allocatable={"cpu": 4000}))
    namespace = pb.Fact(namespace=pb.Namespace(name="a", labels={"gang.muster.dev/cross-namespace-groups": "allowed"}))
    await opened(scheduler, size, namespace, train(2, min_resources={"cpu": 4000}), member("p1"), member("p2"))
    assert (await scheduler.receive()).WhichOneof("body") == "welcome"
    (admit,) = await scheduler.directives()
    assert [m.uid for m in admit.admit.members] == ["uid-p1", "uid-p2"]

    await scheduler.send(facts=pb.Facts(facts=[pb.Fact(capacity=pb.Capacity(allocatable={"cpu": 3999}))]))
    (hold,) = await scheduler.directives()
    assert "4 cpu of 3999m" in hold.hold.reason


async def test_an_object_that_comes_and_goes_admits_and_holds(scheduler: Scheduler) -> None:
    await opened(scheduler, member("p1"))
    assert (await scheduler.receive()).WhichOneof("body") == "welcome"
    await scheduler.send(facts=pb.Facts(facts=[train(1)]))
    (admit,) = await scheduler.directives()
    assert admit.WhichOneof("directive") == "admit"
    gone = pb.GangObjectGone(source=pb.GANG_SOURCE_SIGS, namespace="a", name="train", uid="o1")
    await scheduler.send(facts=pb.Facts(facts=[pb.Fact(gang_object_gone=gone)]))
    (hold,) = await scheduler.directives()
    assert hold.hold.reason == "waiting for PodGroup a/train to exist"


@pytest.mark.parametrize(
    "fact",
    [
        pb.Fact(room=pb.Room()),
        pb.Fact(pod_gone=pb.PodGone(uid="u")),
        pb.Fact(gang_object_gone=pb.GangObjectGone(source=pb.GANG_SOURCE_SIGS, namespace="a", name="x", uid="u")),
        pb.Fact(gang_object=pb.GangObject(namespace="a", name="x", uid="u")),
        pb.Fact(gang_object=pb.GangObject(source=pb.GANG_SOURCE_SIGS, namespace="a", name="x")),
        pb.Fact(namespace=pb.Namespace()),
    ],
    ids=["room", "pod gone", "object gone", "no source", "no uid", "no name"],
)
async def test_what_may_not_stand_in_an_opening_breaks_the_contract(scheduler: Scheduler, fact: pb.Fact) -> None:
    await scheduler.send(hello=pb.Hello(contract=1, epoch="e1"))
    await scheduler.send(facts=pb.Facts(facts=[fact]))
    code, _ = await scheduler.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
