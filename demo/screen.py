# SPDX-License-Identifier: Apache-2.0
"""Shows what the server says of the gangs: drawn over itself on a terminal, a line per change elsewhere."""

import sys
import time
from collections.abc import Callable

from rich.live import Live

from muster.cli.connect import Address, view
from muster.cli.table import console, gangs_table
from muster.v1.view_pb2 import Gang, ListGangsRequest


class Screen:
    def __init__(self, server: str) -> None:
        self._address = Address(server)
        self._console = console()
        self._shown: dict[str, str] = {}
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        self._console.print(f"\n[{time.monotonic() - self._began:5.1f}s] {text}", style="bold")

    def command(self, text: str) -> None:
        self._console.print(f"  $ {text}", style="dim")

    def watch(self, until: Callable[[dict[str, Gang]], bool], patience: float = 60.0) -> None:
        """Show the gangs until it is so, and a moment longer so that people can read."""
        deadline = time.monotonic() + patience
        with view(self._address) as server:
            live = Live(console=self._console, refresh_per_second=8) if self._console.is_terminal else None
            if live:
                live.start()
            try:
                while True:
                    gangs = {gang.name: gang for gang in server.ListGangs(ListGangsRequest()).gangs}
                    if live:
                        live.update(gangs_table(gangs.values(), time.time(), wide=True))
                    else:
                        self._print_changes(gangs)
                    if until(gangs):
                        break
                    if time.monotonic() > deadline:
                        raise SystemExit(f"the demo waited {patience:g}s in vain; see .muster/demo/log")
                    time.sleep(0.1)
                if live:
                    time.sleep(1.0)
            finally:
                if live:
                    live.stop()

    def _print_changes(self, gangs: dict[str, Gang]) -> None:
        for name, gang in sorted(gangs.items()):
            placed = sum(member.phase != "Pending" for member in gang.members)
            line = f"{name:<8} {gang.phase:<11} {placed}/{gang.min}  {gang.sentence}".rstrip()
            if self._shown.get(name) != line:
                self._shown[name] = line
                print(f"  {line}")
                sys.stdout.flush()
