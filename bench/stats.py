# SPDX-License-Identifier: Apache-2.0
"""From samples to the numbers of the table. Pure: no clock, no cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

NANOS = 1e9
MILLIS = 1e3


@dataclass(frozen=True, order=True)
class Shape:
    """So many gangs of so many pods."""

    gangs: int
    size: int

    @property
    def pods(self) -> int:
        return self.gangs * self.size

    def __str__(self) -> str:
        return f"{self.gangs}x{self.size}"

    @staticmethod
    def parse(text: str) -> Shape:
        gangs, _, size = text.strip().partition("x")
        if not (gangs.isdecimal() and size.isdecimal() and int(gangs) and int(size)):
            raise ValueError(f"{text!r} is not a shape such as 100x20 (gangs x pods of a gang)")
        return Shape(int(gangs), int(size))


@dataclass(frozen=True)
class Timeline:
    """When each pod was sent to the API server and seen bound, in nanoseconds; pod i is of gang i // size.

    `resumed` is when the scheduler was let loose on a backlog, -1 if it ran all the time. A pod that was never bound
    has bound -1.
    """

    size: int
    sent: Sequence[int]
    bound: Sequence[int]
    resumed: int = -1

    @property
    def began(self) -> int:
        return self.resumed if self.resumed >= 0 else min(self.sent)

    @property
    def seconds(self) -> float:
        """From the first create, or from the resume, to the last bind."""
        return (max(self.bound) - self.began) / NANOS

    @property
    def bound_pods(self) -> int:
        return sum(at >= 0 for at in self.bound)

    @property
    def complete(self) -> bool:
        return self.bound_pods == len(self.bound)

    def gang_seconds(self) -> list[float]:
        """For each whole gang: from its last create, or the resume, to its last bind."""
        found = []
        for first in range(0, len(self.sent), self.size):
            bound = self.bound[first : first + self.size]
            if min(bound) >= 0:
                since = max(max(self.sent[first : first + self.size]), self.resumed)
                found.append(max(0, max(bound) - since) / NANOS)
        return found


@dataclass(frozen=True)
class Sample:
    """One run of one contender."""

    contender: str
    shape: str
    mode: str  # stream: created while the scheduler runs; drain: a backlog
    repeat: int
    pods: int
    gangs: int
    bound: int
    seconds: float
    create_seconds: float
    gang_p50_ms: float
    gang_p99_ms: float
    cpu_seconds: dict[str, float]  # by process
    round_trips: float | None  # None where there is no server
    messages: float | None  # that waited for no reply
    attempts: dict[str, float] = field(default_factory=dict)  # of the scheduler, by result
    foreign_cpu: float = 0.0  # share of the machine that was used by processes that are not part of this
    note: str = ""

    @property
    def complete(self) -> bool:
        return self.bound == self.pods

    @property
    def pods_per_second(self) -> float:
        return self.bound / self.seconds if self.seconds > 0 else 0.0

    def cpu_ms_per_pod(self, process: str) -> float:
        return MILLIS * self.cpu_seconds.get(process, 0.0) / max(1, self.bound)

    @property
    def total_cpu_ms_per_pod(self) -> float:
        """Of all processes. Where the processor is the bottleneck this decides the speed, and other load on the
        machine disturbs it far less than it disturbs the clock."""
        return MILLIS * sum(self.cpu_seconds.values()) / max(1, self.bound)


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest rank: a value that was measured, and the largest one when there are few."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def middle(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else math.nan


def paired_ratio(
    ours: Sequence[Sample],
    theirs: Sequence[Sample],
    of: Callable[[Sample], float] = lambda sample: sample.pods_per_second,
) -> float:
    """The median over the repeats of ours / theirs, in pods per second if nothing else is said.

    Within a repeat, for the two ran one after the other: what else happens on the machine changes from minute to
    minute and disturbs both alike. A run that did not place all its pods has no speed to compare.
    """
    by_repeat = {sample.repeat: sample for sample in theirs if sample.complete and sample.seconds > 0}
    return middle(
        of(sample) / of(by_repeat[sample.repeat])
        for sample in ours
        if sample.complete and sample.repeat in by_repeat and of(by_repeat[sample.repeat])
    )


@dataclass(frozen=True)
class Row:
    """A line of the table: one contender, shape and mode over all repeats. NaN is what is not known."""

    shape: str
    mode: str
    contender: str
    samples: int
    pods_per_second: float
    spread: float  # (max - min) / median of the pods per second
    to_stock: float
    to_coscheduling: float
    gang_p50_ms: float
    gang_p99_ms: float
    total_cpu_ms: float
    cpu_to_stock: float
    cpu_ms: dict[str, float]
    round_trips_per_gang: float
    unplaced: int  # pods, over all repeats


def rows(samples: Sequence[Sample], processes: Sequence[str]) -> list[Row]:
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.shape, sample.mode, sample.contender), []).append(sample)
    return [_row(key, groups, processes) for key in groups]


def _row(key: tuple[str, str, str], groups: dict[tuple[str, str, str], list[Sample]], processes: Sequence[str]) -> Row:
    shape, mode, contender = key
    mine = groups[key]
    speeds = [sample.pods_per_second for sample in mine]
    speed = middle(speeds)
    trips = [sample.round_trips / sample.gangs for sample in mine if sample.round_trips is not None]
    return Row(
        shape,
        mode,
        contender,
        len(mine),
        speed,
        (max(speeds) - min(speeds)) / speed if speed else math.nan,
        paired_ratio(mine, groups.get((shape, mode, "stock"), [])),
        paired_ratio(mine, groups.get((shape, mode, "coscheduling"), [])),
        middle(sample.gang_p50_ms for sample in mine),
        middle(sample.gang_p99_ms for sample in mine),
        middle(sample.total_cpu_ms_per_pod for sample in mine),
        paired_ratio(mine, groups.get((shape, mode, "stock"), []), lambda sample: sample.total_cpu_ms_per_pod),
        {process: middle(sample.cpu_ms_per_pod(process) for sample in mine) for process in processes},
        middle(trips),
        sum(sample.pods - sample.bound for sample in mine),
    )
