# SPDX-License-Identifier: Apache-2.0
"""An API server in memory, for what a real one does rarely: it loses versions, ends streams, refuses, prunes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import orjson

from muster.writer.status.rest import Rest
from tests.writer.stand_in import write_kubeconfig

GROUP = "scheduling.sigs.k8s.io/v1alpha1"
GROUPS, PODS = f"/apis/{GROUP}/podgroups", "/api/v1/pods"
LABEL = "pod-group.scheduling.sigs.k8s.io"


def failure(code: int, message: str = "") -> httpx2.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
    return httpx2.Response(code, json=body)


class Stream(httpx2.AsyncByteStream):
    """A watch: chunks as they are put in, until None."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self.chunks.get()) is not None:
            yield chunk

    def send(self, kind: str, thing: dict[str, Any]) -> None:
        self.chunks.put_nowait(orjson.dumps({"type": kind, "object": thing}) + b"\n")

    def end(self) -> None:
        self.chunks.put_nowait(None)


class Scripted:
    """`refuse` may answer in place of the server; it is asked first."""

    def __init__(self) -> None:
        self.things: dict[str, dict[str, dict[str, Any]]] = {GROUPS: {}, PODS: {}}
        self.served: dict[str, list[str]] = {GROUP: ["podgroups", "podgroups/status"]}
        self.status_fields: set[str] | None = None  # what the definition has; None: all
        self.version = 1
        self.page = 500
        self.streams: dict[str, list[Stream]] = {GROUPS: [], PODS: []}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.refuse: Callable[[str, str, dict[str, str]], httpx2.Response | None] = lambda *_: None

    def rest(self, directory: Path) -> Rest:
        write_kubeconfig(directory / "kubeconfig", 1)
        return Rest(str(directory / "kubeconfig"), "test", httpx2.MockTransport(self._answer))

    # ---- what happens in the cluster ------------------------------------------------------------------------

    def put(self, path: str, name: str, told: bool = True, **fields: Any) -> dict[str, Any]:
        self.version += 1
        kind = "MODIFIED" if name in self.things[path] else "ADDED"
        metadata = {"name": name, "namespace": "a", "uid": f"u-{name}", **fields.pop("metadata", {})}
        thing = {"metadata": {**metadata, "resourceVersion": str(self.version)}, **fields}
        self.things[path][name] = thing
        if told:
            self._tell(path, kind, thing)
        return thing

    def group(self, name: str = "train", minimum: int = 2, **fields: Any) -> None:
        self.put(GROUPS, name, spec={"minMember": minimum}, **fields)

    def pod(self, name: str, phase: str = "Pending", node: str = "", group: str = "train", told: bool = True) -> None:
        labels = {"labels": {LABEL: group}}
        self.put(PODS, name, told, metadata=labels, spec={"nodeName": node}, status={"phase": phase})

    def delete(self, path: str, name: str, told: bool = True) -> None:
        self.version += 1
        thing = self.things[path].pop(name)
        if told:
            self._tell(path, "DELETED", thing)

    def _tell(self, path: str, kind: str, thing: dict[str, Any]) -> None:
        for stream in self.streams[path]:
            stream.send(kind, thing)

    # ---- what it answers ------------------------------------------------------------------------------------

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = urlsplit(str(request.url)).path
        query = {key: values[0] for key, values in parse_qs(urlsplit(str(request.url)).query).items()}
        self.requests.append((request.method, path, query))
        if (refused := self.refuse(request.method, path, query)) is not None:
            return refused
        if request.method == "PATCH":
            return self._patch(path, orjson.loads(request.content))
        if path in self.things and LABEL not in query.get("labelSelector", LABEL):
            return self._list(path, query, []) if "watch" not in query else httpx2.Response(200, stream=Stream())
        if path in self.things and "watch" in query:
            stream = Stream()
            self.streams[path].append(stream)
            return httpx2.Response(200, stream=stream)
        if path in self.things:
            return self._list(path, query, list(self.things[path].values()))
        version = path.removeprefix("/apis/")
        if version in self.served:
            return httpx2.Response(200, json={"resources": [{"name": name} for name in self.served[version]]})
        return failure(404)

    def _list(self, path: str, query: dict[str, str], things: list[dict[str, Any]]) -> httpx2.Response:
        begin = int(query.get("continue", "0"))
        metadata = {"resourceVersion": str(self.version)}
        if begin + self.page < len(things):
            metadata["continue"] = str(begin + self.page)
        return httpx2.Response(200, json={"metadata": metadata, "items": things[begin : begin + self.page]})

    def _patch(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        name = path.removesuffix("/status").rpartition("/")[2]
        thing = self.things[GROUPS].get(name)
        if thing is None:
            return failure(404)
        wanted = body["metadata"]
        if (
            wanted["uid"] != thing["metadata"]["uid"]
            or wanted["resourceVersion"] != thing["metadata"]["resourceVersion"]
        ):
            return failure(409, "the object has been modified")
        self.patches.append((path, body["status"]))
        status = {**thing.get("status", {}), **body["status"]}
        kept = self.status_fields
        status = {f: v for f, v in status.items() if v is not None and (kept is None or f in kept)}
        return httpx2.Response(200, json=self.put(GROUPS, name, spec=thing["spec"], status=status))


async def until(holds: Callable[[], bool], within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in other tasks
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
