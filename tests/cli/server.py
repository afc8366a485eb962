# SPDX-License-Identifier: Apache-2.0
"""A real gRPC server on a unix socket that serves canned gangs, and the command line run against it."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from muster.v1.view_pb2 import Gang, GetGangRequest, ListGangsRequest, ListGangsResponse, Member
from muster.v1.view_pb2_grpc import ViewServicer, add_ViewServicer_to_server

ROOT = Path(__file__).parents[2]


def train(**changes: Any) -> Gang:
    """A gang of three with two places."""
    fields: dict[str, Any] = {
        "namespace": "a",
        "name": "train",
        "phase": "Waiting",
        "reason": "WaitingForQuorum",
        "sentence": "2 of 3 members of gang a/train have a place; waiting for 1 more",
        "min": 3,
        "total": 4,
        "mode": "Strict",
        "group": ["a/train", "b/serve"],
        "cycle": 7,
        "deadline_ms": 572_000,
        "retry_ms": -1,
        "created_unix_ns": time.time_ns() - 3 * 3600 * 10**9,
        "last_failure": "0/5 nodes are available: 5 Insufficient cpu",
        "members": [
            Member(uid="1", name="train-0", phase="Waiting", node_name="node-1"),
            Member(uid="2", name="train-1", phase="Bound", node_name="node-2"),
            Member(uid="3", name="train-2", phase="Pending", failures=4, reason="NoRoom", sentence="no node for it"),
            Member(uid="4", name="train-3", phase="Pending", reason="Surplus", sentence="past the minimum"),
        ],
    }
    return Gang(**{**fields, **changes})


@dataclass
class Canned(ViewServicer):
    """Serves `gangs`, and to those who watch also `next_lists`, one after the other, and then nothing."""

    address: str
    gangs: list[Gang] = field(default_factory=lambda: [train()])
    next_lists: asyncio.Queue[list[Gang]] = field(default_factory=asyncio.Queue)
    refusal: str = ""

    async def ListGangs(self, request: ListGangsRequest, context: Any) -> ListGangsResponse:  # noqa: N802
        if self.refusal:
            await context.abort(grpc.StatusCode.UNAVAILABLE, self.refusal)
        return self._list(request)

    async def WatchGangs(  # noqa: N802
        self, request: ListGangsRequest, context: Any
    ) -> AsyncIterator[ListGangsResponse]:
        while True:
            yield self._list(request)
            self.gangs = await self.next_lists.get()

    async def GetGang(self, request: GetGangRequest, context: Any) -> Gang:  # noqa: N802
        for gang in self.gangs:
            if (gang.namespace, gang.name) == (request.namespace, request.name):
                return gang
        text = f"neither a pod nor a PodGroup of gang {request.namespace}/{request.name} is known"
        await context.abort(grpc.StatusCode.NOT_FOUND, text)
        raise AssertionError("abort raises")

    def _list(self, request: ListGangsRequest) -> ListGangsResponse:
        wanted = [gang for gang in self.gangs if request.namespace in ("", gang.namespace)]
        return ListGangsResponse(gangs=wanted, scheduler_epoch="epoch-1")


@contextlib.asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[Canned]:
    canned = Canned(f"unix://{socket}")
    server = grpc.aio.server()
    add_ViewServicer_to_server(canned, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield canned
    finally:
        await server.stop(None)


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


def environment(more: dict[str, str]) -> dict[str, str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MUSTER", "GRPC", "COLUMNS", "NO_COLOR"))
    }
    return {**kept, "PYTHONPATH": str(ROOT / "server"), **more}


async def start(
    *arguments: str, cwd: Path | None = None, stdout: int = PIPE, env: dict[str, str] | None = None
) -> Process:
    command = (sys.executable, "-m", "muster.cli", *arguments)
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=PIPE,
        cwd=cwd,
        env=environment(env or {}),
        # A shell that runs the tests in the background has them ignore Ctrl-C, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def muster(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ran:
    process = await start(*arguments, cwd=cwd, env=env)
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())
