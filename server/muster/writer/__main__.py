# SPDX-License-Identifier: Apache-2.0
"""`python -m muster.writer --kubeconfig PATH`: orders on stdin, confirmations on stdout, logs on stderr."""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys

import structlog

from muster.server.logs import LEVELS, configure
from muster.writer.api import CONTROLLER, Api
from muster.writer.process import WriterProcess
from muster.writer.status import Keeper
from muster.writer.status.rest import Rest

LINE_LIMIT = 1 << 20

_log = structlog.get_logger()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m muster.writer", description="Writes events, timeout marks and status."
    )
    parser.add_argument("--kubeconfig", default="", help="empty: the service account of the pod it runs in")
    parser.add_argument("--log-level", default="info", choices=LEVELS)
    options = parser.parse_args()
    configure(options.log_level)
    # Ctrl-C reaches the whole group; the parent then closes our input, and marks under way are still finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        api = Api(options.kubeconfig, instance=f"{socket.gethostname()}-{os.getpid()}")
        rest = Rest(options.kubeconfig, CONTROLLER)
    except Exception as error:  # whatever is wrong with a configuration, it is one line in the log
        _log.error("writer_not_configured", kubeconfig=options.kubeconfig, error=f"{type(error).__name__}: {error}")
        return 1
    asyncio.run(_serve(api, rest))
    return 0


async def _serve(api: Api, rest: Rest) -> None:
    orders = asyncio.StreamReader(limit=LINE_LIMIT)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer)
    _log.info("writer_started", pid=os.getpid())
    try:
        await WriterProcess(api, _say, status=lambda tell: Keeper(rest, tell)).run(orders)
    finally:
        transport.close()
        await api.close()
        await rest.close()


def _say(line: bytes) -> None:
    # Blocks only if the parent stops reading a few bytes a mark; it never does while it lives. When it does not live
    # our input ends too, and marks are still finished.
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line)


if __name__ == "__main__":
    sys.exit(main())
