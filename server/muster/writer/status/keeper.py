# SPDX-License-Identifier: Apache-2.0
"""Keeps the status of every PodGroup as the table says it should be.

Level-triggered: whatever changes only says which object to look at again; what is written follows from what is known
at that moment. The one writer of these fields, and only while the server's scheduler is in session.
"""

import asyncio
import contextlib
import heapq
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from muster.core.model import GangKey
from muster.writer.status import table
from muster.writer.status.model import Held, Key, PodGroup, pod_group
from muster.writer.status.reflector import backoff
from muster.writer.status.rest import Rest, RestError
from muster.writer.status.shelves import members
from muster.writer.status.sources import Resource, Sources
from muster.writer.wire import GangGone, GangHeld, Leading, Tell

LANE = 4  # patches under way at once: the API server has more important things to do
SETTLE = 0.1  # seconds; pods of a gang come in bursts
BETWEEN = 0.5  # two writes to one object
PAUSE = 10.0  # new numbers in the sentence of the same reason
REFUSED = 60.0  # until what is forbidden or invalid is tried again
UNFIT = (400, 403, 422)

_log = structlog.get_logger()
Ref = tuple[Resource, Key]


class _Agenda:
    """One instant for each object to look at; the earliest counts."""

    def __init__(self) -> None:
        self._due: dict[Ref, float] = {}
        self._heap: list[tuple[float, int, Ref]] = []
        self._numbers = 0

    def add(self, ref: Ref, at: float) -> None:
        if at < self._due.get(ref, float("inf")):
            self._due[ref] = at
            self._numbers += 1  # objects have no order among themselves
            heapq.heappush(self._heap, (at, self._numbers, ref))

    def next(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, now: float) -> Ref | None:
        at = self.next()
        if at is None or at > now:
            return None
        ref = heapq.heappop(self._heap)[2]
        del self._due[ref]
        return ref


class _Past:
    """What was done about one object."""

    def __init__(self) -> None:
        self.written = float("-inf")
        self.failures = 0
        self.told: tuple[object, object] | None = None  # only used where the object itself cannot say


class Keeper:
    """`tell` takes events about PodGroups."""

    def __init__(self, rest: Rest, tell: Callable[[Tell], None]) -> None:
        self._rest = rest
        self._tell = tell
        self._held: dict[GangKey, Held] = {}
        self._leading = False
        self._led = asyncio.Event()
        self._wake = asyncio.Event()
        self._agenda = _Agenda()
        self._past: dict[Ref, _Past] = {}
        self._busy: dict[Ref, asyncio.Task[None]] = {}
        self._lane = asyncio.Semaphore(LANE)
        self._sources = Sources(rest, self._changed, self._look_at, self._renewed)

    def obey(self, order: GangHeld | GangGone | Leading) -> None:
        match order:
            case GangHeld(gang, reason, sentence):
                self._held[GangKey(gang)] = Held(reason, sentence)
                self._changed(GangKey(gang))
            case GangGone(gang):
                self._held.pop(GangKey(gang), None)
            case Leading(leading):
                self._leading = leading
                if leading:
                    self._led.set()
                    for resource in self._sources.resources:
                        self._renewed(resource)

    async def run(self) -> None:
        """For ever; cancel it. A server whose scheduler never leads asks the API server for nothing."""
        await self._led.wait()
        sources = asyncio.create_task(self._sources.run())
        try:
            while True:
                await self._pause()
                await self._start_due()
        finally:
            tasks = [sources, *self._busy.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ---- what to look at ------------------------------------------------------------------------------------

    def _changed(self, gang: GangKey) -> None:
        key = Key(*gang.split("/", 1))
        for resource in self._sources.resources:
            if resource.shelf.get(key) is not None:
                self._look_at(resource, key)

    def _renewed(self, resource: Resource) -> None:
        for key in resource.shelf:
            self._look_at(resource, key)

    def _look_at(self, resource: Resource, key: Key, after: float = SETTLE) -> None:
        self._agenda.add((resource, key), time.monotonic() + after)
        self._wake.set()

    async def _pause(self) -> None:
        """Until something may be due. What cannot be written yet stays on the agenda and is looked at shortly."""
        self._wake.clear()
        due = self._agenda.next()
        timeout = None if due is None else max(0.0 if self._may_write() else SETTLE, due - time.monotonic())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout)

    def _may_write(self) -> bool:
        return self._leading and self._sources.synced

    async def _start_due(self) -> None:
        while self._may_write() and (ref := self._agenda.pop(time.monotonic())) is not None:
            if ref in self._busy:
                self._agenda.add(ref, time.monotonic() + SETTLE)
                continue
            await self._lane.acquire()
            task = self._busy[ref] = asyncio.create_task(self._guarded(*ref))
            task.add_done_callback(lambda _, ref=ref: self._done(ref))  # type: ignore[misc]

    def _done(self, ref: Ref) -> None:
        del self._busy[ref]
        self._lane.release()
        self._wake.set()

    # ---- one object -----------------------------------------------------------------------------------------

    async def _guarded(self, resource: Resource, key: Key) -> None:
        """One object that goes wrong in a way nobody thought of must not end it for all the others."""
        try:
            await self._keep(resource, key)
        except Exception:
            _log.exception("status_broke", api_version=resource.api_version, pod_group="/".join(key))
            self._look_at(resource, key, REFUSED)

    async def _keep(self, resource: Resource, key: Key) -> None:
        group = resource.shelf.get(key)
        if group is None:
            self._past.pop((resource, key), None)
            return
        past = self._past.setdefault((resource, key), _Past())
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = table.status(group, members(self._sources.pods, group.gang), self._held.get(group.gang), now)
        differing = table.differing(group, {f: v for f, v in wanted.items() if f not in resource.pruned})
        if "conditions" in resource.pruned:
            self._tell_if_new(resource, group, wanted, past.told)
            past.told = _shown(wanted)
        if not differing:
            return
        pause = PAUSE if table.only_words(group, differing) else BETWEEN
        wait = past.written + pause - time.monotonic()
        if wait > 0:
            self._look_at(resource, key, wait)
            return
        await self._write(resource, key, group, differing, past)

    async def _write(
        self, resource: Resource, key: Key, group: PodGroup, differing: dict[str, Any], past: _Past
    ) -> None:
        # With uid and version it fits just what we looked at: no other object of that name, and no other writer's
        # conditions are lost.
        exactly = {"uid": group.uid, "resourceVersion": group.version}
        try:
            raw = await self._rest.patch(resource.path(key), {"metadata": exactly, "status": differing})
            _, written = pod_group(raw)
        except (RestError, msgspec.MsgspecError) as error:
            self._failed(resource, key, error, past)
            return
        past.failures = 0
        past.written = time.monotonic()
        missing = {f for f, v in differing.items() if v is not None and f not in written.status}
        if missing - resource.pruned:
            resource.pruned |= missing
            _log.info("status_fields_not_in_definition", api_version=resource.api_version, fields=sorted(missing))
        if "conditions" in differing:
            self._tell_if_new(resource, group, differing, _shown(group.status))
            past.told = _shown(differing)
        resource.shelf.put(raw)

    def _failed(self, resource: Resource, key: Key, error: Exception, past: _Past) -> None:
        past.failures += 1
        code = error.code if isinstance(error, RestError) else 0
        delay = REFUSED if code in UNFIT else backoff(past.failures)
        if code == 409:
            # Somebody changed the object: the watch brings it. It is no trouble before it has happened often.
            _log.debug("status_conflict", pod_group="/".join(key))
        else:
            _log.warning(
                "status_not_written",
                api_version=resource.api_version,
                pod_group="/".join(key),
                error=str(error),
                again_in=round(delay, 1),
            )
        self._look_at(resource, key, delay)

    def _tell_if_new(
        self, resource: Resource, group: PodGroup, wanted: dict[str, Any], before: tuple[object, object] | None
    ) -> None:
        """An event when the reason changes; that it is being tried is none of those that people must know."""
        said = table.condition(wanted)
        if not said or _shown(wanted) == before or said["reason"] == table.TRYING:
            return
        self._tell(
            Tell(
                group.uid,
                group.namespace,
                group.name,
                said["reason"],
                said["message"],
                resource.api_version,
                "PodGroup",
            )
        )


def _shown(status: dict[str, Any]) -> tuple[object, object]:
    said = table.condition(status)
    return said.get("status"), said.get("reason")
