# SPDX-License-Identifier: Apache-2.0
"""Keeps a shelf in step with a collection of the API server: list, then watch from there.

the stream ends            watch on from the last version seen; bookmarks keep that one young
410, the version is gone   list again; what is not in the list any more is dropped as if its deletion had been seen
anything else              again, later and later
"""

import asyncio
import random
import time
from typing import Protocol

import msgspec
import structlog

from muster.writer.status.model import Key
from muster.writer.status.rest import Rest, RestError, WatchEvent

FIRST_DELAY, MOST_DELAY = 0.2, 30.0
GONE = 410

_log = structlog.get_logger()


class Sink(Protocol):
    """Where the objects go. `put` may raise msgspec.MsgspecError."""

    def put(self, raw: bytes | msgspec.Raw) -> Key: ...

    def drop(self, key: Key) -> None: ...


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta


_read_meta = msgspec.json.Decoder(_Object).decode


class Reflector:
    """One collection, as far as the label selector reaches. `synced`: the sink has had all there is once."""

    def __init__(self, rest: Rest, path: str, sink: Sink, selector: str = "") -> None:
        self.synced = False
        self._rest = rest
        self._path = path
        self._selector = selector
        self._sink = sink
        self._known: set[Key] = set()

    async def run(self) -> None:
        """For ever; cancel it."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                await self._follow(version)
            except RestError as error:
                failures += 1
                if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th …
                    _log.warning("list_failed", path=self._path, selector=self._selector, error=str(error))
            await asyncio.sleep(backoff(failures))

    def clear(self) -> None:
        """The collection does not exist any more."""
        self.synced = False
        for key in self._known:
            self._sink.drop(key)
        self._known.clear()

    async def _list(self) -> str:
        version, seen = "", set[Key]()
        async for version, items in self._rest.pages(self._path, self._selector):  # noqa: B007 - the last one counts
            seen.update(key for raw in items if (key := self._put(raw)) is not None)
            await asyncio.sleep(0)
        for key in self._known - seen:
            self._sink.drop(key)
        self._known = seen
        self.synced = True
        return version

    async def _follow(self, version: str) -> None:
        """Returns when only a list can help."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                async for event in self._rest.watch(self._path, self._selector, version):
                    version = self._apply(event) or version
                    failures = 0
                if time.monotonic() - began < 1.0:
                    failures += 1  # one who hangs up at once must not be asked as fast as we can
            except RestError as error:
                if error.code == GONE:
                    return
                if error.code == 404:
                    raise
                failures += 1
                _log.info("watch_broke", path=self._path, error=str(error), failures=failures)
            if failures:
                await asyncio.sleep(backoff(failures))

    def _apply(self, event: WatchEvent) -> str:
        """The version the event brings."""
        meta = _read_meta(event.object).metadata
        match event.type:
            case "ADDED" | "MODIFIED":
                if (key := self._put(event.object)) is not None:
                    self._known.add(key)
            case "DELETED":
                key = Key(meta.namespace, meta.name)
                self._known.discard(key)
                self._sink.drop(key)
        return meta.resource_version

    def _put(self, raw: msgspec.Raw) -> Key | None:
        try:
            return self._sink.put(raw)
        except msgspec.MsgspecError as error:
            _log.warning("object_not_understood", path=self._path, error=str(error))
            return None


def backoff(failures: int) -> float:
    """Doubling, spread so that many do not come back at once."""
    doubled: float = min(MOST_DELAY, FIRST_DELAY * 2 ** min(max(0, failures - 1), 10))
    return doubled * random.uniform(0.75, 1.0)
