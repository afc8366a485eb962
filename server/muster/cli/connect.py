# SPDX-License-Identifier: Apache-2.0
"""Where the server is, a channel to it, and what a failed call means to a person: one line and an exit code."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from muster.cli.text import safe
from muster.v1.view_pb2_grpc import ViewStub

LOCAL_SOCKET = Path(".muster/run/server.sock")
SYSTEM_SOCKETS = (Path("/run/muster/server.sock"), Path("/run/muster/private/server.sock"))
CALL_TIMEOUT = 10.0
MOST_BYTES = 256 << 20  # a list of many gangs is longer than gRPC's own limit of 4 MiB

# How gRPC speaks of connections that could not be made or were lost, and of a server that shuts down.
_NO_CONNECTION = re.compile(
    r"failed to connect|resol(ving|ution)|socket closed|stream removed|goaway|connection|broken pipe|recvmsg|handshake"
    r"|cancelling all calls",
    re.IGNORECASE,
)
_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:/\s]+):[0-9]{1,5}")


class CommandError(Exception):
    """One line for stderr, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class RefusedError(CommandError):
    """The server answered, and the answer is no."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 1)


class UsageError(CommandError):
    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


class UnreachableError(CommandError):
    def __init__(self, address: str, cause: str) -> None:
        super().__init__(f"cannot reach muster-server at {address}: {cause}", 3)


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, and the files for TLS."""

    server: str
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def default_server() -> str:
    """The environment, then a local cluster of this directory or one above it, then the system's sockets."""
    if server := os.environ.get("MUSTER_SERVER"):
        return server
    here = Path.cwd()
    for directory in (here, *here.parents):
        if _exists(directory / LOCAL_SOCKET):
            return f"unix://{directory / LOCAL_SOCKET}"
    # The last one also when it does not exist: the error then names where a server listens by default.
    return f"unix://{next((path for path in SYSTEM_SOCKETS if _exists(path)), SYSTEM_SOCKETS[-1])}"


def _exists(path: Path) -> bool:
    """Not for us is like not there."""
    try:
        return path.exists()
    except OSError:
        return False


@contextlib.contextmanager
def view(address: Address) -> Iterator[ViewStub]:
    """The server's view. A call that fails inside leaves as a CommandError."""
    with _channel(address) as channel:
        try:
            yield ViewStub(channel)
        except grpc.RpcError as error:
            raise _explained(error, address) from None


def _channel(address: Address) -> grpc.Channel:
    options = [("grpc.max_receive_message_length", MOST_BYTES)]
    server = address.server
    if server.startswith("unix:"):
        if address.ca or address.cert or address.key:
            raise UsageError("--ca, --cert and --key are for host:port; a unix socket needs none of them")
        # gRPC takes a relative path only without the slashes.
        path = server.removeprefix("unix:").removeprefix("//")
        if not path:
            raise UsageError(f"--server {server}: the path is missing")
        return grpc.insecure_channel(f"unix:{path}", options)
    if not _HOST_PORT.fullmatch(server):
        raise UsageError(f"--server {server}: want unix:///path or host:port")
    if (address.cert is None) != (address.key is None):
        raise UsageError("--cert and --key go together")
    credentials = grpc.ssl_channel_credentials(_read(address.ca), _read(address.key), _read(address.cert))
    return grpc.secure_channel(server, credentials, options)


def _read(path: Path | None) -> bytes | None:
    try:
        return path.read_bytes() if path is not None else None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _explained(error: grpc.RpcError, address: Address) -> CommandError:
    server = address.server
    if not isinstance(error, grpc.Call):
        return UnreachableError(server, safe(str(error)))
    code, details = error.code(), safe(error.details() or "")
    if code is grpc.StatusCode.UNAVAILABLE and not _came_from_server(details):
        cause = _cause(details)
        if "closed" in cause and not server.startswith("unix:") and address.cert is None:
            cause += " (does it want a certificate? --cert and --key)"
        return UnreachableError(server, cause)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UnreachableError(server, f"no answer within {CALL_TIMEOUT:g}s")
    name = code.name.replace("_", " ").lower() if code is not None else "error"
    return RefusedError(details or f"muster-server says: {name}")


def _came_from_server(details: str) -> bool:
    """A server without a scheduler and a server that is not there give the same code; only the words differ."""
    return _NO_CONNECTION.search(details) is None


def _cause(details: str) -> str:
    """gRPC wraps the system's word, such as "Connection refused", into much that helps nobody."""
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "its certificate is not signed by a known CA (--ca)"
    last = details.rsplit(": ", 1)[-1].strip("[] ")
    return re.sub(r" \(\d+\)$", "", last) or "connection failed"
