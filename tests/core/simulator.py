# SPDX-License-Identifier: Apache-2.0
"""A small scheduler with its stub plugin: a pool of equal slots, a queue, pods that wait at Permit.

It keeps the contract as the Go side does (tries, quiet permits, two-step commits, calls that are given up, a session
that can be lost), so that any history of the world can be played against the core. It knows nothing of gangs beyond
what the core tells it. Both directions are queues, as the stream is: with `lag` a message arrives when the history
says so, without it at once.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum

from muster.core import Core, events
from muster.core.decision import Admit, Allow, Decision, Effect, Hold, Mark, Reject, Verdict
from muster.core.model import GangKey, GangObject, Phase, Pod, PodUid, SortKey
from muster.core.spec import TIMEOUT
from tests.core.judge import Judge


class At(Enum):
    QUEUE = 0  # not placed
    WAITING = 1
    BINDING = 2
    BOUND = 3
    LEAVING = 4  # its wait was ended; the framework has not called Unreserve yet


@dataclass
class Entry:
    """A pod in the simulated scheduler."""

    pod: Pod
    at: At = At.QUEUE
    admitted: bool = False
    tries: int = 0
    free: bool = False
    group: str = ""
    key: SortKey | None = None
    since: float = 0.0


@dataclass
class Reply:
    call: events.Event
    decision: Decision


@dataclass
class Simulator:
    slots: int
    core: Core = field(default_factory=Core)
    lag: bool = False
    now: float = 0.0
    entries: dict[PodUid, Entry] = field(default_factory=dict)
    objects: dict[GangKey, GangObject] = field(default_factory=dict)
    plain: int = 0  # slots taken by pods that are no gang's
    server_restarts: int = 0
    quiet: dict[str, int] = field(default_factory=dict)
    asking: events.Event | None = None  # the call that the scheduling loop waits for
    up: deque[events.Event] = field(default_factory=deque)
    down: deque[Effect | Reply] = field(default_factory=deque)
    _flushing: bool = False

    def __post_init__(self) -> None:
        self.judge = Judge(self.core)

    @property
    def room(self) -> int:
        return self.slots - self.plain - sum(entry.at is not At.QUEUE for entry in self.entries.values())

    # ---- the stream ---------------------------------------------------------------------------------------

    def tell(self, event: events.Event) -> None:
        self.up.append(event)
        if not self.lag:
            self.flush()

    def flush(self) -> None:
        """Let everything arrive that is on its way."""
        if self._flushing:
            return
        self._flushing = True
        while self.up or self.down:
            self.arrive_down() if self.down else self.arrive_up()
        self._flushing = False

    def arrive_up(self) -> None:
        if self.up:
            event = self.up.popleft()
            decision = self.judge.handle(event, self.now)
            self.down.extend(decision.effects)
            if decision.verdict is not Verdict.NONE:
                self.down.append(Reply(event, decision))

    def arrive_down(self) -> None:
        if self.down:
            match self.down.popleft():
                case Reply(call, decision):
                    self._answered(call, decision)
                case effect:
                    self._apply(effect)

    def _ask(self, call: events.Event) -> None:
        self.asking = call
        self.tell(call)

    def give_up_call(self) -> None:
        """The scheduling loop waits no longer for its answer."""
        call, self.asking = self.asking, None
        match call:
            case events.Permit(uid):
                entry = self.entries.get(uid)
                if entry and entry.at is At.WAITING:
                    entry.at = At.QUEUE
                    self.tell(events.Unreserve(uid))
            case events.PreFilter(uid):
                self.tell(events.PostFilter(uid, "no answer"))

    def _answered(self, call: events.Event, decision: Decision) -> None:
        if call is not self.asking:
            # Late: only a Permit that passed ordered anything, and its pod is not there any more.
            if isinstance(call, events.Permit) and decision.allow is not None:
                self._abort(decision.allow, (call.uid,))
            return
        self.asking = None
        match call:
            case events.Permit(uid):
                self._permit_answered(uid, decision)
            case events.PreFilter(uid) if decision.verdict is Verdict.PASS and uid in self.entries:
                self._place(uid, self.entries[uid])
            case events.PostFilter(uid) if decision.verdict is Verdict.PASS and self.plain and uid in self.entries:
                self.plain -= 1  # it evicts a plain pod
                self._change(uid, nominated="n1")

    def _permit_answered(self, uid: PodUid, decision: Decision) -> None:
        entry = self.entries.get(uid)
        if decision.verdict is Verdict.PASS and decision.allow is not None:
            self._commit(Allow(decision.allow.commit, (*decision.allow.uids, uid)))
        elif decision.verdict is Verdict.PASS and entry and entry.at is At.WAITING:
            entry.at = At.BINDING
        elif decision.verdict is Verdict.REFUSE and entry and entry.at is At.WAITING:
            entry.at = At.QUEUE
            self.tell(events.Unreserve(uid))

    # ---- what the world does ------------------------------------------------------------------------------

    def create(self, pod: Pod) -> None:
        self.entries[pod.uid] = Entry(pod)
        self.tell(events.PodSeen(pod))

    def change(self, pod: Pod) -> None:
        self.entries[pod.uid].pod = pod
        self.tell(events.PodSeen(pod))

    def _change(self, uid: PodUid, **fields: str) -> None:
        self.change(replace(self.entries[uid].pod, **fields))  # type: ignore[arg-type]

    def delete(self, uid: PodUid, unreserve_first: bool = True) -> None:
        entry = self.entries.pop(uid)
        if unreserve_first and entry.at in (At.WAITING, At.LEAVING):
            self.tell(events.Unreserve(uid))
        self.tell(events.PodGone(uid))
        if not unreserve_first and entry.at in (At.WAITING, At.LEAVING):
            self.tell(events.Unreserve(uid))
        if entry.at is At.BOUND:
            self.tell(events.Room())

    def declare(self, declared: GangObject) -> None:
        self.objects[declared.key] = declared
        self.tell(events.ObjectSeen(declared))

    def undeclare(self, key: GangKey) -> None:
        gone = self.objects.pop(key)
        self.tell(events.ObjectGone(gone.source, gone.namespace, gone.name, gone.uid))

    def take_slot(self) -> None:
        if self.room > 0:
            self.plain += 1

    def free_slot(self) -> None:
        if self.plain:
            self.plain -= 1
            self.tell(events.Room())

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        opening = any(isinstance(event, events.Synchronize) for event in self.up)  # until then nothing is decided
        while not opening and (due := self.core.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.down.extend(self.judge.handle(events.Tick(), self.now).effects)
            if not self.lag:
                self.flush()
        self.now = end

    def end_wait(self, uid: PodUid) -> None:
        """The framework ends a wait by itself (a timer, a preemption), or carries out that it was ended."""
        self.entries[uid].at = At.QUEUE
        self.tell(events.Unreserve(uid))

    def finish_bind(self, uid: PodUid) -> None:
        self.entries[uid].at = At.BOUND
        self._change(uid, node="n1")

    def fail_bind(self, uid: PodUid) -> None:
        self.entries[uid].at = At.QUEUE
        self.tell(events.Unreserve(uid))

    def restart_server(self) -> None:
        self.server_restarts += 1
        self.core = Core(self.core._policy)
        self.judge = Judge(self.core)
        self._synchronize()

    def restart_scheduler(self) -> None:
        self.asking = None
        for entry in self.entries.values():
            entry.key = None
            if entry.at is not At.BOUND:
                entry.at = At.QUEUE
        self._synchronize()

    def _synchronize(self) -> None:
        self.up.clear()
        self.down.clear()
        self.quiet.clear()
        for entry in self.entries.values():
            entry.admitted, entry.free, entry.tries = False, False, 0
        standing = {At.WAITING: Phase.WAITING, At.BINDING: Phase.BINDING}
        pods = tuple(
            replace(e.pod, standing=standing.get(e.at, Phase.PENDING), waited=self.now - e.since)
            for e in self.entries.values()
        )
        self.tell(events.Synchronize(pods, tuple(self.objects.values())))
        if self.asking is not None:
            self.give_up_call()  # its answer will never come

    # ---- one scheduling cycle -----------------------------------------------------------------------------

    def queued(self) -> list[PodUid]:
        """In the order of their keys; those with a spent try lie in the unschedulable pool until they are woken."""
        ready = [
            (e.key, uid)
            for uid, e in self.entries.items()
            if e.at is At.QUEUE and e.admitted and e.key and (e.free or e.tries) and not (e.pod.gated or e.pod.deleting)
        ]
        ready.sort(key=lambda item: (-item[0].priority, item[0].created_ns, item[0].gang, item[0].index))
        return [uid for _, uid in ready]

    def schedule_one(self) -> bool:
        """Pop the first pod and take it as far as it gets. False: the queue is empty, or the loop waits."""
        queued = self.queued() if self.asking is None else []
        if queued:
            self.attempt(queued[0])
        return bool(queued)

    def attempt(self, uid: PodUid) -> None:
        self.entries[uid].tries = 0
        self._place(uid, self.entries[uid])

    def _place(self, uid: PodUid, entry: Entry) -> None:
        if self.room <= 0:
            failed = events.PostFilter(uid, "no slot")
            self.tell(failed) if entry.free else self._ask(failed)
            return
        entry.since = self.now
        if not entry.admitted:  # held since it was popped
            self.tell(events.Unreserve(uid))
        elif entry.free:
            entry.at = At.BINDING
            self.tell(events.Permit(uid, "n1", asked=False, went=True))
        elif self.quiet.get(entry.group, 0) > 0:
            self.quiet[entry.group] -= 1
            entry.at = At.WAITING
            self.tell(events.Permit(uid, "n1", asked=False))
        else:
            entry.at = At.WAITING
            self._ask(events.Permit(uid, "n1", asked=True))

    def comes_back(self, uid: PodUid) -> None:
        """A pod with a spent try is popped again: it asks at PreFilter."""
        entry = self.entries[uid]
        if self.asking is None and entry.admitted and not entry.free and not entry.tries:
            self._ask(events.PreFilter(uid))

    # ---- directives ---------------------------------------------------------------------------------------

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Admit():
                self._admit(effect)
            case Hold():
                for uid in effect.uids:
                    if entry := self.entries.get(uid):
                        entry.admitted = entry.free = False
            case Allow():
                self._commit(effect)
            case Reject():
                for uid in effect.uids:
                    self._reject(uid)
            case Mark():
                for uid in effect.uids:
                    if entry := self.entries.get(uid):
                        self.change(replace(entry.pod, annotations={**entry.pod.annotations, TIMEOUT: "true"}))

    def _admit(self, admit: Admit) -> None:
        self.quiet[admit.group] = admit.quiet_permits
        for uid, key in admit.members:
            if entry := self.entries.get(uid):
                # A new server may count anew; the scheduler keeps the key under which the pod is queued.
                assert entry.key in (None, key) or self.server_restarts, "a sort key changed"
                entry.admitted, entry.tries, entry.free = True, 1, admit.free
                entry.group, entry.key = admit.group, entry.key or key

    def _reject(self, uid: PodUid) -> None:
        entry = self.entries.get(uid)
        if entry and entry.at is At.WAITING:
            entry.at = At.LEAVING
            if not self.lag:
                self.end_wait(uid)

    def _commit(self, allow: Allow) -> None:
        missing = tuple(uid for uid in allow.uids if not self._still_waits(uid))
        if missing:
            self._abort(allow, missing)
            return
        for uid in allow.uids:
            self.entries[uid].at = At.BINDING
        self.tell(events.CommitReport(allow.commit))

    def _abort(self, allow: Allow, missing: tuple[PodUid, ...]) -> None:
        self.tell(events.CommitReport(allow.commit, missing))
        for uid in allow.uids:
            self._reject(uid)

    def _still_waits(self, uid: PodUid) -> bool:
        entry = self.entries.get(uid)
        return entry is not None and entry.at is At.WAITING and not entry.pod.deleting

    # ---- the end of a history -----------------------------------------------------------------------------

    def settle(self, seconds: float = 120.0) -> None:
        """Let everything run its course while the world stands still."""
        self.lag = False
        self.flush()
        end = self.now + seconds
        while self.now < end:
            for uid in [uid for uid, entry in self.entries.items() if entry.at is At.LEAVING]:
                self.end_wait(uid)
            for _ in range(10 * len(self.entries)):
                if not self.schedule_one():
                    break
            for uid in [uid for uid, entry in self.entries.items() if entry.at is At.BINDING]:
                self.finish_bind(uid)
            self.pass_time(0.5)
