# SPDX-License-Identifier: Apache-2.0
"""What processes use, from /proc, and facts about the machine. Linux only."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")

# Fields of /proc/<pid>/stat behind the command name, which may itself contain spaces and parentheses.
_PARENT, _UTIME, _STIME, _RSS = 1, 11, 12, 21
# Columns of the first line of /proc/stat that are no work: idle and iowait.
_IDLE = slice(3, 5)
_GUEST = 8  # from here on time that the columns before already contain


def cpu_seconds(pid: int) -> float:
    """CPU time a process has used; 0 when it is gone."""
    fields = _stat(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICK if fields else 0.0


def rss_bytes(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[_RSS]) * _PAGE if fields else 0


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            if fields and int(fields[_PARENT]) == pid:
                found.append(int(entry.name))
    return sorted(found)


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used since it started."""
    columns = [int(value) for value in (_PROC / "stat").read_text().splitlines()[0].split()[1:]][:_GUEST]
    return (sum(columns) - sum(columns[_IDLE])) / _TICK


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def machine() -> dict[str, str | int | float]:
    """Facts that numbers depend on, and nothing that tells whose machine it is."""
    memory = os.sysconf("SC_PHYS_PAGES") * _PAGE
    return {
        "cores": os.cpu_count() or 0,
        "cpu": _cpu_model(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    for line in (_PROC / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
