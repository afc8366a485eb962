# SPDX-License-Identifier: Apache-2.0
"""Entry of muster-server: settings, logging, serve until SIGTERM or SIGINT."""

import asyncio
import gc
import os
import signal
import sys

import structlog
import uvloop
from prometheus_client import start_http_server

from muster.server import logs, metrics
from muster.server.engine import Engine
from muster.server.serve import AddressError, Server, is_well
from muster.server.settings import Settings, load
from muster.writer import Writer

# The writer is started by fork and exec, which gRPC would comment on in the log.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
log = structlog.get_logger()


def main() -> None:
    settings = load(sys.argv[1:])
    if settings.check:
        raise SystemExit(0 if is_well(settings) else 1)
    logs.configure(settings.log_level)
    if settings.cpu >= 0:
        os.sched_setaffinity(0, {settings.cpu})
    gc.set_threshold(50_000, 20, 50)  # the state is long-lived and has few cycles: collect rarely
    try:
        uvloop.run(run(settings))
    except AddressError as error:
        print(f"muster-server: {error}", file=sys.stderr)
        raise SystemExit(1) from None


async def run(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    writer = Writer(kubeconfig=settings.kubeconfig or None, enabled=settings.write)
    engine = Engine(settings.policy(), writer)
    server = Server(settings, engine)
    _serve_metrics(settings.metrics_address)  # first: what cannot be bound must be known before anyone is served
    await writer.start()
    await server.start()
    explaining = asyncio.create_task(engine.explain_forever())
    await stop.wait()
    explaining.cancel()
    await server.stop()
    await writer.stop()


def _serve_metrics(address: str) -> None:
    if address:
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(int(port), host, metrics.REGISTRY)
        except OSError as error:
            raise AddressError(f"metrics_address is {address!r}: {error}") from error
        log.info("metrics", address=f"{host}:{server.server_port}")
