# SPDX-License-Identifier: Apache-2.0
"""The timer that wakes the core, and what is counted by hand."""

import asyncio
import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest

from muster.core import Policy, events
from muster.core.decision import Effect, Reject
from muster.core.model import PodUid
from muster.server import metrics
from muster.server.engine import Engine
from tests.builders import pod
from tests.server.harness import Notes


def engine_with_a_wait(slow: float = 1.0) -> tuple[Engine, list[Effect]]:
    """One member of a gang of two waits for a second, by a clock that runs at this speed."""
    began = time.monotonic()
    engine = Engine(Policy(), Notes(), clock=lambda: 1000 + (time.monotonic() - began) * slow)
    told: list[Effect] = []

    def send(effects: Iterable[Effect]) -> None:
        told.extend(effects)

    members = [pod(name, "train", 2, mode="NonStrict", waiting_time="1s") for name in ("p1", "p2")]
    engine.open("e", events.Synchronize(tuple(members)), send)
    engine.handle(events.Permit(members[0].uid, "n1", asked=False))
    return engine, told


def rejected(told: list[Effect]) -> list[PodUid]:
    return [uid for effect in told if isinstance(effect, Reject) for uid in effect.uids]


async def test_a_timer_that_fires_early_is_set_once_more() -> None:
    engine, told = engine_with_a_wait(slow=0.7)
    await asyncio.sleep(1.1)
    assert not rejected(told)
    await asyncio.sleep(0.6)
    assert len(rejected(told)) == 1
    engine.close()


async def test_events_that_change_no_instant_leave_the_timer_alone() -> None:
    engine, told = engine_with_a_wait()
    timer = engine._timer
    assert timer is not None
    for _ in range(3):
        engine.handle(events.Room())
        engine.handle(events.PodGone(PodUid("nobody")))
    assert engine._timer is timer
    engine.close()
    assert timer.cancelled()
    engine.handle(events.Room())  # nobody is in session: nothing is to be woken
    assert engine._timer is None and not rejected(told)


def test_events_are_counted_by_kind_and_time() -> None:
    handled = metrics._Handled()
    for seconds in (10e-6, 30e-6, 50e-6, 2.0):
        handled("PodSeen", seconds)
    handled("Room", 0.0)
    registry = CollectorRegistry()
    registry.register(handled)
    text = generate_latest(registry).decode()
    for line in (
        'muster_events_total{kind="PodSeen"} 4.0',
        'muster_events_total{kind="Room"} 1.0',
        'muster_handle_seconds_bucket{le="2e-05"} 2.0',
        'muster_handle_seconds_bucket{le="5e-05"} 4.0',
        'muster_handle_seconds_bucket{le="1.0"} 4.0',
        'muster_handle_seconds_bucket{le="+Inf"} 5.0',
        "muster_handle_seconds_count 5.0",
    ):
        assert line in text, text
