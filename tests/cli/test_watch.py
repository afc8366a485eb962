# SPDX-License-Identifier: Apache-2.0
"""`muster get gangs -w`: lines in a pipe, a table that is drawn again on a terminal, a quiet end."""

import asyncio
import os
import pty
import signal
from asyncio.subprocess import Process
from pathlib import Path

import orjson

from tests.cli.server import Canned, serving, start, train


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().rstrip("\n")


async def interrupt(process: Process) -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (out or b"").decode() + err.decode()


async def test_a_pipe_gets_a_line_per_changed_gang_and_ctrl_c_is_quiet(view: Canned) -> None:
    view.gangs = [train(), train(name="other")]
    process = await start("get", "gangs", "-w", "--server", view.address)
    assert (await line_of(process)).split()[:3] == ["NAMESPACE", "GANG", "PHASE"]
    assert (await line_of(process)).split()[:2] == ["a", "other"]
    assert (await line_of(process)).split()[:2] == ["a", "train"]
    # What ticks is no change; what is said is one; a gang that is gone is said to be.
    view.next_lists.put_nowait([train(deadline_ms=1, created_unix_ns=1), train(name="other")])
    view.next_lists.put_nowait([train(sentence="3 of 3"), train(name="other")])
    view.next_lists.put_nowait([train(sentence="3 of 3")])
    changed = await line_of(process)
    assert changed.split()[:2] == ["a", "train"] and changed.endswith("3 of 3")
    assert (await line_of(process)).split()[:3] == ["a", "other", "Gone"]
    assert await interrupt(process) == (130, "")


async def test_json_is_one_document_a_line(view: Canned) -> None:
    process = await start("get", "gangs", "-w", "-o", "json", "--server", view.address)
    assert orjson.loads(await line_of(process))["gangs"][0]["name"] == "train"
    view.next_lists.put_nowait([])
    assert orjson.loads(await line_of(process)) == {"gangs": [], "schedulerEpoch": "epoch-1"}
    assert await interrupt(process) == (130, "")


async def test_a_server_that_goes_away_ends_the_watch_with_one_line(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.sock") as view:
        process = await start("get", "gangs", "-w", "--server", view.address)
        await line_of(process)
        await line_of(process)
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert (process.returncode, out) == (3, b"")
    assert err.decode().startswith(f"cannot reach muster-server at {view.address}: ")
    assert len(err.splitlines()) == 1


async def test_a_terminal_is_redrawn_in_colour_within_its_width(view: Canned) -> None:
    screen = await on_a_terminal(view, {"COLUMNS": "80", "TERM": "xterm"})
    assert "\x1b[36mWaiting" in screen
    assert "3 of 3" in screen and "…" in screen


async def test_no_color_is_respected(view: Canned) -> None:
    screen = await on_a_terminal(view, {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"})
    assert "Waiting" in screen and "\x1b[36m" not in screen


async def on_a_terminal(view: Canned, environment: dict[str, str]) -> str:
    """What a terminal of 80 columns gets to see: a long sentence, then a short one, then Ctrl-C."""
    view.gangs = [train(sentence="x" * 200)]
    ours, theirs = pty.openpty()
    seen = bytearray()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            seen.extend(os.read(ours, 65536))
        except OSError:  # the other side was closed
            loop.remove_reader(ours)

    loop.add_reader(ours, read)
    try:
        process = await start("get", "gangs", "-w", "--server", view.address, stdout=theirs, env=environment)
        os.close(theirs)
        await until_seen(seen, "…")
        view.next_lists.put_nowait([train(sentence="3 of 3")])
        await until_seen(seen, "3 of 3")
        assert (await interrupt(process))[0] == 130
    finally:
        loop.remove_reader(ours)
        os.close(ours)
    return seen.decode()


async def until_seen(seen: bytearray, text: str) -> None:
    async with asyncio.timeout(30):
        while text.encode() not in seen:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
