# SPDX-License-Identifier: Apache-2.0
"""Which group wants to be looked at when. The core has no clock: it only says when it wants the next Tick."""

import heapq

from muster.core.model import GroupId


class Agenda:
    """One instant per group. Replacing or dropping one is lazy: the heap forgets it when it comes up."""

    def __init__(self) -> None:
        self._due: dict[GroupId, float] = {}
        self._heap: list[tuple[float, GroupId]] = []

    def set(self, group: GroupId, at: float | None) -> None:
        if at is None:
            self._due.pop(group, None)
        elif self._due.get(group) != at:
            self._due[group] = at
            heapq.heappush(self._heap, (at, group))
            if len(self._heap) > 64 + 4 * len(self._due):
                # A group that tries again and again leaves a deadline behind each time, maybe weeks ahead.
                self._heap = [(due, group) for group, due in self._due.items()]
                heapq.heapify(self._heap)

    def next(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[GroupId]:
        """The groups whose instant has come, earliest first."""
        due: list[GroupId] = []
        while (at := self.next()) is not None and at <= now:
            group = heapq.heappop(self._heap)[1]
            del self._due[group]
            due.append(group)
        return due
