# SPDX-License-Identifier: Apache-2.0
"""Sockets, TLS, health and drain."""

import os
import socket
import stat
import uuid
from pathlib import Path

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from muster.server.engine import Engine
from muster.server.session import Session
from muster.server.settings import UNIX, Settings
from muster.server.viewer import Viewer
from muster.v1 import scheduling_pb2_grpc, view_pb2_grpc

SERVICES = ("", "muster.v1.Scheduling", "muster.v1.View")
MAX_MESSAGE = 16 * 1024 * 1024  # a Facts frame of some 30,000 pods; schedulers send far smaller ones
log = structlog.get_logger()


class AddressError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class Server:
    """The gRPC server around one engine."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._session = Session(engine, epoch=uuid.uuid4().hex)
        self._health = health.aio.HealthServicer()
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE),
                ("grpc.max_send_message_length", MAX_MESSAGE),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 2000),  # schedulers ping to notice a hung server
                ("grpc.so_reuseport", 0),
            ]
        )
        scheduling_pb2_grpc.add_SchedulingServicer_to_server(self._session, self._grpc)
        view_pb2_grpc.add_ViewServicer_to_server(Viewer(engine), self._grpc)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)

    async def start(self) -> str:
        """Listen. Returns the address, with the port that was chosen if it was 0."""
        address = self._settings.listen
        if address.startswith(UNIX):
            await self._listen_on_socket(address)
        else:
            port = self._grpc.add_secure_port(address, _mutual_tls(self._settings))
            address = f"{address.rpartition(':')[0]}:{port}"
            await self._grpc.start()
        await self._report(health_pb2.HealthCheckResponse.SERVING)
        log.info("serving", address=address)
        return address

    async def stop(self) -> None:
        """Say that we go, end the session so that the scheduler holds its gangs at once, finish what is under way."""
        log.info("draining")
        await self._report(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._session.drain()
        await self._grpc.stop(grace=2)
        _remove_socket(self._settings.listen)
        log.info("stopped")

    async def _listen_on_socket(self, address: str) -> None:
        path = Path(address.removeprefix(UNIX))
        _private_folder(path.parent)
        _clear_stale(path)
        before = os.umask(0o177)  # the socket is born 0600: there is no moment in which others could open it
        try:
            self._grpc.add_insecure_port(address)
            await self._grpc.start()
        except RuntimeError as error:
            raise AddressError(f"listen is {address!r}: {error}") from error
        finally:
            os.umask(before)

    async def _report(self, status: int) -> None:
        for service in SERVICES:
            await self._health.set(service, status)


def is_well(settings: Settings) -> bool:
    """Ask a running server's health service, as a probe does."""
    if settings.listen.startswith(UNIX):
        channel = grpc.insecure_channel(settings.listen)
    else:
        files = (settings.tls_client_ca, settings.tls_key, settings.tls_cert)
        channel = grpc.secure_channel(
            settings.listen, grpc.ssl_channel_credentials(*(Path(file).read_bytes() for file in files))
        )
    with channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(  # type: ignore[attr-defined] # the stubs leave it out
                health_pb2.HealthCheckRequest(), timeout=5
            )
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _private_folder(folder: Path) -> None:
    """Only our own user may enter the socket's folder: whoever can open the socket decides who runs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        if status.st_uid != os.getuid():
            raise AddressError(
                f"folder {folder} is open to others and not ours to close: name one that is not there yet"
            )
        folder.chmod(0o700)


def _remove_socket(address: str) -> None:
    if address.startswith(UNIX):
        Path(address.removeprefix(UNIX)).unlink(missing_ok=True)


def _clear_stale(path: Path) -> None:
    """A socket left by a killed server is removed; one that somebody listens on is not."""
    if not path.exists():
        return
    if not path.is_socket():
        raise AddressError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise AddressError(f"another server listens on {path}")
    path.unlink()


def _mutual_tls(settings: Settings) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(Path(settings.tls_key).read_bytes(), Path(settings.tls_cert).read_bytes())],
        root_certificates=Path(settings.tls_client_ca).read_bytes(),
        require_client_auth=True,
    )
