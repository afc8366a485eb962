# SPDX-License-Identifier: Apache-2.0
"""What the server still has to send to its writer: bounded, one entry a pod, marks first. Pure: no I/O, no clock."""

from muster.core.model import GangKey
from muster.core.reasons import Explanation, Why
from muster.writer.wire import Clear, GangGone, GangHeld, Leading, Mark, Order, Tell

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
        self._gangs: dict[str, GangHeld] = {}  # all that hold now: a new child must learn them all
        self._unsent_gangs: dict[str, GangHeld | GangGone] = {}
        self._leading = False
        self._sent_leading = False

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

    def gang(self, key: GangKey, why: Why | None) -> None:
        """What holds a gang that has an object. There are no more of these than the core knows gangs."""
        held = GangHeld(key, why.reason.value, why.sentence) if why else GangHeld(key, "", "")
        self._gangs[key] = self._unsent_gangs[key] = held

    def gang_gone(self, key: GangKey) -> None:
        self._gangs.pop(key, None)
        self._unsent_gangs[key] = GangGone(key)

    def lead(self, leading: bool) -> None:
        self._leading = leading

    def take(self, limit: int) -> list[Order]:
        """The next orders, marks first. Marks are remembered until `confirm`.

        To stop comes before all else; to start comes after what is known of the gangs, so that nothing is written that
        the next line would take back.
        """
        orders: list[Order] = []
        if self._sent_leading and not self._leading:
            orders.append(self._lead())
        while self._unsent and len(orders) < limit:
            orders.append(self._unsent.pop(next(iter(self._unsent))))
        while self._unsent_gangs and len(orders) < limit:
            orders.append(self._unsent_gangs.pop(next(iter(self._unsent_gangs))))
        if self._leading and not self._sent_leading and len(orders) < limit:
            orders.append(self._lead())
        while self._told and len(orders) < limit:
            orders.append(self._told.pop(next(iter(self._told))))
        return orders

    def confirm(self, uid: str) -> None:
        self._unconfirmed.pop(uid, None)
        self._unsent.pop(uid, None)

    def resend(self) -> None:
        """A new child knows nothing: all that is not confirmed, and all that still holds, is sent again."""
        self._unsent = dict(self._unconfirmed)
        self._unsent_gangs = dict(self._gangs)
        self._sent_leading = False

    @property
    def unconfirmed(self) -> int:
        return len(self._unconfirmed)

    def __len__(self) -> int:
        """How many orders `take` would give."""
        leading = self._leading is not self._sent_leading
        return len(self._unsent) + len(self._unsent_gangs) + len(self._told) + leading

    def _lead(self) -> Leading:
        self._sent_leading = self._leading
        return Leading(self._leading)
