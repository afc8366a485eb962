# SPDX-License-Identifier: Apache-2.0
"""TCP is served with mutual TLS or not at all: our scheduler has a certificate, strangers do not."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.server.harness import Running, running


class Papers:
    """A certificate authority and what it signed, as files."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        server = self.authority.issue_cert("localhost")
        self.ca = folder / "ca.pem"
        self.cert = folder / "cert.pem"
        self.key = folder / "key.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        server.cert_chain_pems[0].write_to_path(str(self.cert))
        server.private_key_pem.write_to_path(str(self.key))

    def client(self, authority: trustme.CA | None = None) -> grpc.ChannelCredentials:
        own = (authority or self.authority).issue_cert("muster-scheduler")
        return grpc.ssl_channel_credentials(
            self.ca.read_bytes(), own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()
        )


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


@pytest.fixture
async def server(papers: Papers) -> AsyncIterator[Running]:
    files = (f"--tls-cert={papers.cert}", f"--tls-key={papers.key}", f"--tls-client-ca={papers.ca}")
    async with running("--listen=localhost:0", *files) as made:
        yield made


async def check(address: str, credentials: grpc.ChannelCredentials) -> int:
    async with grpc.aio.secure_channel(address, credentials) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)  # type: ignore[attr-defined]
        return int(answer.status)


async def test_a_client_with_our_certificate_is_served(server: Running, papers: Papers) -> None:
    assert await check(server.address, papers.client()) == health_pb2.HealthCheckResponse.SERVING


async def test_a_client_of_another_authority_is_not(server: Running, papers: Papers) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await check(server.address, papers.client(trustme.CA()))


async def test_a_client_without_a_certificate_is_not(server: Running, papers: Papers) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await check(server.address, grpc.ssl_channel_credentials(papers.ca.read_bytes()))
