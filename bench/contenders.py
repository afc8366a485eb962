# SPDX-License-Identifier: Apache-2.0
"""The schedulers under test: what each needs on a pod, its configuration, and how its processes start and stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import build, proc
from localcluster import ClusterError, components
from localcluster.layout import BIN, Layout, write_private

_READY_TIMEOUT = 60.0
_STOP_GRACE = 10.0
_CLIENT = {"qps": 5000, "burst": 10000}  # as in manifests/scheduler-config.yaml


@dataclass(frozen=True)
class Contender:
    """`labels` and `annotations` go on every pod; {gang} and {size} stand for its gang."""

    name: str
    scheduler: str  # the pods' schedulerName
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    pod_groups: bool = False
    has_server: bool = False
    program: build.Program | None = None  # None: built by `make build`


_GANG = "gang.scheduling.koordinator.sh"

CONTENDERS = (
    Contender("stock", "bench-stock", program=build.STOCK),
    Contender(
        "coscheduling",
        "bench-coscheduling",
        labels={"scheduling.x-k8s.io/pod-group": "{gang}"},
        pod_groups=True,
        program=build.COSCHEDULING,
    ),
    Contender(
        "muster",
        "muster-scheduler",
        annotations={f"{_GANG}/name": "{gang}", f"{_GANG}/min-available": "{size}"},
        has_server=True,
    ),
    Contender("muster-plain", "muster-scheduler", has_server=True),
)

# The processes whose use of the processor is told apart, in the order of the table.
PROCESSES = ("scheduler", "server", "writer", "control plane", "driver")


@dataclass
class Running:
    """The processes of a contender at work."""

    contender: Contender
    layout: Layout
    processes: dict[str, subprocess.Popen[bytes]]

    @property
    def scheduler_pid(self) -> int:
        return self.processes["scheduler"].pid

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by process. The server's children are the writer."""
        used = {name: proc.cpu_seconds(process.pid) for name, process in self.processes.items()}
        if "server" in self.processes:
            used["writer"] = sum(map(proc.cpu_seconds, proc.children(self.processes["server"].pid)))
        return used

    def check_alive(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise ClusterError(
                    f"{self.contender.name}: its {name} ended with code {process.returncode}:\n"
                    f"{self.layout.log_tail(self.log_name(name))}"
                )

    def log_name(self, process: str) -> str:
        return f"{self.contender.name}-{process}"


@contextmanager
def run(contender: Contender, layout: Layout) -> Iterator[Running]:
    """Start the contender's processes, wait until they are ready, and end them in the end."""
    running = Running(contender, layout, {})
    try:
        if contender.has_server:
            _start(running, "server", *_argv(layout, "server"))
            _wait_ready(running, "server")
            _start(running, "scheduler", *_argv(layout, "scheduler"))
        else:
            argv, environment = _argv(layout, "scheduler")
            assert contender.program is not None
            config = f"--config={_write_config(contender, layout)}"
            rest = [word for word in argv[1:] if not word.startswith("--config=")]
            _start(running, "scheduler", [str(contender.program.path), config, *rest], environment)
        _wait_ready(running, "scheduler")
        yield running
    finally:
        for process in reversed(running.processes.values()):
            _stop(process)


def _argv(layout: Layout, part: str) -> tuple[list[str], dict[str, str]]:
    """How the local cluster starts this part."""
    child = next(child for child in components.children(layout, BIN, [part], {}, {}) if child.name == part)
    return child.argv, child.env


def _write_config(contender: Contender, layout: Layout) -> Path:
    profile: dict[str, Any] = {"schedulerName": contender.scheduler}
    if contender.pod_groups:
        enabled = [{"name": "Coscheduling"}]
        sort = {"disabled": [{"name": "*"}], "enabled": enabled}
        profile["plugins"] = {"multiPoint": {"enabled": enabled}, "queueSort": sort}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {**_CLIENT, "kubeconfig": str(layout.kubeconfig_of("scheduler"))},
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }
    path = layout.run / f"{contender.name}-config.json"
    write_private(path, json.dumps(config, indent=1))
    return path


def _start(running: Running, name: str, argv: list[str], environment: dict[str, str]) -> None:
    with running.layout.log_file(running.log_name(name)).open("wb") as log:
        running.processes[name] = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,  # a Ctrl-C is for the benchmark, which then ends them in order
        )
    # The local cluster tells by this file whether a part was started.
    write_private(running.layout.pid_file(name), f"{running.processes[name].pid}\n")


def _wait_ready(running: Running, name: str) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT
    while (missing := components.not_ready(running.layout, name)) is not None:
        running.check_alive()
        if time.monotonic() > deadline:
            raise ClusterError(f"{running.contender.name}: its {name} is not ready ({missing})")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)  # it may be stopped, and would not hear the next signal
        process.terminate()
        try:
            process.wait(_STOP_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # whatever it started
