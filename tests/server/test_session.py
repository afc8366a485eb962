# SPDX-License-Identifier: Apache-2.0
"""The contract over a real socket: order, replies, directives, and how a session ends."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from muster.v1 import scheduling_pb2 as pb
from tests.server.harness import Running, Scheduler, pod, running, waits


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    async with running() as made:
        yield made


@pytest.fixture
async def scheduler(server: Running) -> AsyncIterator[Scheduler]:
    made = Scheduler(server.address)
    yield made
    await made.close()


async def test_a_gang_is_admitted_waits_and_is_let_through(scheduler: Scheduler) -> None:
    await scheduler.open()
    await scheduler.facts(pod("p1"), pod("p2"), pod("p3"))
    (admit,) = await scheduler.directives()
    assert [member.uid for member in admit.admit.members] == ["uid-p1", "uid-p2", "uid-p3"]
    assert admit.admit.quiet_permits == 3
    keys = [(m.key.priority, m.key.created_unix_ns, m.key.gang, m.key.index) for m in admit.admit.members]
    assert keys == sorted(keys) and len(set(keys)) == 3

    await scheduler.tell(waits("uid-p1"), waits("uid-p2"))
    await scheduler.send(permit=pb.PermitRequest(call_id=7, uid="uid-p3", node_name="n1"))

    reply = (await scheduler.receive()).permit
    assert (reply.call_id, reply.verdict) == (7, pb.VERDICT_PASS)
    assert list(reply.allow.uids) == ["uid-p1", "uid-p2"]


async def test_a_call_sees_every_fact_sent_before_it(scheduler: Scheduler) -> None:
    """Thirty rounds without waiting for anything: each Permit must know the pods sent just before it."""
    await scheduler.open()
    for number in range(30):
        gang = f"g{number}"
        await scheduler.facts(pod(f"{gang}-a", gang, 2), pod(f"{gang}-b", gang, 2))
        await scheduler.tell(waits(f"uid-{gang}-a"))
        await scheduler.send(permit=pb.PermitRequest(call_id=number + 1, uid=f"uid-{gang}-b", node_name="n1"))
    verdicts: dict[int, int] = {}
    while len(verdicts) < 30:
        frame = await scheduler.receive()
        if frame.WhichOneof("body") == "permit":
            verdicts[frame.permit.call_id] = frame.permit.verdict
    assert set(verdicts.values()) == {pb.VERDICT_PASS}


async def test_a_refused_member_is_told_why(scheduler: Scheduler) -> None:
    await scheduler.open(pod("p1"), pod("p2"))
    await scheduler.send(pre_filter=pb.PreFilterRequest(call_id=1, uid="uid-p1"))
    reply = (await scheduler.receive()).pre_filter
    assert not getattr(reply, "pass")
    assert reply.reason == "waiting for 1 more of 3 members of gang a/train"


async def test_a_fact_has_no_reply(scheduler: Scheduler) -> None:
    await scheduler.open(pod("p1"), pod("p2"))
    await scheduler.tell(
        pb.Fact(permit=pb.PermitRequest(uid="uid-p1", node_name="n1")),
        pb.Fact(unreserve=pb.UnreserveRequest(uid="uid-p1", node_name="n1")),
        pb.Fact(post_filter=pb.PostFilterRequest(uid="uid-p1")),
        pb.Fact(commit_report=pb.CommitReport(commit=1)),
    )
    await scheduler.send(pre_filter=pb.PreFilterRequest(call_id=5, uid="uid-p2"))
    while (frame := await scheduler.receive()).WhichOneof("body") == "directives":
        pass
    assert frame.pre_filter.call_id == 5


async def test_what_follows_from_the_facts_of_a_frame_comes_in_one_frame_and_in_order(scheduler: Scheduler) -> None:
    await scheduler.open()
    gangs = [f"g{number}" for number in range(5)]
    await scheduler.facts(*(pod(f"{gang}-{part}", gang, 2) for gang in gangs for part in "ab"))
    admits = await scheduler.directives()
    assert [directive.admit.group for directive in admits] == [f"a/{gang}" for gang in gangs]
    await scheduler.tell(*(waits(f"uid-{gang}-{part}") for gang in reversed(gangs) for part in "ab"))
    allows = await scheduler.directives()
    assert [list(directive.allow.uids) for directive in allows] == [
        [f"uid-{gang}-a", f"uid-{gang}-b"] for gang in reversed(gangs)
    ]


async def test_the_facts_of_a_frame_are_judged_one_after_the_other(scheduler: Scheduler) -> None:
    """The same facts in another order: a pod that came, waited and went is no member of a quorum."""
    await scheduler.open(pod("p1", minimum=2))
    await scheduler.tell(
        pb.Fact(pod=pod("p2", minimum=2)),
        waits("uid-p1"),
        pb.Fact(pod_gone=pb.PodGone(uid="uid-p2")),
        waits("uid-p2"),
        pb.Fact(pod=pod("p3", minimum=2)),
    )
    directives = await scheduler.directives()
    assert not any(directive.WhichOneof("directive") == "allow" for directive in directives)
    assert directives[-1].admit.members[-1].uid == "uid-p3"


async def test_nothing_is_decided_before_synced(scheduler: Scheduler) -> None:
    """Three of three are known after the first chunk, but the second says that one of them is gone."""
    await scheduler.send(hello=pb.Hello(contract=1, epoch="e1"))
    await scheduler.facts(pod("p1"), pod("p2"), pod("p3"))
    await scheduler.facts(pod("p3", deleting=True))
    await scheduler.send(synced=pb.Synced())
    assert (await scheduler.receive()).WhichOneof("body") == "welcome"
    await scheduler.facts(pod("p4"))
    (admit,) = await scheduler.directives()
    assert [member.uid for member in admit.admit.members] == ["uid-p1", "uid-p2", "uid-p4"]


async def test_a_new_session_takes_over_waiting_members(server: Running, scheduler: Scheduler) -> None:
    await scheduler.open(
        pod("p1", standing=pb.STANDING_WAITING, waited_ms=1000),
        pod("p2", standing=pb.STANDING_WAITING, waited_ms=500),
        pod("p3"),
    )
    (admit,) = await scheduler.directives()
    assert [member.uid for member in admit.admit.members] == ["uid-p3"]
    assert admit.admit.quiet_permits == 1


async def test_a_second_session_ends_the_first(server: Running, scheduler: Scheduler) -> None:
    await scheduler.open(epoch="old")
    second = Scheduler(server.address)
    await second.open(pod("p1"), epoch="new")
    assert await scheduler.status() == (grpc.StatusCode.ABORTED, "a newer session took over")
    assert server.engine.scheduler_epoch == "new"
    await second.send(pre_filter=pb.PreFilterRequest(call_id=1, uid="uid-p1"))
    assert (await second.receive()).pre_filter.call_id == 1
    await second.close()


async def test_a_drained_server_says_that_it_goes(server: Running, scheduler: Scheduler) -> None:
    await scheduler.open()
    stopping = asyncio.create_task(server.server.stop())
    code, _ = await scheduler.status()
    assert code is grpc.StatusCode.UNAVAILABLE
    await stopping


async def test_another_contract_is_refused_with_both_versions(scheduler: Scheduler) -> None:
    await scheduler.send(hello=pb.Hello(contract=9, epoch="e1"))
    code, text = await scheduler.status()
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "9" in text and "1" in text


def _facts(*facts: pb.Fact) -> pb.SchedulerFrame:
    return pb.SchedulerFrame(seq=3, facts=pb.Facts(facts=facts))


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([pb.SchedulerFrame(seq=1, synced=pb.Synced())], "the first frame is not Hello"),
        ([pb.SchedulerFrame(seq=2, hello=pb.Hello(contract=1, epoch="e"))], "frame 2 where 1 was due"),
        ([pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1))], "Hello without an epoch"),
        (
            [
                pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1, epoch="e")),
                pb.SchedulerFrame(seq=2, permit=pb.PermitRequest(uid="x")),
            ],
            "before Synced",
        ),
        (
            [
                pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1, epoch="e")),
                pb.SchedulerFrame(seq=2, synced=pb.Synced()),
                pb.SchedulerFrame(seq=3),
            ],
            "without a body",
        ),
        (
            [
                pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1, epoch="e")),
                pb.SchedulerFrame(seq=2, synced=pb.Synced()),
                pb.SchedulerFrame(seq=3, permit=pb.PermitRequest(call_id=1)),
            ],
            "an empty uid",
        ),
        *(
            (
                [
                    pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1, epoch="e")),
                    pb.SchedulerFrame(seq=2, synced=pb.Synced()),
                    broken,
                ],
                text,
            )
            for broken, text in (
                (
                    pb.SchedulerFrame(seq=3, pre_filter=pb.PreFilterRequest(uid="x")),
                    "PreFilterRequest as a call without",
                ),
                (
                    pb.SchedulerFrame(seq=3, post_filter=pb.PostFilterRequest(uid="x")),
                    "PostFilterRequest as a call without",
                ),
                (pb.SchedulerFrame(seq=3, permit=pb.PermitRequest(uid="x")), "PermitRequest as a call without"),
                (_facts(pb.Fact(permit=pb.PermitRequest(call_id=1, uid="x"))), "PermitRequest as a fact with"),
                (
                    _facts(pb.Fact(post_filter=pb.PostFilterRequest(call_id=1, uid="x"))),
                    "PostFilterRequest as a fact with",
                ),
                (_facts(pb.Fact(unreserve=pb.UnreserveRequest())), "an empty uid"),
                (_facts(pb.Fact(commit_report=pb.CommitReport(missing=[""]))), "an empty uid"),
                (_facts(pb.Fact(room=pb.Room()), pb.Fact()), "an empty fact"),
            )
        ),
        (
            [
                pb.SchedulerFrame(seq=1, hello=pb.Hello(contract=1, epoch="e")),
                pb.SchedulerFrame(seq=2, facts=pb.Facts(facts=[waits("x")])),
            ],
            "Permit may not stand between Hello and Synced",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_broken_frame_ends_the_session_and_says_why(
    server: Running, scheduler: Scheduler, frames: list[pb.SchedulerFrame], text: str
) -> None:
    for frame in frames:
        await scheduler.send_raw(frame)
    code, details = await scheduler.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text in details
    # The server lives: the next session works.
    again = Scheduler(server.address)
    await again.open()
    await again.close()


async def test_a_wait_that_runs_out_is_ended_without_being_asked(server: Running, scheduler: Scheduler) -> None:
    extra = {"mode": "NonStrict", "waiting-time": "1s"}
    await scheduler.open()
    await scheduler.facts(*(pod(name, extra=extra) for name in ("p1", "p2", "p3")))
    await scheduler.directives()
    await scheduler.tell(waits("uid-p1"))
    hold, reject = await scheduler.directives()
    assert set(hold.hold.uids) == {"uid-p1", "uid-p2", "uid-p3"}
    assert list(reject.reject.uids) == ["uid-p1"]
    assert {name for _, _, name in server.notes.marked} == {"p1", "p2", "p3"}


async def test_owners_are_told_within_a_second(server: Running, scheduler: Scheduler) -> None:
    await scheduler.open(pod("p1"))
    await asyncio.sleep(1)
    (told,) = server.notes.explained
    assert told.why and told.why.sentence == "waiting for 2 more of 3 members of gang a/train"
