# SPDX-License-Identifier: Apache-2.0
"""What is counted. Children are looked up once, at import: a labels() call costs more than the increment."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

_EVENTS = Counter("muster_events", "Events the core handled, by kind.", ["kind"], registry=REGISTRY)
_VERDICTS = Counter("muster_verdicts", "Verdicts given to calls.", ["point", "verdict"], registry=REGISTRY)
_EFFECTS = Counter("muster_effects", "Effects decided, by kind.", ["kind"], registry=REGISTRY)
HANDLE_SECONDS = Histogram(
    "muster_handle_seconds",
    "Time the core took for one event.",
    buckets=(20e-6, 50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 5e-3, 20e-3, 0.1, 1.0),
    registry=REGISTRY,
)
SESSIONS = Counter("muster_sessions", "Scheduler sessions that were opened.", registry=REGISTRY)
CONNECTED = Gauge("muster_scheduler_connected", "1 while a synchronized scheduler is in session.", registry=REGISTRY)
GANGS = Gauge("muster_gangs", "Gangs known.", registry=REGISTRY)
MEMBERS = Gauge("muster_members", "Pods with a gang known.", registry=REGISTRY)

_children: dict[tuple[str, ...], Counter] = {}


def count_event(kind: str) -> None:
    _child(_EVENTS, "event", kind).inc()


def count_verdict(point: str, verdict: str) -> None:
    _child(_VERDICTS, "verdict", point, verdict).inc()


def count_effect(kind: str) -> None:
    _child(_EFFECTS, "effect", kind).inc()


def _child(counter: Counter, *labels: str) -> Counter:
    child = _children.get(labels)
    if child is None:
        child = _children[labels] = counter.labels(*labels[1:])
    return child
