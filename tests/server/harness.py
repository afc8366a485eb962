# SPDX-License-Identifier: Apache-2.0
"""A real server on a temporary socket, and a scheduler that speaks the contract to it by hand."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from muster.core.model import GangKey
from muster.core.reasons import Explanation, Why
from muster.server.engine import Engine
from muster.server.serve import Server
from muster.server.settings import Settings, load
from muster.v1 import scheduling_pb2 as pb
from muster.v1.scheduling_pb2_grpc import SchedulingStub

GANG = "gang.scheduling.koordinator.sh/"


class Notes:
    """A writer that only remembers what it was told to write."""

    def __init__(self) -> None:
        self.explained: list[Explanation] = []
        self.marked: list[tuple[str, str, str]] = []
        self.held: dict[str, Why | None] = {}
        self.leading = False

    def explain(self, explanations: Iterable[Explanation]) -> None:
        self.explained += explanations

    def mark(self, pods: Iterable[tuple[str, str, str]]) -> None:
        self.marked += pods

    def gangs(self, held: Iterable[tuple[GangKey, Why | None]], gone: Iterable[GangKey]) -> None:
        self.held.update(held)
        for key in gone:
            self.held.pop(key, None)

    def lead(self, leading: bool) -> None:
        self.leading = leading


class Running:
    def __init__(self, address: str, server: Server, engine: Engine, notes: Notes) -> None:
        self.address = address
        self.server = server
        self.engine = engine
        self.notes = notes


@asynccontextmanager
async def running(*flags: str) -> AsyncIterator[Running]:
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        settings: Settings = load([f"--listen=unix://{Path(folder) / 'run' / 'server.sock'}", "--no-write", *flags])
        notes = Notes()
        engine = Engine(settings.policy(), notes)
        server = Server(settings, engine)
        address = await server.start()
        explaining = asyncio.create_task(engine.explain_forever())
        try:
            yield Running(address, server, engine, notes)
        finally:
            explaining.cancel()
            await server.stop()


def pod(name: str, gang: str = "train", minimum: int | str = 3, **fields: Any) -> pb.Pod:
    annotations = {GANG + "name": gang, GANG + "min-available": str(minimum)}
    annotations |= {GANG + key: value for key, value in fields.pop("extra", {}).items()}
    return pb.Pod(uid=f"uid-{name}", namespace="a", name=name, annotations=annotations, **fields)


def waits(uid: str) -> pb.Fact:
    """A Permit for which no reply is wanted."""
    return pb.Fact(permit=pb.PermitRequest(uid=uid, node_name="n1"))


class Scheduler:
    """One session, frame by frame."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stream = SchedulingStub(self._channel).Session()
        self._seq = 0

    async def send(self, **body: Any) -> None:
        self._seq += 1
        await self._stream.write(pb.SchedulerFrame(seq=self._seq, **body))

    async def send_raw(self, frame: pb.SchedulerFrame) -> None:
        await self._stream.write(frame)

    async def facts(self, *pods: pb.Pod) -> None:
        await self.tell(*(pb.Fact(pod=pod) for pod in pods))

    async def tell(self, *facts: pb.Fact) -> None:
        """In one frame."""
        await self.send(facts=pb.Facts(facts=facts))

    async def receive(self) -> pb.ServerFrame:
        frame = await asyncio.wait_for(self._stream.read(), 5)
        assert isinstance(frame, pb.ServerFrame), "the stream ended"
        return frame

    async def open(self, *pods: pb.Pod, epoch: str = "e1") -> pb.Welcome:
        await self.send(hello=pb.Hello(contract=1, epoch=epoch, scheduler_names=["muster-scheduler"]))
        if pods:
            await self.facts(*pods)
        await self.send(synced=pb.Synced())
        frame = await self.receive()
        assert frame.WhichOneof("body") == "welcome"
        return frame.welcome

    async def directives(self) -> list[pb.Directive]:
        frame = await self.receive()
        assert frame.WhichOneof("body") == "directives", frame
        return list(frame.directives.directives)

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """How the session ended."""
        with suppress(grpc.aio.AioRpcError):
            while await asyncio.wait_for(self._stream.read(), 5) is not grpc.aio.EOF:
                pass
        return await self._stream.code(), await self._stream.details()

    async def close(self) -> None:
        await self._channel.close()
