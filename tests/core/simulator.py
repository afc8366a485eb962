# SPDX-License-Identifier: Apache-2.0
"""A small scheduler with its stub plugin: a pool of equal slots, a queue, pods that wait at Permit.

It keeps the contract as the Go side does (tries, quiet permits, two-step commits, a session that can be lost), so that
any history of the world can be played against the core. It knows nothing of gangs beyond what the core tells it.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

from muster.core import Core, events
from muster.core.decision import Admit, Allow, Decision, Hold, Mark, Reject, Verdict
from muster.core.model import GangKey, GangObject, Phase, Pod, PodUid, SortKey
from muster.core.spec import TIMEOUT


class At(Enum):
    QUEUE = 0  # not placed
    WAITING = 1
    BINDING = 2
    BOUND = 3


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
class Simulator:
    slots: int
    core: Core = field(default_factory=Core)
    now: float = 0.0
    entries: dict[PodUid, Entry] = field(default_factory=dict)
    objects: dict[GangKey, GangObject] = field(default_factory=dict)
    plain: int = 0  # slots taken by pods that are no gang's
    server_restarts: int = 0
    quiet: dict[str, int] = field(default_factory=dict)
    released: list[list[PodUid]] = field(default_factory=list)  # each commit that went through
    passed: list[PodUid] = field(default_factory=list)  # each pod that passed Permit without one

    @property
    def room(self) -> int:
        return self.slots - self.plain - sum(entry.at is not At.QUEUE for entry in self.entries.values())

    def tell(self, event: events.Event) -> Decision:
        decision = self.core.handle(event, self.now)
        for effect in decision.effects:
            self._apply(effect)
        return decision

    # ---- what the world does ------------------------------------------------------------------------------

    def create(self, pod: Pod) -> None:
        self.entries[pod.uid] = Entry(pod)
        self.tell(events.PodSeen(pod))

    def delete(self, uid: PodUid) -> None:
        entry = self.entries.pop(uid)
        if entry.at is At.WAITING:
            self.tell(events.Unreserve(uid))
        self.tell(events.PodGone(uid))
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
        while (due := self.core.next_due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.tell(events.Tick())
            after = self.core.next_due()
            assert after is None or after > self.now, "the core asks for a tick that it just had"
        self.now = end

    def evict_waiting(self, uid: PodUid) -> None:
        """The framework ends a wait by itself: a timer, a preemption."""
        self.entries[uid].at = At.QUEUE
        self.tell(events.Unreserve(uid))

    def finish_bind(self, uid: PodUid) -> None:
        entry = self.entries[uid]
        entry.at = At.BOUND
        entry.pod = replace(entry.pod, node="n1")
        self.tell(events.PodSeen(entry.pod))

    def fail_bind(self, uid: PodUid) -> None:
        self.entries[uid].at = At.QUEUE
        self.tell(events.Unreserve(uid))

    def restart_server(self) -> None:
        self.server_restarts += 1
        self.core = Core(self.core._policy)
        self._drop_grants()
        self._synchronize()

    def restart_scheduler(self) -> None:
        for entry in self.entries.values():
            entry.key = None
            if entry.at is not At.BOUND:
                entry.at = At.QUEUE
        self._drop_grants()
        self._synchronize()

    def _drop_grants(self) -> None:
        for entry in self.entries.values():
            entry.admitted, entry.free, entry.tries = False, False, 0
        self.quiet.clear()

    def _synchronize(self) -> None:
        standing = {At.WAITING: Phase.WAITING, At.BINDING: Phase.BINDING}
        pods = tuple(
            replace(e.pod, standing=standing.get(e.at, Phase.PENDING), waited=self.now - e.since)
            for e in self.entries.values()
        )
        self.tell(events.Synchronize(pods, tuple(self.objects.values())))

    # ---- one scheduling cycle -----------------------------------------------------------------------------

    def queued(self) -> list[PodUid]:
        ready = [(e.key, uid) for uid, e in self.entries.items() if e.at is At.QUEUE and e.admitted and e.key]
        ready.sort(key=lambda item: (-item[0].priority, item[0].created_ns, item[0].gang, item[0].index))
        return [uid for _, uid in ready]

    def schedule_one(self) -> bool:
        """Pop the first pod and take it as far as it gets. False: the queue is empty."""
        for uid in self.queued():
            entry = self.entries[uid]
            if not entry.free and entry.tries == 0:
                continue  # its try is spent: it lies in the unschedulable pool, and nobody woke it
            self.attempt(uid)
            return True
        return False

    def attempt(self, uid: PodUid) -> None:
        entry = self.entries[uid]
        if not entry.free:
            entry.tries = 0
        if self.room <= 0:
            self.tell(events.PostFilter(uid, "no slot"))
            return
        entry.since = self.now
        if entry.free:
            entry.at = At.BINDING
            self.passed.append(uid)
            self.tell(events.Permit(uid, "n1", asked=False))
        elif self.quiet.get(entry.group, 0) > 0:
            self.quiet[entry.group] -= 1
            entry.at = At.WAITING
            self.tell(events.Permit(uid, "n1", asked=False))
        else:
            self._ask(uid, entry)

    def _ask(self, uid: PodUid, entry: Entry) -> None:
        decision = self.tell(events.Permit(uid, "n1", asked=True))
        if decision.verdict is Verdict.WAIT:
            entry.at = At.WAITING
        elif decision.verdict is Verdict.REFUSE:
            self.tell(events.Unreserve(uid))
        elif decision.allow is None:
            entry.at = At.BINDING
            self.passed.append(uid)
        else:
            entry.at = At.WAITING
            self._commit(Allow(decision.allow.commit, (*decision.allow.uids, uid)))

    def comes_back(self, uid: PodUid) -> None:
        """A pod with a spent try is popped again: it asks at PreFilter."""
        if self.tell(events.PreFilter(uid)).verdict is Verdict.PASS:
            self.entries[uid].tries = 1

    # ---- directives ---------------------------------------------------------------------------------------

    def _apply(self, effect: Admit | Hold | Allow | Reject | Mark) -> None:
        match effect:
            case Admit():
                self.quiet[effect.group] = effect.quiet_permits
                for uid, key in effect.members:
                    if entry := self.entries.get(uid):
                        # A new server may count anew; the scheduler keeps the key under which the pod is queued.
                        assert entry.key in (None, key) or self.server_restarts, "a sort key changed"
                        entry.admitted, entry.tries, entry.free = True, 1, effect.free
                        entry.group, entry.key = effect.group, entry.key or key
            case Hold():
                for uid in effect.uids:
                    if entry := self.entries.get(uid):
                        entry.admitted = entry.free = False
            case Allow():
                self._commit(effect)
            case Reject():
                for uid in effect.uids:
                    entry = self.entries.get(uid)
                    if entry and entry.at is At.WAITING:
                        entry.at = At.QUEUE
                        self.tell(events.Unreserve(uid))
            case Mark():
                for uid in effect.uids:
                    if entry := self.entries.get(uid):
                        entry.pod = replace(entry.pod, annotations={**entry.pod.annotations, TIMEOUT: "true"})
                        self.tell(events.PodSeen(entry.pod))

    def _commit(self, allow: Allow) -> None:
        missing = tuple(uid for uid in allow.uids if uid not in self.entries or self.entries[uid].at is not At.WAITING)
        for uid in allow.uids:
            entry = self.entries.get(uid)
            if entry and entry.at is At.WAITING:
                entry.at = At.QUEUE if missing else At.BINDING
        if not missing:
            self.released.append(list(allow.uids))
        self.tell(events.CommitReport(allow.commit, missing))
        if missing:
            for uid in allow.uids:
                if uid in self.entries and uid not in missing:
                    self.tell(events.Unreserve(uid))

    # ---- the end of a history -----------------------------------------------------------------------------

    def settle(self, seconds: float = 120.0) -> None:
        """Let everything run its course while the world stands still."""
        end = self.now + seconds
        while self.now < end:
            for _ in range(10 * len(self.entries)):
                if not self.schedule_one():
                    break
            for uid in [uid for uid, entry in self.entries.items() if entry.at is At.BINDING]:
                self.finish_bind(uid)
            self.pass_time(0.5)
