# SPDX-License-Identifier: Apache-2.0
"""What comes out: a table for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.contenders import PROCESSES
from bench.measure import DISTURBED
from bench.stats import Row, Sample, rows

_HEAD = (
    "shape",
    "mode",
    "contender",
    "pods/s",
    "±%",
    "/stock",
    "/cosched",
    "gang p50 ms",
    "p99 ms",
    "calls/gang",
    "CPU ms/pod",
    "/stock",
    *PROCESSES,
)
_LEFT = 3  # the first columns are words


def table(samples: Sequence[Sample]) -> str:
    """Medians over the repeats. The first ratios are of pods per second, above 1 is faster; the last is of the
    processor time of all processes, above 1 is dearer. The columns behind it say which process used it."""
    lines = [list(_HEAD), *(_cells(row) for row in rows(samples, PROCESSES))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    printed = [
        "  ".join(
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([printed[0], "-" * len(printed[0]), *printed[1:]])


def _cells(row: Row) -> list[str]:
    name = row.contender + (f" ({row.unplaced} pods not placed)" if row.unplaced else "")
    return [
        row.shape,
        row.mode,
        name,
        number(row.pods_per_second, 0),
        number(100 * row.spread, 0) if row.samples > 1 else "-",
        number(row.to_stock, 2),
        number(row.to_coscheduling, 2),
        number(row.gang_p50_ms, 0),
        number(row.gang_p99_ms, 0),
        number(row.round_trips_per_gang, 2),
        number(row.total_cpu_ms, 2),
        number(row.cpu_to_stock, 2),
        *(number(row.cpu_ms[process] or math.nan, 2) for process in PROCESSES),
    ]


def number(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def remarks(samples: Sequence[Sample], not_run: Mapping[str, str]) -> list[str]:
    """What a reader must know before trusting the table."""
    said = [f"not run: {name}: {why}" for name, why in not_run.items()]
    said += [
        f"{sample.contender} {sample.shape} {sample.mode}, repeat {sample.repeat}: placed {sample.bound} of "
        f"{sample.pods} pods before the time limit"
        for sample in samples
        if not sample.complete
    ]
    disturbed = [sample for sample in samples if sample.foreign_cpu > DISTURBED]
    if disturbed:
        worst = max(sample.foreign_cpu for sample in disturbed)
        said.append(
            f"{len(disturbed)} of {len(samples)} samples ran while other processes used more than "
            f"{DISTURBED:.0%} of the machine (at most {worst:.0%}); ratios suffer less than speeds"
        )
    return said


def document(facts: Mapping[str, Any], samples: Sequence[Sample], not_run: Mapping[str, str]) -> dict[str, Any]:
    return {
        "facts": dict(facts),
        "not_run": dict(not_run),
        "rows": [asdict(row) for row in rows(samples, PROCESSES)],
        "samples": [{**asdict(sample), "pods_per_second": sample.pods_per_second} for sample in samples],
    }


def save(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_known(content), indent=1, ensure_ascii=False) + "\n")


def _known(value: Any) -> Any:
    """JSON has no NaN: what is not known is null. Digits beyond what was measured only make diffs."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return value
