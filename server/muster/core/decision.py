# SPDX-License-Identifier: Apache-2.0
"""All that can be answered: a verdict for the pod asked about, and effects on it and others, in order."""

from dataclasses import dataclass
from enum import Enum

from muster.core.model import GangKey, GroupId, PodUid, SortKey


class Verdict(Enum):
    NONE = "none"  # nobody asked
    PASS = "pass"
    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Admit:
    """These members may enter the queue, each with one try (any number if `free`)."""

    group: GroupId
    cycle: int
    members: tuple[tuple[PodUid, SortKey], ...]
    quiet_permits: int
    wait: float
    free: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """These members may not enter the queue any more."""

    uids: tuple[PodUid, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Allow:
    """The quorum is complete: let these waiting members go, all or none. A CommitReport answers."""

    commit: int
    uids: tuple[PodUid, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    """End the wait of these members."""

    uids: tuple[PodUid, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Write the timeout annotation on these pods."""

    uids: tuple[PodUid, ...]


Effect = Admit | Hold | Allow | Reject | Mark


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict = Verdict.NONE
    reason: str = ""
    gang: GangKey | None = None
    effects: tuple[Effect, ...] = ()
    # Part of a PASS at Permit: the commit whose success this pod's own depends on; 0 if there is none.
    allow: Allow | None = None
    # Part of a PASS at PostFilter: the members that must find a node too, or an eviction would be in vain.
    whole_with: tuple[PodUid, ...] = ()


class InvariantError(Exception):
    """A rule of the core broke its own promise: our bug. Carries the event so that it can be replayed."""
