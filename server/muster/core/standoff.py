# SPDX-License-Identifier: Apache-2.0
"""Gangs that hold room which each other need: who steps back, for whom, for how long.

A lenient group keeps its places while it lacks others, so several can sit on all the room there is with none of them
whole. When at least two groups hold places, lack others, and nothing was placed for a grace time, the least deserving
one gives everything back and stays back, so that the rest can finish:

    first   a group that lacks members, not room (while one that lacks room is among the rest)
    then    lower priority, then the smaller share of its minimum placed, then the younger one

It stays back until each of the others has started or gave up its places, or for twice the grace time. The others do
not step back for it in turn, the first of them never steps back at all, and every step back starts a new grace time:
so groups that could run one after the other do. If a step back helped nobody, it was no standoff (each waited for
something of its own) and the group is more patient the next time.
"""

from muster.core.decision import Effect
from muster.core.group import Group
from muster.core.model import GroupId
from muster.core.reasons import Reason

# Long enough for four or five tries of each group (they back off 1, 2, 4, 8, 10 s) and for a node that is about to
# come, short against the minutes that gangs are given to wait.
GRACE = 30.0
STAY = 2.0  # times the grace: those who remain need one more try each, and may have a standoff among themselves
MAX_VAIN = 3


class Standoffs:
    """Which groups are stuck, and who stepped back for whom. Told of a group whenever something happened to it."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._ripe: dict[GroupId, Group] = {}
        self._awaited_by: dict[GroupId, dict[GroupId, Group]] = {}
        self._returned: list[Group] = []

    def watch(self, group: Group, now: float) -> float | None:
        """Take in how the group stands, and say when to look at it again for this reason."""
        if not group.holds:
            self._over(group.id, now)
        if not group.stuck:
            self._ripe.pop(group.id, None)
            return None
        ripe_at = group.moved_at + self._patience(group)
        if now < ripe_at:
            self._ripe.pop(group.id, None)
            return ripe_at
        news = group.id not in self._ripe
        self._ripe[group.id] = group
        return now if news and len(self._ripe) > 1 else None

    def forget(self, group: Group, now: float) -> None:
        """The group is gone."""
        self._ripe.pop(group.id, None)
        for winner in group.yields_to:
            self._awaited_by.get(winner, {}).pop(group.id, None)
        self._over(group.id, now)

    def returned(self) -> list[Group]:
        """Groups that need stay back no longer since this was asked last."""
        returned, self._returned = self._returned, []
        return returned

    def resolve(self, now: float, out: list[Effect]) -> list[Group]:
        """Break a standoff, if there is one; the groups to which something happened."""
        if len(self._ripe) < 2 or not any(group.blocked is Reason.NO_ROOM for group in self._ripe.values()):
            return []
        youngest_first = sorted(self._ripe.values(), key=lambda group: (group.rank[1], group.id), reverse=True)
        loser, *others = sorted(
            youngest_first, key=lambda group: (group.blocked is Reason.NO_ROOM, group.rank[0], group.progress())
        )
        self._ripe.clear()
        for other in others:
            self._awaited_by.setdefault(other.id, {})[loser.id] = loser
            other.moved_at = now
            other.wake(now)
        loser.give_way(others, now, now + STAY * self._patience(loser), out)
        return [loser, *others]

    def _over(self, winner: GroupId, now: float) -> None:
        for loser in self._awaited_by.pop(winner, {}).values():
            if loser.yields_to.pop(winner, None) and not loser.yields_to:
                loser.come_back(now)
                self._returned.append(loser)

    def _patience(self, group: Group) -> float:
        """Shorter for a group that would not wait that long itself."""
        return float(min(self._grace, group.wait / 2) * 2 ** min(group.vain, MAX_VAIN))
