# SPDX-License-Identifier: Apache-2.0
"""What holds each gang that has an object: what changed since it was last told. The writer puts it on the object.

Only gangs that something happened to are looked at, so a large cluster at rest costs nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.core import Core
from muster.core.explain import why
from muster.core.model import GangKey, Phase
from muster.core.reasons import Reason, Why

# A member that is merely behind the others says nothing about the gang.
_MILD = (Reason.SURPLUS, Reason.WAITING_FOR_QUORUM)


@dataclass(frozen=True, slots=True)
class Changes:
    held: list[tuple[GangKey, Why | None]]
    gone: list[GangKey]


class Words:
    """Remembers what was told. Whoever hears of a change says so by `touch`; saying so too often is harmless."""

    def __init__(self) -> None:
        self._told: dict[GangKey, Why | None] = {}
        self._touched: set[GangKey] = set()
        self._all = False

    def touch(self, gangs: Iterable[GangKey | None]) -> None:
        self._touched.update(key for key in gangs if key is not None)

    def touch_all(self) -> None:
        """Something happened that may concern any gang, for example a new session."""
        self._all = True

    def changes(self, core: Core) -> Changes:
        """What is new since the last call."""
        touched, self._touched = self._touched, set()
        if self._all:
            self._all = False
            touched = {*self._told, *core.gangs}
        # What one gang lacks holds all that start together with it.
        concerned = touched.union(*(core.group_of(key).gangs for key in touched if key in core.gangs))
        changes = Changes([], [])
        for key in sorted(concerned):
            gang = core.gangs.get(key)
            if gang is None or not gang.objects:
                if key in self._told:
                    del self._told[key]
                    changes.gone.append(key)
                continue
            held = gang_why(core, key)
            if key not in self._told or self._told[key] != held:
                self._told[key] = held
                changes.held.append((key, held))
        return changes


def gang_why(core: Core, key: GangKey) -> Why | None:
    """The sentence `muster get gangs` has for it, without building the picture of every member."""
    gang, group = core.gangs[key], core.group_of(key)
    obstacle = group.obstacle()
    if obstacle is not None:
        return obstacle
    if group.free(gang) or (gang.lacking() == 0 and not gang.count(Phase.WAITING)):
        return None
    mild: Why | None = None
    for member in gang.members.values():
        said = why(group, member, None)
        if said is not None and said.reason not in _MILD:
            return said
        mild = mild or said
    return mild
