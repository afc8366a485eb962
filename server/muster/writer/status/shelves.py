# SPDX-License-Identifier: Apache-2.0
"""What is known of pods and PodGroups, by gang. A shelf says which gang a change concerns, and no more."""

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from muster.core.model import GangKey
from muster.writer.status.model import Key, Member, PodGroup, pod, pod_group

Changed = Callable[[GangKey], None]


class PodShelf:
    """The pods with one of the labels."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._members: dict[Key, Member] = {}
        self._by_gang: dict[GangKey, dict[Key, Member]] = {}

    def put(self, raw: bytes | msgspec.Raw) -> Key:
        key, member = pod(raw)
        if self._members.get(key) != member:
            self.drop(key)
            self._members[key] = member
            if member.gang is not None:
                self._by_gang.setdefault(member.gang, {})[key] = member
                self._changed(member.gang)
        return key

    def drop(self, key: Key) -> None:
        member = self._members.pop(key, None)
        if member is None or member.gang is None:
            return
        of_gang = self._by_gang[member.gang]
        del of_gang[key]
        if not of_gang:
            del self._by_gang[member.gang]
        self._changed(member.gang)

    def of(self, gang: GangKey) -> Iterable[Member]:
        return self._by_gang.get(gang, {}).values()


class GroupShelf:
    """The PodGroups of one API group."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._groups: dict[Key, PodGroup] = {}

    def put(self, raw: bytes | msgspec.Raw) -> Key:
        key, group = pod_group(raw)
        known = self._groups.get(key)
        # The answer to a patch may overtake the watch, which then brings what was before.
        if known is None or known.uid != group.uid or not _older(group.version, known.version):
            self._groups[key] = group
            self._changed(group.gang)
        return key

    def drop(self, key: Key) -> None:
        group = self._groups.pop(key, None)
        if group is not None:
            self._changed(group.gang)

    def get(self, key: Key) -> PodGroup | None:
        return self._groups.get(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._groups)


def members(shelves: Iterable[PodShelf], gang: GangKey) -> Collection[Member]:
    """Each pod once: one may carry both labels."""
    return {member.uid: member for shelf in shelves for member in shelf.of(gang)}.values()


def _older(one: str, other: str) -> bool:
    return one.isdigit() and other.isdigit() and int(one) < int(other)
