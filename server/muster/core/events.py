# SPDX-License-Identifier: Apache-2.0
"""All that can happen. Frozen data, one closed union, named after where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.core.model import GangObject, Pod, PodUid, Source


@dataclass(frozen=True, slots=True)
class Synchronize:
    """A session opened: this is all the scheduler knows. Whatever was known before is void."""

    pods: tuple[Pod, ...]
    objects: tuple[GangObject, ...] = ()
    namespaces: tuple["NamespaceSeen", ...] = ()
    capacity: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: PodUid


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object that declares a gang came or changed. Another uid under the same name: it was created anew."""

    object: GangObject


@dataclass(frozen=True, slots=True)
class ObjectGone:
    source: Source
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """The gang labels of a namespace, all of them."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What all nodes together offer to pods, in thousandths."""

    allocatable: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Room:
    """A node came or grew, or a pod left: what did not fit may fit now."""


@dataclass(frozen=True, slots=True)
class PreFilter:
    """A member came back to the scheduling loop without an unspent try."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class PostFilter:
    """No node took the member; `message` says why."""

    uid: PodUid
    message: str = ""


@dataclass(frozen=True, slots=True)
class Permit:
    """The member has a node. `asked`: the scheduler waits for the verdict; else it returned Wait already, or, with
    `went`, let the member go because it had a free leave."""

    uid: PodUid
    node: str = ""
    asked: bool = True
    went: bool = False


@dataclass(frozen=True, slots=True)
class Unreserve:
    """The member lost its node: its wait ended without success, or its bind failed."""

    uid: PodUid


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What became of an Allow. Any missing pod means that none was allowed."""

    commit: int
    missing: tuple[PodUid, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; sent when `Core.next_due` says so. Earlier or more often does no harm."""


Fact = PodSeen | PodGone | ObjectSeen | ObjectGone | NamespaceSeen | Capacity | Room
Call = PreFilter | PostFilter | Permit | Unreserve | CommitReport
Event = Synchronize | Fact | Call | Tick
