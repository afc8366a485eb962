# SPDX-License-Identifier: Apache-2.0
"""The child process: reads orders, writes to the API with bounded concurrency, confirms marks, ends with its input."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Protocol

import structlog

from muster.writer.api import Answer, Outcome
from muster.writer.rules import Rules
from muster.writer.wire import (
    Clear,
    GangGone,
    GangHeld,
    Leading,
    MalformedError,
    Mark,
    Order,
    Result,
    Tell,
    decode,
    encode_result,
)

# Two lanes, so that no flood of events is ever in front of a mark.
EVENT_LANE, MARK_LANE = 8, 8
EVENT_TRIES = 5
FIRST_DELAY, MOST_DELAY = 0.5, 30.0
MARK_GRACE, EVENT_GRACE = 5.0, 1.0  # after the end of the input

_log = structlog.get_logger()


class Target(Protocol):
    """Where to write; `api.Api` is the one outside of tests."""

    async def tell(self, tell: Tell, at: datetime) -> Answer: ...

    async def mark(self, mark: Mark) -> Answer: ...


class Status(Protocol):
    """Who keeps the status of PodGroups; `status.Keeper` is the one outside of tests."""

    def obey(self, order: GangHeld | GangGone | Leading) -> None: ...

    async def run(self) -> None: ...


class WriterProcess:
    """`say` gets the lines for the parent. `status` is made with where to put events about PodGroups."""

    def __init__(
        self,
        target: Target,
        say: Callable[[bytes], None],
        status: Callable[[Callable[[Tell], None]], Status] | None = None,
    ) -> None:
        self._target = target
        self._say = say
        self._status = status(self._put_event) if status else None
        self._rules = Rules()
        self._wake = asyncio.Event()
        self._event_lane = asyncio.Semaphore(EVENT_LANE)
        self._mark_lane = asyncio.Semaphore(MARK_LANE)
        self._events: set[asyncio.Task[None]] = set()
        self._marks: dict[str, asyncio.Task[None]] = {}
        self._ending = False

    async def run(self, orders: asyncio.StreamReader) -> None:
        """Until the input ends, and then as long as the marks need, within limits."""
        dispatcher = asyncio.create_task(self._dispatch())
        status = [asyncio.create_task(self._status.run())] if self._status else []
        try:
            await self._read(orders)
            await self._finish(dispatcher)
        finally:
            left = [dispatcher, *status, *self._events, *self._marks.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _read(self, orders: asyncio.StreamReader) -> None:
        """Reading never waits for the API: what piles up is coalesced in the rules."""
        while True:
            try:
                line = await orders.readline()
                if not line:
                    return
                self._obey(decode(line))
            except (MalformedError, ValueError) as error:  # ValueError: a line past the reader's limit
                _log.error("order_not_understood", error=str(error))

    def _obey(self, order: Order) -> None:
        match order:
            case Tell():
                self._put_event(order)
            case Clear(uid):
                self._rules.clear(uid)
            case Mark(uid):
                if uid not in self._marks:
                    self._marks[uid] = _spawn(self._mark(order), lambda _: self._marks.pop(uid, None))
            case GangHeld() | GangGone() | Leading():
                if self._status:
                    self._status.obey(order)

    def _put_event(self, tell: Tell) -> None:
        self._rules.tell(tell, time.monotonic())
        self._wake.set()

    async def _dispatch(self) -> None:
        """Start an event whenever one is due and the lane has room; until then it can still be coalesced."""
        while True:
            await self._event_lane.acquire()
            while (tell := self._rules.take(time.monotonic())) is None:
                if self._ending:
                    return
                await self._pause(self._rules.next_at())
            self._events.add(_spawn(self._tell(tell), self._told))

    async def _pause(self, until: float | None) -> None:
        self._wake.clear()
        timeout = None if until is None else max(0.0, until - time.monotonic())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._events.discard(task)
        self._event_lane.release()

    async def _tell(self, tell: Tell) -> None:
        """One event: a few tries. They keep their place in the lane, so that a slow API server gets less, not more."""
        at = datetime.now(UTC)
        for tried in range(1, EVENT_TRIES + 1):
            answer = await _guarded(self._target.tell(tell, at))
            if answer.outcome is Outcome.DONE:
                return
            if answer.outcome is not Outcome.AGAIN or tried == EVENT_TRIES:
                break
            await asyncio.sleep(_delay(tried, answer))
        self._rules.forget(tell)
        self._say(encode_result(Result.LOST, tell.uid))
        _log.warning(
            "event_lost", kind=tell.kind, name=f"{tell.namespace}/{tell.name}", reason=tell.reason, error=answer.detail
        )

    async def _mark(self, mark: Mark) -> None:
        """One mark: until it is written or its pod is gone. It leaves the lane between its tries."""
        pod, tried = f"{mark.namespace}/{mark.name}", 0
        while True:
            async with self._mark_lane:
                answer = await _guarded(self._target.mark(mark))
            match answer.outcome:
                case Outcome.DONE:
                    self._say(encode_result(Result.MARKED, mark.uid))
                    _log.info("pod_marked", pod=pod, uid=mark.uid)
                    return
                case Outcome.GONE:
                    self._say(encode_result(Result.GONE, mark.uid))
                    _log.info("pod_gone_before_mark", pod=pod, uid=mark.uid, detail=answer.detail)
                    return
            tried += 1
            delay = _delay(tried, answer)
            _log.warning("mark_failed", pod=pod, tried=tried, again_in=round(delay, 3), error=answer.detail)
            await asyncio.sleep(delay)

    async def _finish(self, dispatcher: asyncio.Task[None]) -> None:
        """Marks get their grace, events that are due a short one."""
        self._ending = True
        self._wake.set()
        await asyncio.gather(self._finish_marks(), self._finish_events(dispatcher))
        _log.info("writer_stopping", marks_left=len(self._marks), events_left=len(self._events))

    async def _finish_marks(self) -> None:
        if self._marks:
            await asyncio.wait(list(self._marks.values()), timeout=MARK_GRACE)

    async def _finish_events(self, dispatcher: asyncio.Task[None]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVENT_GRACE):
                await asyncio.shield(dispatcher)
                while self._events:
                    await asyncio.wait(list(self._events))


def _spawn(work: Coroutine[None, None, None], done: Callable[[asyncio.Task[None]], object]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    task.add_done_callback(done)
    return task


async def _guarded(request: Coroutine[None, None, Answer]) -> Answer:
    """One request that goes wrong in a way nobody thought of must not end the writer for all the others."""
    try:
        return await request
    except Exception as error:
        _log.exception("request_broke")
        return Answer(Outcome.AGAIN, f"{type(error).__name__}: {error}")


def _delay(tried: int, answer: Answer) -> float:
    """Doubling, spread so that many do not come back at once, and never sooner than the server asked for."""
    doubled: float = min(MOST_DELAY, FIRST_DELAY * 2 ** min(tried - 1, 10))
    return max(doubled * random.uniform(0.75, 1.0), answer.after)
