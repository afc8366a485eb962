# SPDX-License-Identifier: Apache-2.0
"""The main scenario: all contenders, all shapes, taking turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import build, contenders, plot, proc, report
from bench.contenders import CONTENDERS, Contender
from bench.lab import Lab, module_dir, pod_group_crd
from bench.measure import DISTURBED, measure_calmly, warm_up
from bench.stats import Sample, Shape
from localcluster import ClusterError


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    shapes: Sequence[Shape]
    repeats: int
    nodes: int
    modes: Sequence[str]
    only: Sequence[str]
    timeout: float
    out: Path
    dir: Path
    say: Callable[[str], None]
    short: bool = False
    patience: float = 0.0  # seconds to wait for a calm machine


def run(options: Options) -> None:
    samples: list[Sample] = []
    not_run: dict[str, str] = {}
    field = build_field(options, not_run)
    try:
        with Lab(options.dir, options.nodes, options.say) as lab:
            if any(contender.pod_groups for contender in field):
                lab.allow_pod_groups(pod_group_crd(module_dir()))
            for repeat, shape, contender in turns(field, options.shapes, options.repeats):
                _turn(options, lab, contender, shape, repeat, samples, not_run)
    finally:  # also what an interrupted run has found is worth reading
        if samples:
            _publish(options, samples, not_run)


def turns(field: Sequence[Contender], shapes: Sequence[Shape], repeats: int) -> Iterator[tuple[int, Shape, Contender]]:
    """Who runs when. The contenders of a shape run one after the other, another one first in each repeat."""
    for repeat in range(repeats):
        first = repeat % max(1, len(field))
        for shape in shapes:
            for contender in (*field[first:], *field[:first]):
                yield repeat, shape, contender


def build_field(options: Options, not_run: dict[str, str]) -> list[Contender]:
    """Build everything; leave out what cannot be built, and say so."""
    known = {contender.name: contender for contender in CONTENDERS}
    if unknown := sorted(set(options.only) - known.keys()):
        raise ClusterError(f"unknown contender {', '.join(unknown)!r}; there are {', '.join(known)}")
    options.say("building; the first time takes minutes")
    if why := build.build(build.DRIVER):
        raise ClusterError(f"the driver cannot be built: {why}")
    field = []
    for contender in CONTENDERS:
        if options.only and contender.name not in options.only:
            continue
        why = build.build(contender.program) if contender.program else None
        if why:
            not_run[contender.name] = f"cannot be built: {why}"
            options.say(f"{contender.name} cannot be built and is left out:\n{why}")
        else:
            field.append(contender)
    return field


def _turn(
    options: Options,
    lab: Lab,
    contender: Contender,
    shape: Shape,
    repeat: int,
    samples: list[Sample],
    not_run: dict[str, str],
) -> None:
    try:
        with contenders.run(contender, lab.layout) as running:
            warm_up(lab, running)
            for mode in options.modes:
                sample = measure_calmly(lab, running, shape, mode, repeat, options.timeout, options.patience)
                samples.append(sample)
                options.say(_line(options, sample))
    except (ClusterError, RuntimeError) as error:
        not_run[f"{contender.name} {shape}, repeat {repeat}"] = str(error)
        options.say(f"{contender.name} {shape}: {error}")
    finally:
        lab.clear(contender.pod_groups)


def _line(options: Options, sample: Sample) -> str:
    trips = "" if sample.round_trips is None else f"  {sample.round_trips / sample.gangs:.2f} calls/gang"
    missing = "" if sample.complete else f"  only {sample.bound} of {sample.pods} placed"
    others = f"  others used {sample.foreign_cpu:.0%}" if sample.foreign_cpu > DISTURBED else ""
    return (
        f"{sample.repeat + 1}/{options.repeats}  {sample.shape:>8} {sample.mode:<6} {sample.contender:<12} "
        f"{sample.pods_per_second:6.0f} pods/s  gang p50 {sample.gang_p50_ms:6.0f} ms  "
        f"p99 {sample.gang_p99_ms:6.0f} ms{trips}{missing}{others}"
    )


def facts(options: Options) -> dict[str, Any]:
    coscheduling = module_dir()
    return {
        **proc.machine(),
        "go": build.go_version(),
        "commit": build.commit(),
        "kubernetes": build.module_version(build.STOCK.module, "k8s.io/kubernetes"),
        "coscheduling": build.module_version(coscheduling, "sigs.k8s.io/scheduler-plugins"),
        "coscheduling_kubernetes": build.module_version(coscheduling, "k8s.io/kubernetes"),
        "nodes": options.nodes,
        "repeats": options.repeats,
        "short": options.short,
    }


def _publish(options: Options, samples: Sequence[Sample], not_run: dict[str, str]) -> None:
    options.say("done\n\n" + report.table(samples) + "\n")
    for remark in report.remarks(samples, not_run):
        options.say(remark)
    report.save(options.out / "latest.json", report.document(facts(options), samples, not_run))
    if why := plot.plot(options.out / "latest.png", samples):
        options.say(why)
