# SPDX-License-Identifier: Apache-2.0
"""Who may connect, what health says, what the view shows, and what wrong settings are told."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from muster.server.serve import AddressError, Server
from muster.server.settings import load
from muster.v1 import view_pb2
from muster.v1.view_pb2_grpc import ViewStub
from tests.server.harness import Scheduler, pod, running


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116


async def test_only_our_own_user_can_reach_the_socket() -> None:
    async with running() as server:
        path = server.address.removeprefix("unix://")
        assert mode(path) == 0o600
        assert mode(os.path.dirname(path)) == 0o700  # noqa: PTH120


async def test_health_says_serving() -> None:
    async with running() as server, grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "muster.v1.Scheduling", "muster.v1.View"):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))  # type: ignore[attr-defined]
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_view_shows_members_reason_and_numbers() -> None:
    async with running() as server, grpc.aio.insecure_channel(server.address) as channel:
        view = ViewStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await view.ListGangs(view_pb2.ListGangsRequest())
        assert unknown.value.code() is grpc.StatusCode.UNAVAILABLE
        scheduler = Scheduler(server.address)
        await scheduler.open(pod("p1"), pod("p2"))
        gang = await view.GetGang(view_pb2.GetGangRequest(namespace="a", name="train"))
        assert (gang.phase, gang.reason, gang.min, gang.total) == ("Forming", "NotEnoughMembers", 3, 3)
        assert gang.sentence == "waiting for 1 more of 3 members of gang a/train"
        assert [member.name for member in gang.members] == ["p1", "p2"]
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await view.GetGang(view_pb2.GetGangRequest(namespace="a", name="nobody"))
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND
        watch = view.WatchGangs(view_pb2.ListGangsRequest(namespace="a"))
        assert len((await watch.read()).gangs) == 1  # type: ignore[attr-defined]
        await scheduler.facts(pod("q1", "other"))
        assert len((await watch.read()).gangs) == 2  # type: ignore[attr-defined]
        await scheduler.close()


async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    path = folder / "s.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    settings = load([f"--listen=unix://{path}", "--no-write"])
    async with running() as other:
        server = Server(settings, other.engine)
        await server.start()
        with pytest.raises(AddressError, match="another server listens"):
            await Server(settings, other.engine).start()
        await server.stop()
    assert not path.exists()


async def test_a_folder_open_to_others_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    settings = load([f"--listen=unix://{folder}/s.sock", "--no-write"])
    async with running() as other:
        server = Server(settings, other.engine)
        await server.start()
        assert mode(folder) == 0o700
        await server.stop()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--waiting-time=soon"], "waiting_time is 'soon'"),
        (["--waiting-time=0s"], "waiting_time is '0s'"),
        (["--on-timeout=Explode"], "on_timeout is 'Explode'"),
        (["--listen=nowhere"], "listen is 'nowhere'"),
        (["--listen=127.0.0.1:1"], "also needs tls_cert, tls_key, tls_client_ca"),
        (["--listen=unix://relative"], "listen is 'unix://relative'"),
        (["--metrics-address=here"], "metrics_address is 'here'"),
        (["--log-level=loud"], "log_level is 'loud'"),
        (["--config=/nonexistent.toml"], "config is '/nonexistent.toml'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(
    flags: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        load(flags)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "muster.toml"
    file.write_text('waiting_time = "1m"\non_timeout = "Retry"\nlog_level = "error"\n')
    monkeypatch.setenv("MUSTER_WAITING_TIME", "2m")
    monkeypatch.setenv("MUSTER_LOG_LEVEL", "warning")
    settings = load([f"--config={file}", "--log-level=debug"])
    assert (settings.waiting_time, settings.on_timeout, settings.log_level) == ("2m", "Retry", "debug")
    assert settings.policy().defaults.wait == 120


def test_an_unknown_key_in_the_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "muster.toml"
    file.write_text("waiting_tmie = 3\n")
    with pytest.raises(SystemExit):
        load([f"--config={file}"])
    assert "waiting_tmie" in capsys.readouterr().err


def test_the_process_drains_on_sigterm_and_check_tells_how_it_is(tmp_path: Path) -> None:
    listen = f"--listen=unix://{tmp_path}/run/s.sock"
    command = [sys.executable, "-m", "muster.server", listen]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    flags = ["--no-write", "--metrics-address=127.0.0.1:0"]
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr
            for line in server.stderr:
                if '"serving"' in line:
                    break
            assert subprocess.run([*command, "--check"], env=environment).returncode == 0
            server.terminate()
            rest = server.stderr.read()
            assert server.wait(10) == 0
            assert '"stopped"' in rest
            assert subprocess.run([*command, "--check"], env=environment).returncode == 1
        finally:
            server.kill()
