# SPDX-License-Identifier: Apache-2.0
"""All that can happen. Frozen data, one closed union, named after where it comes from."""

from dataclasses import dataclass

from muster.core.model import Pod, PodUid


@dataclass(frozen=True, slots=True)
class Synchronize:
    """A session opened: this is all the scheduler knows. Whatever was known before is void."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: PodUid


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
    """The member has a node. `asked`: the scheduler waits for the verdict; else it returned Wait already."""

    uid: PodUid
    node: str = ""
    asked: bool = True


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


Event = Synchronize | PodSeen | PodGone | Room | PreFilter | PostFilter | Permit | Unreserve | CommitReport | Tick
