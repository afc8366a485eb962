# SPDX-License-Identifier: Apache-2.0
"""The server's handle on its writer: starts the child process, feeds it, restarts it. Never in a decision's way.

All methods belong to the thread of the event loop. Those that are told something only put it into the outbox.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from muster.core.model import GangKey
from muster.core.reasons import Explanation, Why
from muster.writer.outbox import Outbox
from muster.writer.wire import MalformedError, Result, decode_result, encode

BATCH = 64  # orders encoded before the decisions get their turn again
FIRST_DELAY, MOST_DELAY = 0.5, 30.0  # between a child's end and the next one's start
LIVED_WELL = 10.0  # a child that lived this long is followed at the first delay again
STOP_LIMIT = 7.0  # the child itself takes 5 s at most to finish marks

_log = structlog.get_logger()


@dataclass(slots=True)
class Counts:
    """For metrics; only ever grows."""

    marked: int = 0
    gone: int = 0
    lost: int = 0  # events the child could not write
    restarts: int = 0


class Writer:
    """Writes events, marks and status by a child process. With `enabled=False` it does nothing at all."""

    def __init__(
        self, kubeconfig: str | Path | None = None, *, enabled: bool = True, command: Sequence[str] | None = None
    ) -> None:
        self.counts = Counts()
        self._enabled = enabled
        self._command = command or (sys.executable, "-m", "muster.writer", "--kubeconfig", str(kubeconfig or ""))
        self._outbox = Outbox()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def dropped(self) -> int:
        """Orders that found no room in the outbox."""
        return self._outbox.dropped

    @property
    def unconfirmed(self) -> int:
        """Marks not known to be written."""
        return self._outbox.unconfirmed

    async def start(self) -> None:
        """Returns at once; what is told before the child is up waits for it."""
        if self._enabled and self._task is None:
            self._task = asyncio.create_task(self._keep_running(), name="writer")

    def explain(self, explanations: Iterable[Explanation]) -> None:
        """The latest explanation of a pod wins; one without a reason takes back what was not written yet."""
        if self._enabled:
            for explanation in explanations:
                self._outbox.explain(explanation)
            self._wake.set()

    def mark(self, pods: Iterable[tuple[str, str, str]]) -> None:
        """(uid, namespace, name): write the timeout annotation on these pods, on no others of the same name."""
        if self._enabled:
            for uid, namespace, name in pods:
                self._outbox.mark(uid, namespace, name)
            self._wake.set()

    def gangs(self, held: Iterable[tuple[GangKey, Why | None]], gone: Iterable[GangKey]) -> None:
        """What holds gangs that have an object, when that changes; and those that have none any more."""
        if self._enabled:
            for key, why in held:
                self._outbox.gang(key, why)
            for key in gone:
                self._outbox.gang_gone(key)
            self._wake.set()

    def lead(self, leading: bool) -> None:
        """Whether a scheduler is in session; only then is the status of PodGroups ours to write."""
        if self._enabled:
            self._outbox.lead(leading)
            self._wake.set()

    async def stop(self) -> None:
        """Send what is left, let the child finish its marks, end it. Bounded."""
        if self._task is None:
            return
        task, self._task = self._task, None
        self._stopping.set()
        self._wake.set()
        _, late = await asyncio.wait([task], timeout=STOP_LIMIT)
        if late:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if self._outbox.unconfirmed:
            _log.warning("writer_left_marks", marks=self._outbox.unconfirmed)

    async def _keep_running(self) -> None:
        loop = asyncio.get_running_loop()
        delay = FIRST_DELAY
        while True:  # also when it is to stop before it has started: something may have been told in between
            began = loop.time()
            try:
                code = await self._run_child()
            except OSError as error:  # no memory, no process slot: like a child that ends at once
                code = None
                _log.error("writer_not_started", error=str(error))
            if self._stopping.is_set():
                return
            delay = FIRST_DELAY if loop.time() - began > LIVED_WELL else delay
            _log.warning("writer_ended", code=code, again_in=delay, unconfirmed=self._outbox.unconfirmed)
            self.counts.restarts += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
                return
            delay = min(2 * delay, MOST_DELAY)

    async def _run_child(self) -> int | None:
        """One child from start to end; its exit code."""
        self._outbox.resend()
        self._wake.set()
        child = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, env=_environment())
        assert child.stdin is not None and child.stdout is not None
        feeder = asyncio.create_task(self._feed(child.stdin), name="writer-feed")
        try:
            await self._listen(child.stdout)
            return await child.wait()
        finally:
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
            await _end(child)

    async def _feed(self, stdin: asyncio.StreamWriter) -> None:
        """Move the outbox into the child, no faster than it reads. Closing its input is how it is told to end."""
        with contextlib.suppress(OSError):  # the child is gone: whoever waits for it knows what to do
            while True:
                await self._wake.wait()
                self._wake.clear()
                while orders := self._outbox.take(BATCH):
                    stdin.write(b"".join(encode(order) for order in orders))
                    await stdin.drain()
                    await asyncio.sleep(0)  # drain alone returns at once while the pipe has room
                if self._stopping.is_set():
                    stdin.close()
                    return

    async def _listen(self, stdout: asyncio.StreamReader) -> None:
        """Until the child closes its end."""
        while line := await stdout.readline():
            try:
                result, uid = decode_result(line)
            except MalformedError as error:
                _log.error("writer_said_nonsense", error=str(error))
                continue
            match result:
                case Result.MARKED:
                    self.counts.marked += 1
                    self._outbox.confirm(uid)
                case Result.GONE:
                    self.counts.gone += 1
                    self._outbox.confirm(uid)
                case Result.LOST:
                    self.counts.lost += 1


async def _end(child: Process) -> None:
    """Whatever happened, no child outlives this."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
    await child.wait()
    if child.stdin is not None:
        child.stdin.close()
        with contextlib.suppress(OSError):
            await child.stdin.wait_closed()


def _environment() -> dict[str, str]:
    """The child runs the very code of its parent, installed or not."""
    here = str(Path(__file__).parents[2])
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
