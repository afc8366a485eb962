# SPDX-License-Identifier: Apache-2.0
"""Build what is measured and what measures. Go's cache makes this quick the second time."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from localcluster.layout import BIN, REPO


@dataclass(frozen=True)
class Program:
    """A Go program: where its module is, what to build there, under which name it is kept."""

    name: str
    module: Path
    package: str

    @property
    def path(self) -> Path:
        return BIN / self.name


DRIVER = Program("bench-driver", REPO, "./bench/driver")
STOCK = Program("kube-scheduler", REPO, "k8s.io/kubernetes/cmd/kube-scheduler")
COSCHEDULING = Program("coscheduling-scheduler", REPO / "bench" / "coscheduling", ".")

_LAST_LINES = 6


def build(program: Program) -> str | None:
    """Build a program; return None, or why that did not work."""
    # Without cgo, as the binaries that users get: name resolution and the like then cost the same for all.
    environment = {**os.environ, "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(
            ["go", "build", "-o", str(program.path), program.package],
            cwd=program.module,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "there is no Go toolchain"
    if done.returncode == 0:
        return None
    return "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])


def go_version() -> str:
    return _output(REPO, "go", "env", "GOVERSION")


def module_version(module: Path, name: str) -> str:
    """The version of a Go module as this module resolves it, replacements included."""
    return _output(module, "go", "list", "-m", "-f", "{{or .Replace .}}", name).split()[-1]


def commit() -> str:
    return _output(REPO, "git", "rev-parse", "--short", "HEAD")


def _output(where: Path, *command: str) -> str:
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip() or "unknown"
