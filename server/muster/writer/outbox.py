# SPDX-License-Identifier: Apache-2.0
"""What the server still has to send to its writer: bounded, one entry a pod, marks first. Pure: no I/O, no clock."""

from muster.core.reasons import Explanation
from muster.writer.wire import Clear, Mark, Order, Tell

MOST_TOLD = 20_000
MOST_MARKS = 100_000


class Outbox:
    """Coalesces what is put in until it is taken out. A mark stays known until it is confirmed."""

    def __init__(self, most_told: int = MOST_TOLD, most_marks: int = MOST_MARKS) -> None:
        self.dropped = 0
        self._most_told = most_told
        self._most_marks = most_marks
        self._told: dict[str, Tell | Clear] = {}  # by pod, in the order in which they came up
        self._unsent: dict[str, Mark] = {}
        self._unconfirmed: dict[str, Mark] = {}

    def explain(self, explanation: Explanation) -> None:
        """The latest word on a pod wins. That nothing holds it is sent too: the child may have something pending."""
        uid, why = explanation.uid, explanation.why
        if uid not in self._told and len(self._told) >= self._most_told:
            # The oldest goes: its pod has had the longest time to change, and the newest is why somebody looks now.
            del self._told[next(iter(self._told))]
            self.dropped += 1
        if why is None:
            self._told[uid] = Clear(uid)
        else:
            self._told[uid] = Tell(uid, explanation.namespace, explanation.name, why.reason.value, why.sentence)

    def mark(self, uid: str, namespace: str, name: str) -> None:
        """One mark a pod is under way at most: a second one would write what the first one writes."""
        if uid in self._unconfirmed:
            return
        if len(self._unconfirmed) >= self._most_marks:
            self.dropped += 1
            return
        self._unconfirmed[uid] = self._unsent[uid] = Mark(uid, namespace, name)

    def take(self, limit: int) -> list[Order]:
        """The next orders, marks first. Marks are remembered until `confirm`."""
        orders: list[Order] = []
        while self._unsent and len(orders) < limit:
            orders.append(self._unsent.pop(next(iter(self._unsent))))
        while self._told and len(orders) < limit:
            orders.append(self._told.pop(next(iter(self._told))))
        return orders

    def confirm(self, uid: str) -> None:
        self._unconfirmed.pop(uid, None)
        self._unsent.pop(uid, None)

    def resend(self) -> None:
        """A new child knows nothing: all that is not confirmed is sent again."""
        self._unsent = dict(self._unconfirmed)

    @property
    def unconfirmed(self) -> int:
        return len(self._unconfirmed)

    def __len__(self) -> int:
        """How many orders `take` would give."""
        return len(self._unsent) + len(self._told)
