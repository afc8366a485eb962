# SPDX-License-Identifier: Apache-2.0
"""What gangs that can never run cost the others: the same stream of gangs with and without them in the queue."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace

from bench import contenders, report
from bench.contenders import CONTENDERS, Running
from bench.driver import Plan, drive
from bench.gangs import Options, build_field, facts
from bench.lab import NAMESPACE, Lab
from bench.measure import STREAM, measure, plan_of, warm_up
from bench.stats import Sample, Shape, middle

STUCK = Shape(200, 20)
SHORT_STUCK = Shape(20, 20)
# No node carries it: every member has its try, finds no node, and the gang backs off.
NOWHERE = {"bench.muster.dev/nowhere": "true"}
_SETTLE = 15.0  # seconds: past the first tries of all stuck gangs
ALONE, CROWDED = "alone", "beside stuck gangs"


def run(options: Options) -> None:
    """Muster only: what others do with gangs that do not fit is not comparable."""
    contender = next(known for known in CONTENDERS if known.name == "muster")
    not_run: dict[str, str] = {}
    build_field(replace(options, only=[contender.name]), not_run)
    stuck = SHORT_STUCK if options.short else STUCK
    samples: list[Sample] = []
    with Lab(options.dir, options.nodes, options.say) as lab:
        for repeat in range(options.repeats):
            for shape in options.shapes:
                for crowded in (False, True):
                    with contenders.run(contender, lab.layout) as running:
                        warm_up(lab, running)
                        if crowded:
                            _crowd(options, lab, running, stuck)
                        sample = measure(lab, running, shape, STREAM, repeat, options.timeout)
                        samples.append(replace(sample, note=CROWDED if crowded else ALONE))
                        options.say(_line(samples[-1]))
                    lab.clear(pod_groups=False)
    _publish(options, samples, stuck)


def _crowd(options: Options, lab: Lab, running: Running, stuck: Shape) -> None:
    options.say(f"creating {stuck} pods that fit nowhere")
    plan = plan_of(running, stuck, "stuck", options.timeout)
    drive(lab.layout.kubeconfig, Plan(**{**vars(plan), "node_selector": NOWHERE, "create_only": True}))
    time.sleep(_SETTLE)


def _line(sample: Sample) -> str:
    return (
        f"{sample.shape:>8} {sample.note:<18} {sample.pods_per_second:6.0f} pods/s  "
        f"gang p50 {sample.gang_p50_ms:6.0f} ms  p99 {sample.gang_p99_ms:6.0f} ms"
    )


def ratios(samples: list[Sample], shape: str) -> tuple[float, float]:
    """Crowded to alone, within each repeat: pods per second, and the median time of a gang."""
    alone = {sample.repeat: sample for sample in samples if sample.shape == shape and sample.note == ALONE}
    pairs = [
        (sample, alone[sample.repeat])
        for sample in samples
        if sample.shape == shape and sample.note == CROWDED and sample.complete and sample.repeat in alone
    ]
    if not pairs:
        return math.nan, math.nan
    speed = middle(crowded.pods_per_second / other.pods_per_second for crowded, other in pairs)
    return speed, middle(crowded.gang_p50_ms / max(1.0, other.gang_p50_ms) for crowded, other in pairs)


def _publish(options: Options, samples: list[Sample], stuck: Shape) -> None:
    found = {str(shape): ratios(samples, str(shape)) for shape in options.shapes}
    for shape, (speed, wait) in found.items():
        options.say(
            f"{shape} beside {stuck} stuck pods: {report.number(speed, 2)} of the speed, "
            f"{report.number(wait, 2)} times the median wait of a gang"
        )
    content = {
        "facts": facts(options) | {"namespace": NAMESPACE, "stuck": str(stuck)},
        "ratios": {shape: {"pods_per_second": speed, "gang_p50": wait} for shape, (speed, wait) in found.items()},
        "samples": [asdict(sample) for sample in samples],
    }
    report.save(options.out / "unschedulable.json", content)
