# SPDX-License-Identifier: Apache-2.0
"""The processes a supervisor keeps, as those who start and stop supervisors see them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field

from localcluster.layout import Layout


@dataclass(frozen=True)
class Child:
    """A process to keep running: started when the files it `needs` exist and the command `before` has succeeded."""

    name: str
    argv: list[str]
    needs: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def end_leftovers(layout: Layout) -> list[str]:
    """End the children of a killed supervisor: they would hold the ports and files of the new ones."""
    ended = []
    for file in layout.run.glob("*.pid"):
        name = file.stem
        pid = layout.pid(name)
        command = _command_of(pid) if pid else None
        # The id may belong to another process by now; all our children have the directory in their arguments.
        if pid and command and str(layout.dir) in command:
            kill_group(pid)
            ended.append(name)
        file.unlink(missing_ok=True)
    return ended


def kill_group(leader: int) -> None:
    """Kill what is left of the process group of a child; each child leads its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _command_of(pid: int) -> str | None:
    """The command line of a process, None if there is no such process."""
    found = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None
