# SPDX-License-Identifier: Apache-2.0
"""Plain requests to the API server. lightkube knows how to reach it and who we are; decoding is left to the caller.

Not lightkube's own watch: it asks for no bookmarks, and it takes every character that Unicode calls a line end for
one, which may stand inside of a value.
"""

import random
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import httpx2
import msgspec
import orjson
from lightkube import KubeConfig
from lightkube.config.client_adapter import AsyncClient, ConnectionParams

_T = TypeVar("_T")

PAGE = 500
MERGE = {"Content-Type": "application/merge-patch+json"}
SILENCE = 150.0  # seconds; bookmarks come about once a minute, so a watch that is silent for longer is dead


class _ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "next": "continue"}):
    version: str = ""
    next: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


class WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class RestError(Exception):
    """The API server did not do it. `code` 0: it did not answer, or not as an API server does."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}" if code else text)
        self.code = code


_read_list = msgspec.json.Decoder(_List).decode
_read_event = msgspec.json.Decoder(WatchEvent).decode
_read_status = msgspec.json.Decoder(_Status).decode


class Rest:
    def __init__(self, kubeconfig: str, manager: str, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_service_account()
        chosen = config.get()
        if chosen is None:
            raise ValueError("the kubeconfig has no current context")
        # The type of the parameter is that of the other, blocking client.
        reach = ConnectionParams(httpx2.Timeout(10.0), transport=transport)  # type: ignore[arg-type]
        self._http = AsyncClient(chosen, reach)
        self._manager = manager

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **parameters: str) -> bytes:
        return await self._request("GET", path, parameters)

    async def patch(self, path: str, body: dict[str, Any]) -> bytes:
        return await self._request("PATCH", path, {"fieldManager": self._manager}, body)

    async def pages(self, path: str, selector: str) -> AsyncIterator[tuple[str, list[msgspec.Raw]]]:
        """All there is, in pages, each with the version of the whole."""
        parameters = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            page = _read(_read_list, await self._request("GET", path, parameters))
            yield page.metadata.version, page.items
            if not page.metadata.next:
                return
            parameters["continue"] = page.metadata.next

    async def watch(self, path: str, selector: str, version: str) -> AsyncIterator[WatchEvent]:
        """What happened after this version, until the server ends the stream, which is nothing unusual."""
        parameters = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        # Not all watches of all clients at the same moment.
        parameters["timeoutSeconds"] = str(random.randint(240, 300))
        if selector:
            parameters["labelSelector"] = selector
        timeout = httpx2.Timeout(10.0, read=SILENCE)
        try:
            async with self._http.stream("GET", path, params=parameters, timeout=timeout) as response:
                if response.is_error:
                    raise _refused(response.status_code, await response.aread())
                async for line in _lines(response):
                    event = _read(_read_event, line)
                    if event.type == "ERROR":
                        told = _read(_read_status, event.object)
                        raise RestError(told.code, told.message)
                    yield event
        except (httpx2.HTTPError, OSError) as error:
            raise RestError(0, f"{type(error).__name__}: {error}") from error

    async def _request(
        self, method: str, path: str, parameters: dict[str, str], body: dict[str, Any] | None = None
    ) -> bytes:
        try:
            response = await self._http.request(
                method,
                path,
                params=parameters,
                content=orjson.dumps(body) if body is not None else None,
                headers=MERGE if body is not None else None,
            )
        except (httpx2.HTTPError, OSError) as error:
            raise RestError(0, f"{type(error).__name__}: {error}") from error
        if response.is_error:
            raise _refused(response.status_code, response.content)
        content: bytes = response.content
        return content


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Split at newlines and nothing else. What is left at the end is a line that was cut off."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def _read(decode: Callable[[bytes | msgspec.Raw], _T], raw: bytes | msgspec.Raw) -> _T:
    try:
        return decode(raw)
    except msgspec.MsgspecError as error:
        raise RestError(0, f"not understood: {error}") from error


def _refused(code: int, content: bytes) -> RestError:
    """Only an answer of the API server itself is believed: a proxy's page with a 404 says nothing about an object."""
    try:
        told = _read_status(content)
    except msgspec.MsgspecError:
        return RestError(0, f"{code}, and not from an API server")
    return RestError(told.code or 0, told.message)
