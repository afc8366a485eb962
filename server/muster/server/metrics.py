# SPDX-License-Identifier: Apache-2.0
"""What is counted. Children are looked up once, at import: a labels() call costs more than the increment."""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry()

_VERDICTS = Counter("muster_verdicts", "Verdicts given to calls.", ["point", "verdict"], registry=REGISTRY)
_EFFECTS = Counter("muster_effects", "Effects decided, by kind.", ["kind"], registry=REGISTRY)
SESSIONS = Counter("muster_sessions", "Scheduler sessions that were opened.", registry=REGISTRY)
CONNECTED = Gauge("muster_scheduler_connected", "1 while a synchronized scheduler is in session.", registry=REGISTRY)
GANGS = Gauge("muster_gangs", "Gangs known.", registry=REGISTRY)
MEMBERS = Gauge("muster_members", "Pods with a gang known.", registry=REGISTRY)

_BOUNDS = (20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3, 20e-3, 0.1, 1.0)


class _Handled(Collector):
    """What is counted at every event, by hand: with the library's locks it cost a tenth of what the core takes. Only
    the event loop counts; a scrape, from its own thread, may see one event in some of the numbers and not in others."""

    def __init__(self) -> None:
        self._kinds: dict[str, int] = {}
        self._took = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0

    def __call__(self, kind: str, seconds: float) -> None:
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self._took[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterator[Metric]:
        events = CounterMetricFamily("muster_events", "Events the core handled, by kind.", labels=["kind"])
        for kind, count in list(self._kinds.items()):
            events.add_metric([kind], count)
        yield events
        took = HistogramMetricFamily("muster_handle_seconds", "Time the core took for one event.")
        total, buckets = 0, []
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._took, strict=True):
            total += count
            buckets.append((bound, total))
        took.add_metric([], buckets, self._seconds)
        yield took


handled = _Handled()
REGISTRY.register(handled)

_children: dict[tuple[str, ...], Counter] = {}


def count_verdict(point: str, verdict: str) -> None:
    _child(_VERDICTS, "verdict", point, verdict).inc()


def count_effect(kind: str) -> None:
    _child(_EFFECTS, "effect", kind).inc()


def _child(counter: Counter, *labels: str) -> Counter:
    child = _children.get(labels)
    if child is None:
        child = _children[labels] = counter.labels(*labels[1:])
    return child
