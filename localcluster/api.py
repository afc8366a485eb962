# SPDX-License-Identifier: Apache-2.0
"""Just enough of a client to handle thousands of objects: kubectl sends them one by one and holds itself back."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import LifoQueue
from typing import Any

from localcluster.layout import ClusterError, Layout

_WORKERS = 16


def administrator(layout: Layout) -> ssl.SSLContext:
    """TLS with the cluster's authority and the administrator's certificate."""
    context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return context


class Api:
    """The API server, as administrator. Paths are those of the REST API, such as /api/v1/nodes."""

    def __init__(self, layout: Layout) -> None:
        port = int(layout.apiserver_port.read_text())
        context = administrator(layout)
        self._idle: LifoQueue[http.client.HTTPSConnection] = LifoQueue()
        for _ in range(_WORKERS):  # they connect when first used
            self._idle.put(http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context))

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        while not self._idle.empty():
            self._idle.get().close()

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        connection = self._idle.get()
        try:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": kind})
            response = connection.getresponse()
            answer = response.read()
        except OSError as error:
            connection.close()
            raise ClusterError(f"{method} {path}: {error}") from error
        finally:
            self._idle.put(connection)
        if response.status >= http.client.BAD_REQUEST:
            raise ClusterError(f"{method} {path}: {response.status} {answer.decode(errors='replace')}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def each(self, method: str, requests: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Send many requests in parallel; the first error is raised and ends the rest."""
        with ThreadPoolExecutor(_WORKERS) as pool:
            try:
                for _ in pool.map(lambda request: self.request(method, *request), requests):
                    pass
            finally:
                pool.shutdown(cancel_futures=True)
