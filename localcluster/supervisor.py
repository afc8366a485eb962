# SPDX-License-Identifier: Apache-2.0
"""The daemon that keeps the processes of a cluster running. It knows nothing of Kubernetes.

    python -m localcluster.supervisor DIR

It runs what DIR/run/children.json lists, each as soon as the files it needs exist, starts again whatever
dies, and on SIGTERM stops all in the reverse of their order.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster.children import Child, end_leftovers, kill_group
from localcluster.layout import Layout, write_private

FIRST_BACKOFF = 0.5
LAST_BACKOFF = 5.0
STEADY_AFTER = 30.0  # a child that lived this long starts over with the first backoff
STOP_GRACE = 5.0
NEEDS_POLL = 0.05


@dataclass
class ChildState:
    """What is known of a child. `failures` counts its deaths since it last ran steadily."""

    pid: int | None = None
    started: float = 0.0
    starts: int = 0
    failures: int = 0
    last_exit: str = ""


class Supervisor:
    def __init__(self, layout: Layout, children: list[Child]) -> None:
        self._layout = layout
        self._children = children
        self._states = {child.name: ChildState() for child in children}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        self._publish()
        keepers = [asyncio.create_task(self._keep(child)) for child in self._children]
        # A keeper ends only by an error of this program, and then all must stop: half a cluster helps nobody.
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stop, *keepers], return_when=asyncio.FIRST_COMPLETED)
        self._stopping.set()
        for child in reversed(self._children):
            await self._stop(child.name)
        stop.cancel()
        for keeper in keepers:
            keeper.cancel()
        for result in await asyncio.gather(*keepers, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _keep(self, child: Child) -> None:
        state = self._states[child.name]
        backoff = FIRST_BACKOFF
        while not all(map(os.path.exists, child.needs)):  # noqa: ASYNC110 - files send no events
            await asyncio.sleep(NEEDS_POLL)
        while not self._stopping.is_set():
            began = time.monotonic()
            state.last_exit = await self._run_once(child, state)
            if self._stopping.is_set():
                return
            lived = time.monotonic() - began
            if lived >= STEADY_AFTER:
                backoff, state.failures = FIRST_BACKOFF, 0
            state.failures += 1
            self._publish()
            say(f"{child.name} {state.last_exit} after {lived:.1f} s; starting it again in {backoff:g} s")
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, LAST_BACKOFF)

    async def _run_once(self, child: Child, state: ChildState) -> str:
        """Run the child to its end and tell how it ended."""
        try:
            if child.before:
                code = await (await self._spawn(child, child.before, quiet=True)).wait()
                if code != 0:
                    return f"could not be prepared (exit code {code})"
            process = await self._spawn(child, child.argv)
        except OSError as error:
            return f"could not be started ({error})"
        self._processes[child.name] = process
        state.pid, state.started, state.starts = process.pid, time.time(), state.starts + 1
        write_private(self._layout.pid_file(child.name), f"{process.pid}\n")
        self._publish()
        say(f"{child.name} started, pid {process.pid}")
        code = await process.wait()
        state.pid = None
        kill_group(process.pid)  # as with a container, nothing outlives its first process
        self._layout.pid_file(child.name).unlink(missing_ok=True)
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    async def _spawn(self, child: Child, argv: list[str], quiet: bool = False) -> asyncio.subprocess.Process:
        with self._layout.log_file(child.name).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL if quiet else log,
                stderr=log,
                env={**os.environ, **child.env},
                start_new_session=True,  # a Ctrl-C in a terminal is for whoever typed it
            )

    async def _stop(self, name: str) -> None:
        process = self._processes.get(name)
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_GRACE)
        except TimeoutError:
            say(f"{name} did not stop within {STOP_GRACE:g} s; killing it")
            process.kill()
            await process.wait()
        self._layout.pid_file(name).unlink(missing_ok=True)
        say(f"{name} stopped")

    def _publish(self) -> None:
        states = {name: asdict(state) for name, state in self._states.items()}
        write_private(self._layout.state, json.dumps(states, indent=1))


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _lock(layout: Layout) -> bool:
    # Whoever asks whether a supervisor lives holds the lock for an instant; do not take that for one.
    for _ in range(20):
        if layout.lock_supervisor() is not None:
            return True
        time.sleep(0.05)
    return False


def main() -> int:
    layout = Layout(Path(sys.argv[1]))
    if not _lock(layout):
        say("another supervisor runs in this directory")
        return 1
    for name in end_leftovers(layout):
        say(f"ended a leftover {name}")
    write_private(layout.pid_file("supervisor"), f"{os.getpid()}\n")
    children = [Child(**entry) for entry in json.loads(layout.children.read_text())]
    asyncio.run(Supervisor(layout, children).run())
    layout.pid_file("supervisor").unlink(missing_ok=True)
    say("all stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
