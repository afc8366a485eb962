# SPDX-License-Identifier: Apache-2.0
"""The read-only view. Answers from the core's state; changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from muster.core.model import GangKey
from muster.server import codec
from muster.server.engine import Engine
from muster.v1 import view_pb2 as pb
from muster.v1 import view_pb2_grpc as rpc

WATCH_EVERY = 0.25  # seconds between two pictures, at most


class Viewer(rpc.ViewServicer):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ListGangs(  # noqa: N802 - the name of the rpc
        self, request: pb.ListGangsRequest, context: grpc.aio.ServicerContext[pb.ListGangsRequest, pb.ListGangsResponse]
    ) -> pb.ListGangsResponse:
        await self._require_session(context)
        return self._picture(request.namespace)

    async def WatchGangs(  # noqa: N802 - the name of the rpc
        self, request: pb.ListGangsRequest, context: grpc.aio.ServicerContext[pb.ListGangsRequest, pb.ListGangsResponse]
    ) -> AsyncIterator[pb.ListGangsResponse]:
        await self._require_session(context)
        shown = -1
        while True:
            if shown != self._engine.version:
                shown = self._engine.version
                yield self._picture(request.namespace)
            await asyncio.sleep(WATCH_EVERY)

    async def GetGang(  # noqa: N802 - the name of the rpc
        self, request: pb.GetGangRequest, context: grpc.aio.ServicerContext[pb.GetGangRequest, pb.Gang]
    ) -> pb.Gang:
        await self._require_session(context)
        seen = self._engine.gang(GangKey(f"{request.namespace}/{request.name}"))
        if seen is None:
            text = f"neither a pod nor a PodGroup of gang {request.namespace}/{request.name} is known"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        return codec.gang(seen)

    def _picture(self, namespace: str) -> pb.ListGangsResponse:
        gangs = [codec.gang(seen) for seen in self._engine.gangs(namespace)]
        return pb.ListGangsResponse(gangs=gangs, scheduler_epoch=self._engine.scheduler_epoch)

    async def _require_session(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if not self._engine.scheduler_epoch:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "no scheduler has been in session yet, so nothing is known"
            )
