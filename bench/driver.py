# SPDX-License-Identifier: Apache-2.0
"""Runs bench/driver, the Go program that creates the pods and sees them bound."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.build import DRIVER
from bench.stats import Timeline
from localcluster import ClusterError

WORKERS = 16  # creates at a time; more do not create faster on a small machine


@dataclass(frozen=True)
class Plan:
    """See the type `plan` in bench/driver/main.go."""

    namespace: str
    scheduler: str
    prefix: str
    gangs: int
    size: int
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    resume_pid: int = 0
    create_only: bool = False
    timeout_s: float = 180.0
    workers: int = WORKERS


@dataclass(frozen=True)
class Findings:
    timeline: Timeline
    create_seconds: float
    cpu_seconds: float


def drive(kubeconfig: Path, plan: Plan, before_resume: Callable[[], None] = lambda: None) -> Findings:
    """Carry out a plan. `before_resume` is called when the backlog exists, just before the scheduler goes on."""
    process = subprocess.Popen(
        [str(DRIVER.path), f"--kubeconfig={kubeconfig}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        process.stdin.write(json.dumps(asdict(plan)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line.strip() == "created":
            before_resume()
            process.stdin.write("resume\n")
            process.stdin.flush()
            line = process.stdout.readline()
        process.stdin.close()
        if process.wait() != 0:
            raise ClusterError(process.stderr.read().strip())
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    found = json.loads(line)
    timeline = Timeline(plan.size, found["sent"], found["bound"] or [-1] * len(found["sent"]), found["resumed"])
    return Findings(timeline, max(found["created"]) / 1e9, found["cpu"])
