# SPDX-License-Identifier: Apache-2.0
"""What gangs that can never run cost the others: the same stream of gangs with and without them in the queue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from bench import contenders, report
from bench.contenders import CONTENDERS, Running
from bench.driver import Plan, drive
from bench.gangs import Options, build_field, facts
from bench.lab import Lab
from bench.measure import STREAM, measure, plan_of, wait_for_calm, warm_up
from bench.stats import Sample, Shape, paired_ratio

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
                        wait_for_calm(options.patience)
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


def ratios(samples: Sequence[Sample], shape: str) -> dict[str, float]:
    """Crowded to alone, the median over the repeats."""
    alone = [sample for sample in samples if sample.shape == shape and sample.note == ALONE]
    crowded = [sample for sample in samples if sample.shape == shape and sample.note == CROWDED]
    return {
        "pods_per_second": paired_ratio(crowded, alone),
        "gang_p50": paired_ratio(crowded, alone, lambda sample: sample.gang_p50_ms),
        "cpu": paired_ratio(crowded, alone, lambda sample: sample.total_cpu_ms_per_pod),
    }


def _publish(options: Options, samples: Sequence[Sample], stuck: Shape) -> None:
    found = {str(shape): ratios(samples, str(shape)) for shape in options.shapes}
    for shape, ratio in found.items():
        options.say(
            f"{shape} beside {stuck} stuck pods: {report.number(ratio['pods_per_second'], 2)} of the speed, "
            f"{report.number(ratio['gang_p50'], 2)} times the median wait of a gang, "
            f"{report.number(ratio['cpu'], 2)} times the processor time"
        )
    for remark in report.remarks(samples, {}):
        options.say(remark)
    content = {
        "facts": facts(options) | {"stuck": str(stuck)},
        "ratios": found,
        "samples": [asdict(sample) for sample in samples],
    }
    report.save(options.out / "unschedulable.json", content)
