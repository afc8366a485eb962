# SPDX-License-Identifier: Apache-2.0
"""How the core scales with what it remembers: no cluster, one process for each size so that memory can be told.

python -m bench.cache 100000      measure one size and print JSON; the scenario does this for each size
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bench import proc, report
from bench.gangs import Options, facts
from bench.stats import percentile
from localcluster import ClusterError
from localcluster.layout import REPO
from muster.core import Core, events
from muster.core.model import Pod, PodUid

SIZES = (1_000, 10_000, 100_000)
GANG = 20
_MEASURED_GANGS = 200
_LIMIT_BYTES = 600 * 10**6  # the promise: 100,000 pods in less than this
_MICROS = 1e6


@dataclass(frozen=True)
class Result:
    pods: int
    rss_bytes: int
    bytes_per_pod: float
    mean_us: float  # an event, with this many pods known
    p50_us: float
    p99_us: float
    events: int


def run(options: Options) -> None:
    results = []
    for size in SIZES[:2] if options.short else SIZES:
        results.append(_apart(size))
        found = results[-1]
        options.say(
            f"{found.pods:>7} pods: {found.mean_us:6.1f} µs an event (p50 {found.p50_us:.1f}, p99 {found.p99_us:.1f}), "
            f"{found.bytes_per_pod:,.0f} bytes a pod, {found.rss_bytes / 10**6:,.0f} MB in all"
        )
    options.say(
        f"an event at {results[-1].pods} pods takes {results[-1].p50_us / results[0].p50_us:.2f} times as long "
        f"as at {results[0].pods} (p50)"
    )
    if results[-1].rss_bytes > _LIMIT_BYTES:
        options.say(f"over the promise of {_LIMIT_BYTES // 10**6} MB")
    report.save(options.out / "cache.json", {"facts": facts(options), "results": [asdict(each) for each in results]})


def _apart(size: int) -> Result:
    """Measure in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO / "server"), str(REPO)])}
    done = subprocess.run(
        [sys.executable, "-m", "bench.cache", str(size)],
        cwd=REPO,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"the core with {size} pods: {done.stderr.strip()}")
    return Result(**json.loads(done.stdout))


def measure(pods: int) -> Result:
    core = Core()
    base = proc.rss_bytes(os.getpid())
    clock = [0.0]

    def live(first: int, count: int, times: list[float] | None) -> None:
        for index in range(first, first + count):
            _live(core, index, clock, times)

    live(0, pods // GANG, None)
    core.explanations(10.0)
    gc.collect()
    rss = proc.rss_bytes(os.getpid())
    gc.freeze()  # as the server does with what it built at the start
    times: list[float] = []
    live(pods // GANG, _MEASURED_GANGS, times)
    mean = sum(times) / len(times)
    return Result(
        pods,
        rss,
        (rss - base) / pods,
        mean * _MICROS,
        percentile(times, 0.50) * _MICROS,
        percentile(times, 0.99) * _MICROS,
        len(times),
    )


def _live(core: Core, index: int, clock: list[float], times: list[float] | None) -> None:
    """Let a gang come, be placed and run: all that an ordinary life sends."""
    for step in _steps(index):
        clock[0] += 0.001
        # Processor time: what else runs on the machine is not the core's doing.
        began = time.thread_time()
        decision = core.handle(step, clock[0])
        if times is not None:
            times.append(time.thread_time() - began)
        if decision.allow is not None:
            core.handle(events.CommitReport(decision.allow.commit), clock[0])


def _steps(index: int) -> Iterator[events.Event]:
    # Every string anew, as they come from the wire.
    pods = [
        Pod(
            uid=PodUid(f"0b5f2c1e-{index:08d}-4a4e-9d9a-{member:012d}"),
            namespace="".join(["be", "nch"]),
            name=f"job-{index}-worker-{member}",
            created_ns=index * 10**9,
            annotations={
                "".join(["gang.scheduling.koordinator.sh", "/name"]): f"job-{index}",
                "".join(["gang.scheduling.koordinator.sh", "/min-available"]): str(GANG),
            },
        )
        for member in range(GANG)
    ]
    yield from (events.PodSeen(pod) for pod in pods)
    yield from (events.Permit(pod.uid, f"node-{index % 997}", pod is pods[-1]) for pod in pods)
    yield from (events.PodSeen(replace(pod, node=f"node-{index % 997}")) for pod in pods)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))
