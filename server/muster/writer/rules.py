# SPDX-License-Identifier: Apache-2.0
"""When an event is worth writing. Pure: the time is an argument, in seconds of any clock that does not jump.

    the same pod, reason and sentence      once in REPEAT
    the same pod and reason, new numbers   once in PAUSE; the latest wins, written when the pause is over
    another reason                         at once

A pod that flips between two reasons is therefore told both once and not at every flip.
"""

import heapq
from collections import OrderedDict
from dataclasses import dataclass, field

from muster.writer.wire import Tell

REPEAT = 600.0
PAUSE = 10.0
MOST_PODS = 50_000
MOST_SENTENCES = 64  # remembered for one pod


@dataclass(slots=True)
class _History:
    """What was told about one pod, and when."""

    by_reason: dict[str, float] = field(default_factory=dict)
    by_sentence: dict[tuple[str, str], float] = field(default_factory=dict)  # oldest first
    latest: float = 0.0


@dataclass(slots=True)
class _Pending:
    tell: Tell
    due: float
    number: int


class Rules:
    """Takes what is to be told and gives it back when it is due, if it still is worth telling."""

    def __init__(self, most_pods: int = MOST_PODS) -> None:
        self.dropped = 0
        self._most_pods = most_pods
        self._pending: dict[str, _Pending] = {}
        self._queue: list[tuple[float, int, str]] = []  # (due, number, uid); stale if the pending number is another
        self._told: OrderedDict[str, _History] = OrderedDict()  # least recently told first
        self._numbers = 0

    def tell(self, tell: Tell, now: float) -> None:
        history = self._told.get(tell.uid)
        if history is not None and _within(history.by_sentence.get((tell.reason, tell.sentence)), REPEAT, now):
            # It is true again and already told: what waited behind it is not true any more.
            self._pending.pop(tell.uid, None)
            return
        paused_until = history.by_reason.get(tell.reason, now - PAUSE) + PAUSE if history is not None else now
        due = max(now, paused_until)
        pending = self._pending.get(tell.uid)
        if pending is not None and (pending.due == due or pending.due <= now >= due):
            pending.tell = tell  # keeps its turn: one that changes all the time must not wait for ever
            return
        if pending is None and len(self._pending) >= self._most_pods:
            del self._pending[next(iter(self._pending))]
            self.dropped += 1
        self._numbers += 1
        self._pending[tell.uid] = _Pending(tell, due, self._numbers)
        heapq.heappush(self._queue, (due, self._numbers, tell.uid))

    def clear(self, uid: str) -> None:
        """What is pending is not true any more. What was told stays known: it may become true again soon."""
        self._pending.pop(uid, None)

    def take(self, now: float) -> Tell | None:
        """The next one to write now. From here on it counts as told."""
        self._skip_stale()
        if not self._queue or self._queue[0][0] > now:
            return None
        tell = self._pending.pop(heapq.heappop(self._queue)[2]).tell
        self._remember(tell, now)
        return tell

    def next_at(self) -> float | None:
        """When `take` has something, as things stand."""
        self._skip_stale()
        return self._queue[0][0] if self._queue else None

    def forget(self, tell: Tell) -> None:
        """It could not be written after all, so the same may be told again at any time."""
        history = self._told.get(tell.uid)
        if history is not None:
            history.by_sentence.pop((tell.reason, tell.sentence), None)

    def _skip_stale(self) -> None:
        while self._queue:
            _, number, uid = self._queue[0]
            pending = self._pending.get(uid)
            if pending is not None and pending.number == number:
                return
            heapq.heappop(self._queue)

    def _remember(self, tell: Tell, now: float) -> None:
        history = self._told.setdefault(tell.uid, _History())
        history.by_reason[tell.reason] = history.latest = now
        sentences = history.by_sentence
        sentences.pop((tell.reason, tell.sentence), None)
        sentences[tell.reason, tell.sentence] = now
        while len(sentences) > MOST_SENTENCES or not _within(next(iter(sentences.values())), REPEAT, now):
            del sentences[next(iter(sentences))]
        self._told.move_to_end(tell.uid)
        while len(self._told) > self._most_pods or not _within(next(iter(self._told.values())).latest, REPEAT, now):
            self._told.popitem(last=False)


def _within(then: float | None, span: float, now: float) -> bool:
    return then is not None and now - then < span
