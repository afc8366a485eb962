# SPDX-License-Identifier: Apache-2.0
"""Which PodGroup resources the cluster has, and the reflectors of those it has.

A definition that is installed later is noticed by asking again: one small request every few seconds, and no rights on
the definitions themselves.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import structlog

from muster.core.model import GangKey
from muster.core.spec import POD_GROUP_LABELS
from muster.writer.status.model import Key
from muster.writer.status.reflector import Reflector
from muster.writer.status.rest import Rest, RestError
from muster.writer.status.shelves import GroupShelf, PodShelf

API_GROUPS = ("scheduling.sigs.k8s.io", "scheduling.x-k8s.io")
VERSION, PLURAL = "v1alpha1", "podgroups"
PODS = "/api/v1/pods"
ASK_EVERY = 5.0

_log = structlog.get_logger()


class Resource:
    """The PodGroups of one API group."""

    def __init__(self, rest: Rest, api_group: str, changed: Callable[["Resource", Key], None]) -> None:
        self.api_version = f"{api_group}/{VERSION}"
        self.shelf = GroupShelf(lambda gang: changed(self, Key(*gang.split("/", 1))))
        self.reflector = Reflector(rest, f"/apis/{self.api_version}/{PLURAL}", self.shelf)
        self.has_status = True  # its status is a resource of its own
        self.pruned: set[str] = set()  # fields of the status that its definition does not have
        self.task: asyncio.Task[None] | None = None

    def path(self, key: Key) -> str:
        """Where its status is written."""
        path = f"/apis/{self.api_version}/namespaces/{key.namespace}/{PLURAL}/{key.name}"
        return f"{path}/status" if self.has_status else path


class Sources:
    """`changed` hears of a gang whose pods or objects changed, and `renewed` of a resource that did."""

    def __init__(
        self,
        rest: Rest,
        changed: Callable[[GangKey], None],
        group_changed: Callable[[Resource, Key], None],
        renewed: Callable[[Resource], None],
    ) -> None:
        self._rest = rest
        self._renewed = renewed
        self.resources = [Resource(rest, api_group, group_changed) for api_group in API_GROUPS]
        self.pods = [PodShelf(changed) for _ in POD_GROUP_LABELS]
        # Whether the label exists is all a selector can ask; two labels are two watches.
        labelled = zip(POD_GROUP_LABELS, self.pods, strict=True)
        self._pods = [Reflector(rest, PODS, shelf, selector=label) for label, shelf in labelled]
        self._pod_tasks: list[asyncio.Task[None]] = []

    @property
    def synced(self) -> bool:
        """The pods are known: before, counting them would show a gang that runs as one without members."""
        return all(reflector.synced for reflector in self._pods)

    async def run(self) -> None:
        try:
            while True:
                for resource in self.resources:
                    await self._look(resource)
                await asyncio.sleep(ASK_EVERY)
        finally:
            tasks = [*self._pod_tasks, *(r.task for r in self.resources if r.task is not None)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, resource: Resource) -> None:
        try:
            served = _names(await self._rest.get(f"/apis/{resource.api_version}"))
        except RestError as error:
            if error.code != 404:
                _log.warning("discovery_failed", api_version=resource.api_version, error=str(error))
                return
            served = set()
        if PLURAL in served:
            has_status = f"{PLURAL}/status" in served
            if resource.task is None or resource.has_status != has_status:
                resource.has_status = has_status
                resource.pruned.clear()
                _log.info("pod_groups_served", api_version=resource.api_version, status_subresource=has_status)
                self._renewed(resource)
            if resource.task is None:
                resource.task = asyncio.create_task(resource.reflector.run())
                self._pod_tasks = self._pod_tasks or [asyncio.create_task(r.run()) for r in self._pods]
        elif resource.task is not None:
            _log.info("pod_groups_not_served_any_more", api_version=resource.api_version)
            resource.task.cancel()
            resource.task = None
            resource.reflector.clear()


def _names(raw: bytes) -> set[str]:
    try:
        listed: Any = orjson.loads(raw)
        return {entry["name"] for entry in listed["resources"]}
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise RestError(0, f"not understood: {error}") from error
