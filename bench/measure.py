# SPDX-License-Identifier: Apache-2.0
"""One measurement: a contender, a shape, a mode."""

from __future__ import annotations

import os
import signal
import time

from bench import proc, scrape
from bench.contenders import Running
from bench.driver import Findings, Plan, drive
from bench.lab import NAMESPACE, Lab
from bench.stats import MILLIS, Sample, Shape, percentile

STREAM, DRAIN = "stream", "drain"
_WARM_UP = Shape(4, 5)
_SETTLE, _MOST_SETTLES, _IDLE = 0.5, 30, 0.05  # seconds, times, share of a core
_CALM_SPAN = 0.5
_WORTH_A_RETRY = 10.0  # seconds of patience
# Load by others above this share of the machine makes a sample doubtful.
DISTURBED = 0.15
_QUIET = "quiet"
_CALLS = "muster_calls_total"
_ATTEMPTS = "scheduler_schedule_attempts_total"


class Meter:
    """What had been used when it was read last."""

    def __init__(self, lab: Lab, running: Running) -> None:
        self._lab, self._running = lab, running
        self.read()

    def read(self) -> None:
        self._at = time.monotonic()
        self._busy = proc.busy_seconds()
        self._cpu = self._now()
        self._metrics = scrape.scrape(self._lab.layout)

    def _now(self) -> dict[str, float]:
        return {**self._running.cpu(), "control plane": proc.cpu_seconds(self._lab.control_plane_pid)}

    def read_cpu(self) -> None:
        """Only the processor time: while the scheduler is stopped it tells no metrics."""
        self._at, self._busy, self._cpu = time.monotonic(), proc.busy_seconds(), self._now()

    def cpu(self, driver: float) -> tuple[dict[str, float], float]:
        """Seconds used since, by process, and the share of the machine that others used."""
        now = self._now()
        used = {name: now[name] - self._cpu.get(name, 0.0) for name in now} | {"driver": driver}
        others = proc.busy_seconds() - self._busy - sum(used.values())
        capacity = (time.monotonic() - self._at) * (os.cpu_count() or 1)
        return used, max(0.0, others / capacity)

    def counters(self) -> tuple[float, float, dict[str, float]]:
        """Round trips, messages without a reply, and attempts by result, since."""
        now = scrape.scrape(self._lab.layout)

        def since(name: str, label: str) -> dict[str, float]:
            before = scrape.by_label(self._metrics, name, label)
            return {key: value - before.get(key, 0.0) for key, value in scrape.by_label(now, name, label).items()}

        calls = since(_CALLS, "result")
        quiet = calls.pop(_QUIET, 0.0)
        return sum(calls.values()), quiet, since(_ATTEMPTS, "result")


def plan_of(running: Running, shape: Shape, prefix: str, timeout: float) -> Plan:
    contender = running.contender
    return Plan(
        NAMESPACE,
        contender.scheduler,
        prefix,
        shape.gangs,
        shape.size,
        contender.labels,
        contender.annotations,
        timeout_s=timeout,
    )


def warm_up(lab: Lab, running: Running) -> None:
    """Open connections and fill caches; proves that the contender works at all."""
    _pod_groups(lab, running, _WARM_UP, "warm")
    found = drive(lab.layout.kubeconfig, plan_of(running, _WARM_UP, "warm", 60))
    running.check_alive()
    if not found.timeline.complete:
        raise RuntimeError(f"{found.timeline.bound_pods} of {_WARM_UP.pods} pods were placed in the warm-up")
    lab.clear(running.contender.pod_groups)
    _settle(running)


def _settle(running: Running) -> None:
    """Wait until the contender is idle: what it does only once in its life is not the price of a pod."""
    for _ in range(_MOST_SETTLES):
        before = sum(running.cpu().values())
        time.sleep(_SETTLE)
        if sum(running.cpu().values()) - before <= _IDLE * _SETTLE:
            return


def wait_for_calm(patience: float) -> None:
    """Wait until other processes leave the machine alone, at most so many seconds. The contender is idle by now, so
    whatever is busy is somebody else."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = proc.busy_seconds()
        time.sleep(_CALM_SPAN)
        if proc.busy_seconds() - before <= DISTURBED * _CALM_SPAN * (os.cpu_count() or 1):
            return


def measure_calmly(
    lab: Lab, running: Running, shape: Shape, mode: str, repeat: int, timeout: float, patience: float
) -> Sample:
    """Run a sample; if others disturbed it and there is patience left, run it again and keep the calmer one."""
    wait_for_calm(patience)
    sample = measure(lab, running, shape, mode, repeat, timeout)
    if sample.foreign_cpu <= DISTURBED or not sample.complete or patience < _WORTH_A_RETRY:
        return sample
    wait_for_calm(patience)
    return min(sample, measure(lab, running, shape, mode, repeat, timeout), key=lambda each: each.foreign_cpu)


def measure(lab: Lab, running: Running, shape: Shape, mode: str, repeat: int, timeout: float) -> Sample:
    """Run one sample and remove its pods."""
    prefix = f"r{repeat}-{mode}"
    _pod_groups(lab, running, shape, prefix)
    meter = Meter(lab, running)
    plan = plan_of(running, shape, prefix, timeout)
    found = _drain(lab, running, plan, meter) if mode == DRAIN else drive(lab.layout.kubeconfig, plan)
    cpu, foreign = meter.cpu(0.0 if mode == DRAIN else found.cpu_seconds)
    running.check_alive()
    trips, messages, attempts = meter.counters()
    lab.clear(running.contender.pod_groups)
    _settle(running)
    return _sample(running, shape, mode, repeat, found, cpu, foreign, trips, messages, attempts)


def _drain(lab: Lab, running: Running, plan: Plan, meter: Meter) -> Findings:
    os.kill(running.scheduler_pid, signal.SIGSTOP)
    try:
        resumable = Plan(**{**vars(plan), "resume_pid": running.scheduler_pid})
        return drive(lab.layout.kubeconfig, resumable, meter.read_cpu)
    finally:
        os.kill(running.scheduler_pid, signal.SIGCONT)


def _pod_groups(lab: Lab, running: Running, shape: Shape, prefix: str) -> None:
    if running.contender.pod_groups:
        lab.create_pod_groups((f"{prefix}-g{index}" for index in range(shape.gangs)), shape.size)


def _sample(
    running: Running,
    shape: Shape,
    mode: str,
    repeat: int,
    found: Findings,
    cpu: dict[str, float],
    foreign: float,
    trips: float,
    messages: float,
    attempts: dict[str, float],
) -> Sample:
    gangs = found.timeline.gang_seconds()
    server = running.contender.has_server
    return Sample(
        contender=running.contender.name,
        shape=str(shape),
        mode=mode,
        repeat=repeat,
        pods=shape.pods,
        gangs=shape.gangs,
        bound=found.timeline.bound_pods,
        seconds=found.timeline.seconds,
        create_seconds=found.create_seconds,
        gang_p50_ms=MILLIS * percentile(gangs, 0.50),
        gang_p99_ms=MILLIS * percentile(gangs, 0.99),
        cpu_seconds=cpu,
        round_trips=trips if server else None,
        messages=messages if server else None,
        attempts=attempts,
        foreign_cpu=foreign,
    )
