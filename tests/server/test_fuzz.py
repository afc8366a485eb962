# SPDX-License-Identifier: Apache-2.0
"""Whatever a scheduler sends: the server ends the session with a status at the worst, and serves the next one."""

import asyncio

import grpc
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core import Core
from muster.server import codec
from muster.server.codec import ContractError
from muster.v1 import scheduling_pb2 as pb
from tests.server.harness import Scheduler, pod, running

HELLO = pb.SchedulerFrame(hello=pb.Hello(contract=1, epoch="e1", scheduler_names=["muster-scheduler"]))
UIDS = st.sampled_from(["", "uid-p1", "uid-p2", "uid-p3", "ghost", "\x00", "é" * 300])
TEXT = st.one_of(st.text(max_size=40), st.sampled_from(["gang.scheduling.koordinator.sh/name", "train", "3", "a/b"]))


@st.composite
def frames(draw: st.DrawFn) -> pb.SchedulerFrame:
    """A frame of any kind with any content, or bytes that happen to be one."""
    if draw(st.booleans()):
        frame = pb.SchedulerFrame()
        try:
            frame.ParseFromString(draw(st.binary(max_size=60)))
        except DecodeError:
            return pb.SchedulerFrame()
        return frame
    uid, number = draw(UIDS), draw(st.integers(0, 2**63 - 1))
    made = pb.Pod(uid=uid, namespace=draw(TEXT), name=draw(TEXT), priority=draw(st.integers(-(2**31), 2**31 - 1)))
    made.annotations.update(draw(st.dictionaries(TEXT, TEXT, max_size=3)))
    made.standing = draw(st.integers(-1, 4))  # type: ignore[assignment]
    made.waited_ms = draw(st.integers(-(2**63), 2**63 - 1))
    choices: list[pb.SchedulerFrame] = [
        pb.SchedulerFrame(facts=pb.Facts(facts=[pb.Fact(pod=made)])),
        pb.SchedulerFrame(facts=pb.Facts(facts=[pb.Fact(pod_gone=pb.PodGone(uid=uid)), pb.Fact()])),
        pb.SchedulerFrame(facts=pb.Facts(facts=[pb.Fact(permit=pb.PermitRequest(uid=uid, node_name=draw(TEXT)))])),
        pb.SchedulerFrame(facts=pb.Facts(facts=[pb.Fact(commit_report=pb.CommitReport(commit=number, missing=[uid]))])),
        pb.SchedulerFrame(facts=pb.Facts(facts=[pb.Fact(unreserve=pb.UnreserveRequest(uid=uid))])),
        pb.SchedulerFrame(pre_filter=pb.PreFilterRequest(call_id=number, uid=uid)),
        pb.SchedulerFrame(post_filter=pb.PostFilterRequest(call_id=number, uid=uid, message=draw(TEXT))),
        pb.SchedulerFrame(permit=pb.PermitRequest(call_id=number, uid=uid)),
        pb.SchedulerFrame(synced=pb.Synced()),
        HELLO,
    ]
    return draw(st.sampled_from(choices))


@settings(max_examples=400, deadline=None)
@given(st.lists(frames(), max_size=12))
def test_no_frame_breaks_the_core(sent: list[pb.SchedulerFrame]) -> None:
    core = Core()
    for frame in sent:
        try:
            body = frame.WhichOneof("body")
            events = list(codec.facts(frame.facts)) if body == "facts" else [codec.call(frame)]
        except ContractError:
            continue
        for event in events:
            decision = core.handle(event, 1.0)
            answer: Message | None = codec.reply(frame, decision) if body != "facts" else None
            assert answer is None or answer.ByteSize() < 1 << 20


def _batches() -> list[list[pb.SchedulerFrame]]:
    """Drawn beforehand: Hypothesis does not drive coroutines."""
    drawn: list[list[pb.SchedulerFrame]] = []

    @settings(max_examples=40, deadline=None, database=None)
    @given(st.lists(frames(), min_size=1, max_size=8))
    def draw(batch: list[pb.SchedulerFrame]) -> None:
        drawn.append(batch)

    draw()
    return drawn


async def test_the_server_outlives_any_session() -> None:
    async with running() as server:
        for batch in _batches():
            scheduler = Scheduler(server.address)
            try:
                await scheduler.open(pod("p1"), pod("p2"))
                for number, frame in enumerate(batch, 4):
                    numbered = pb.SchedulerFrame()
                    numbered.CopyFrom(frame)
                    numbered.seq = number
                    await scheduler.send_raw(numbered)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                pass  # it was sent away in the middle
            await scheduler.close()
        last = Scheduler(server.address)
        await last.open(pod("p1"), pod("p2"), pod("p3"), epoch="last")
        assert [member.uid for member in (await last.directives())[0].admit.members] == ["uid-p1", "uid-p2", "uid-p3"]
        await last.close()
