# SPDX-License-Identifier: Apache-2.0
"""Owns the core: gives it the time, wakes it when it asked to be, and passes on what it decided.

Everything here runs on one event loop and nothing awaits between reading the clock and having the decision, so each
event is atomic and the core needs no lock.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from muster.core import Core, Policy, events
from muster.core.decision import Admit, Allow, Decision, Effect, Hold, Mark, Reject, Verdict
from muster.core.model import GangKey, PodUid
from muster.core.reasons import Explanation, Why
from muster.core.view import GangView, view
from muster.server import metrics
from muster.server.words import Words

EXPLAIN_EVERY = 0.25  # seconds; with the core's SETTLED users are told within one
log = structlog.get_logger()


class Writer(Protocol):
    """Who writes what users must see. No call may block or raise."""

    def explain(self, explanations: Iterable[Explanation]) -> None: ...
    def mark(self, pods: Iterable[tuple[PodUid, str, str]]) -> None: ...
    def gangs(self, held: Iterable[tuple[GangKey, Why | None]], gone: Iterable[GangKey]) -> None: ...
    def lead(self, leading: bool) -> None: ...


class SteadyClock:
    """Wall time for people, but it never jumps: deadlines survive a correction of the system clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


class Engine:
    def __init__(self, policy: Policy, writer: Writer, clock: Callable[[], float] | None = None) -> None:
        self._core = Core(policy)
        self._writer = writer
        self._words = Words()
        self._clock = clock or SteadyClock()
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None  # what the timer is set to
        self._send: Callable[[Iterable[Effect]], None] | None = None
        self.scheduler_epoch = ""
        self.version = 0  # of the state; watchers compare

    # ---- events ---------------------------------------------------------------------------------------------

    def open(self, epoch: str, synchronize: events.Synchronize, send: Callable[[Iterable[Effect]], None]) -> None:
        """A scheduler is in session; `send` takes what is decided without having been asked for."""
        self.scheduler_epoch = epoch
        self._send = send
        send(self.handle(synchronize).effects)
        metrics.CONNECTED.set(1)
        gc.freeze()  # what was just built lives long: keep it out of every later collection

    def close(self) -> None:
        """The session ended. What was known stays to be looked at, until the next session replaces it."""
        self._send = None
        self._disarm()
        self._writer.lead(False)
        metrics.CONNECTED.set(0)

    def handle(self, event: events.Event) -> Decision:
        started = time.perf_counter()
        decision = self._core.handle(event, self._clock())
        metrics.handled(type(event).__name__, time.perf_counter() - started)
        if decision.effects or decision.verdict is not Verdict.NONE:  # else it is a fact from which nothing followed
            self._record(event, decision)
        for effect in decision.effects:
            if isinstance(effect, Mark):
                self._writer.mark(self._pods(effect.uids))
        if isinstance(event, events.Synchronize | events.NamespaceSeen | events.Capacity):
            self._words.touch_all()
        else:
            self._words.touch([decision.gang])
        self._arm()
        self.version += 1
        return decision

    def _pods(self, uids: Iterable[PodUid]) -> list[tuple[PodUid, str, str]]:
        pods = (self._core.pod(uid) for uid in uids)
        return [(pod.uid, pod.namespace, pod.name) for pod in pods if pod]

    def _arm(self) -> None:
        due = self._core.next_due() if self._send is not None else None
        if due == self._due:
            return
        self._disarm()
        if due is not None:
            delay = max(0.0, due - self._clock())
            self._due, self._timer = due, asyncio.get_running_loop().call_later(delay, self._tick)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._due = self._timer = None

    def _tick(self) -> None:
        self._disarm()  # it fired, perhaps a little early: then it must be set to the same instant once more
        decision = self.handle(events.Tick())
        if self._send is not None and decision.effects:
            self._send(decision.effects)

    # ---- what people see ------------------------------------------------------------------------------------

    async def explain_forever(self) -> None:
        """Tell the writer what owners have not been told, a few times a second."""
        while True:
            await asyncio.sleep(EXPLAIN_EVERY)
            metrics.GANGS.set(len(self._core.gangs))
            metrics.MEMBERS.set(sum(len(gang.members) for gang in self._core.gangs.values()))
            if self._send is not None:
                explanations = self._core.explanations(self._clock())
                self._writer.explain(explanations)
                self._words.touch(explanation.gang for explanation in explanations)
                changes = self._words.changes(self._core)
                self._writer.gangs(changes.held, changes.gone)
                self._writer.lead(True)

    def gangs(self, namespace: str = "") -> list[GangView]:
        now = self._clock()
        prefix = f"{namespace}/" if namespace else ""
        return [view(self._core, key, now) for key in sorted(self._core.gangs) if key.startswith(prefix)]

    def gang(self, key: GangKey) -> GangView | None:
        return view(self._core, key, self._clock()) if key in self._core.gangs else None

    def _record(self, event: events.Event, decision: Decision) -> None:
        kind = type(event).__name__
        effects = [_shown(effect) for effect in decision.effects]
        if decision.allow is not None:
            effects.append(_shown(decision.allow))
        for effect in effects:
            metrics.count_effect(effect[0])
        if decision.verdict is not Verdict.NONE:
            metrics.count_verdict(kind, decision.verdict.value)
        log.info(
            "decision",
            point=kind,
            gang=decision.gang,
            pod=getattr(event, "uid", None),
            verdict=decision.verdict.value,
            reason=decision.reason,
            effects=[f"{name} {count}" for name, count in effects],
        )


def _shown(effect: Effect) -> tuple[str, int]:
    match effect:
        case Admit(members=members):
            return "Admit", len(members)
        case Hold(uids=uids) | Allow(uids=uids) | Reject(uids=uids) | Mark(uids=uids):
            return type(effect).__name__, len(uids)
