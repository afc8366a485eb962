# SPDX-License-Identifier: Apache-2.0
"""The session stream: frames in, decisions out, in one order. One session at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import structlog

from muster.core import events
from muster.core.decision import Decision, Effect
from muster.server import codec, metrics
from muster.server.codec import ContractError
from muster.server.engine import Engine
from muster.v1 import scheduling_pb2 as pb
from muster.v1 import scheduling_pb2_grpc as rpc

CONTRACT = 1
MAX_OUTBOX = 10_000  # frames; a scheduler that reads no faster is sent away and synchronizes afresh
log = structlog.get_logger()

Context = grpc.aio.ServicerContext[pb.SchedulerFrame, pb.ServerFrame]


class Ended(Exception):  # noqa: N818 - not an error of ours: how a session ends
    """The session must end; carries the gRPC status."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Outbox:
    """Frames to the scheduler, written one at a time and in the order they were decided."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._frames: deque[pb.ServerFrame] = deque()
        self._flushing = False
        self._task: asyncio.Task[None] | None = None

    def put(self, *frames: pb.ServerFrame) -> None:
        self._frames.extend(frames)

    def direct(self, effects: Iterable[Effect]) -> None:
        self._frames.extend(codec.directives(effects))

    def push(self, effects: Iterable[Effect]) -> None:
        """From outside the reading loop: a tick."""
        self.direct(effects)
        if self._frames and not self._flushing:
            self._task = asyncio.create_task(self._flush_quietly())

    async def flush(self) -> None:
        if len(self._frames) > MAX_OUTBOX:
            raise Ended(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_OUTBOX} frames wait to be read")
        if self._flushing:
            return  # whoever flushes takes these along
        self._flushing = True
        try:
            while self._frames:
                await self._context.write(self._frames.popleft())
        finally:
            self._flushing = False

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except (Ended, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            log.warning("push_failed", error=str(error))  # the reading loop notices the same and ends the session


class Session(rpc.SchedulingServicer):
    def __init__(self, engine: Engine, epoch: str) -> None:
        self._engine = engine
        self._epoch = epoch
        self._current: asyncio.Task[Any] | None = None
        self._farewell = Ended(grpc.StatusCode.ABORTED, "a newer session took over")

    # The generated stub only knows the generator style; grpc.aio takes this one too.
    async def Session(  # type: ignore[override] # noqa: N802 - the name of the rpc
        self, request_iterator: AsyncIterator[pb.SchedulerFrame], context: Context
    ) -> None:
        previous, self._current = self._current, asyncio.current_task()
        if previous is not None:
            previous.cancel()
        try:
            await self._serve(request_iterator, context)
        except Ended as ended:
            await context.abort(ended.code, str(ended))
        except ContractError as error:
            log.error("contract_broken", error=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except asyncio.CancelledError:
            if context.cancelled():
                raise  # the scheduler hung up
            await context.abort(self._farewell.code, str(self._farewell))
        finally:
            if self._current is asyncio.current_task():
                self._current = None
                self._engine.close()
            log.info("session_closed")

    def drain(self) -> None:
        """End the session because the server goes away."""
        self._farewell = Ended(grpc.StatusCode.UNAVAILABLE, "muster-server is shutting down")
        if self._current is not None:
            self._current.cancel()

    async def _serve(self, frames: AsyncIterator[pb.SchedulerFrame], context: Context) -> None:
        outbox = Outbox(context)
        numbered = _in_sequence(frames)
        hello = await _hello(numbered)
        log.info("session_opened", epoch=hello.epoch, schedulers=list(hello.scheduler_names))
        metrics.SESSIONS.inc()
        snapshot = await _snapshot(numbered)
        outbox.put(pb.ServerFrame(welcome=pb.Welcome(contract=CONTRACT, epoch=self._epoch)))
        self._engine.open(hello.epoch, snapshot, outbox.push)
        log.info("session_synchronized", epoch=hello.epoch, pods=len(snapshot.pods), objects=len(snapshot.objects))
        await outbox.flush()
        async for frame in numbered:
            if frame.WhichOneof("body") == "facts":
                effects: list[Effect] = []
                for fact in codec.facts(frame.facts):
                    effects += self._decide(fact).effects
                outbox.direct(effects)
            else:
                decision = self._decide(codec.call(frame))
                outbox.direct(decision.effects)
                outbox.put(codec.reply(frame, decision))
            await outbox.flush()

    def _decide(self, event: events.Event) -> Decision:
        try:
            return self._engine.handle(event)
        except Exception as error:
            # Our bug. The state may be half changed, so the session ends and the next one builds it afresh.
            log.exception("invariant_broken", event_in_hand=repr(event))
            raise Ended(grpc.StatusCode.INTERNAL, f"{type(event).__name__}: {error!r}") from error


async def _in_sequence(frames: AsyncIterator[pb.SchedulerFrame]) -> AsyncIterator[pb.SchedulerFrame]:
    expected = 1
    async for frame in frames:
        if frame.seq != expected:
            raise ContractError(f"frame {frame.seq} where {expected} was due")
        expected += 1
        yield frame


async def _hello(frames: AsyncIterator[pb.SchedulerFrame]) -> pb.Hello:
    async for frame in frames:
        if frame.WhichOneof("body") != "hello":
            raise ContractError("the first frame is not Hello")
        hello = frame.hello
        if hello.contract != CONTRACT:
            text = f"the scheduler speaks contract {hello.contract}, this server speaks {CONTRACT}"
            raise Ended(grpc.StatusCode.FAILED_PRECONDITION, text)
        if not hello.epoch:
            raise ContractError("Hello without an epoch")
        return hello
    raise ContractError("the stream ended before Hello")


async def _snapshot(frames: AsyncIterator[pb.SchedulerFrame]) -> events.Synchronize:
    snapshot = codec.Snapshot()
    async for frame in frames:
        match frame.WhichOneof("body"):
            case "synced":
                return snapshot.event()
            case "facts":
                snapshot.add(frame.facts)
            case body:
                raise ContractError(f"unexpected frame {body or 'without a body'} before Synced")
    raise ContractError("the stream ended before Synced")
