# SPDX-License-Identifier: Apache-2.0
"""A tiny HTTP server that answers as an API server does when things go wrong. For error paths only: what a real API
server takes is tested against a real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

Answer = tuple[int, dict[str, str], dict[str, Any]]


def status(code: int, reason: str, message: str, **more: Any) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return code, {}, {**body, "message": message, **more}


def fine(_: "Request") -> Answer:
    return 200, {}, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Any


@dataclass
class StandIn:
    """`answer` may be changed while it runs."""

    kubeconfig: Path
    answer: Callable[[Request], Answer] = fine
    requests: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                method, path, _ = lines[0].split(" ")
                headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines[1:] if line)}
                raw = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(method, path, orjson.loads(raw) if raw else None)
                self.requests.append(request)
                code, extra, body = self.answer(request)
                text = orjson.dumps(body)
                extra = {"Content-Type": "application/json", "Content-Length": str(len(text)), **extra}
                reply = f"HTTP/1.1 {code} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in extra.items()) + "\r\n"
                writer.write(reply.encode() + text)
                await writer.drain()
        writer.close()


def write_kubeconfig(path: Path, port: int) -> None:
    """JSON is YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {"token": "none"}}],
    }
    path.write_bytes(orjson.dumps(config))


@contextlib.asynccontextmanager
async def stand_in(directory: Path, port: int = 0) -> AsyncIterator[StandIn]:
    kubeconfig = directory / "kubeconfig"
    api = StandIn(kubeconfig)
    server = await asyncio.start_server(api.serve, "127.0.0.1", port)
    write_kubeconfig(kubeconfig, server.sockets[0].getsockname()[1])
    try:
        yield api
    finally:
        server.close()
