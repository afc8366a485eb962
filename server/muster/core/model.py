# SPDX-License-Identifier: Apache-2.0
"""The nouns: pods as the rules see them, gang settings, phases. Plain data, no behaviour beyond reading it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

PodUid = NewType("PodUid", str)
GangKey = NewType("GangKey", str)  # "namespace/name"
GroupId = NewType("GroupId", str)  # the sorted keys of its gangs, joined by ","


class Phase(Enum):
    """Where a member stands. Exactly one at a time; gang.py has the table of transitions."""

    # By identity: the hash of an Enum is Python code, and phases are counted at every event.
    __hash__ = object.__hash__

    PENDING = "Pending"  # not placed
    WAITING = "Waiting"  # has a node and waits at Permit for the others
    BINDING = "Binding"  # was let through Permit; its bind is under way
    BOUND = "Bound"  # the API server says which node it is on


class Mode(Enum):
    """What one member's failure does to the others."""

    STRICT = "Strict"  # it ends the cycle for all and everything is given back
    NON_STRICT = "NonStrict"  # nothing: those with a place keep it until the deadline


class MatchPolicy(Enum):
    """Which members count towards the minimum."""

    ONCE_SATISFIED = "once-satisfied"  # after the first quorum the gang rule binds no more
    ONLY_WAITING = "only-waiting"  # those placed now, never those that already run
    WAITING_AND_RUNNING = "waiting-and-running"  # both


class OnTimeout(Enum):
    """What happens when a gang's wait at Permit runs out."""

    FAIL = "Fail"  # members are marked and not scheduled until the marks are removed
    RETRY = "Retry"  # everything is given back and tried again


@dataclass(frozen=True, slots=True)
class Pod:
    """What the scheduler said about a pod that carries a gang mark."""

    uid: PodUid
    namespace: str
    name: str
    created_ns: int = 0
    priority: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    gated: bool = False
    deleting: bool = False
    nominated: str = ""
    scheduling_group: str = ""  # the PodGroup of Kubernetes itself that its spec names
    # Only used when a session opens: where it stands in the scheduler, and for how long it has waited there.
    standing: Phase = Phase.PENDING
    waited: float = 0.0

    @property
    def age_order(self) -> tuple[int, str, str]:
        """Oldest first, the same after a restart: creation has whole seconds only, so names break ties."""
        return (self.created_ns, self.name, self.uid)


class Source(Enum):
    """The kinds of objects that declare gangs, by the names kubectl takes; of two equally old ones the first counts."""

    SIGS = "PodGroup.scheduling.sigs.k8s.io"
    X_K8S = "PodGroup.scheduling.x-k8s.io"
    NATIVE = "PodGroup.scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class GangObject:
    """What the scheduler said about an object that declares a gang."""

    source: Source
    namespace: str
    name: str
    uid: str
    created_ns: int = 0
    min: int | None = None
    timeout: int | None = None  # seconds
    resources: Mapping[str, int] = field(default_factory=dict)  # thousandths
    annotations: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)  # fields that hold something else than they should

    @property
    def key(self) -> GangKey:
        return GangKey(f"{self.namespace}/{self.name}")

    @property
    def age_order(self) -> tuple[int, int]:
        """Oldest first, among those that declare the same gang."""
        return (self.created_ns, list(Source).index(self.source))


@dataclass(slots=True)
class Surroundings:
    """What the rules need to know of the cluster as a whole."""

    consenting: set[str] = field(default_factory=set)  # namespaces whose gangs may start together with those of others
    capacity: Mapping[str, int] | None = None  # what all nodes together offer, in thousandths; None: not told


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A gang's settings, as one of its members or its PodGroup declares them."""

    min: int
    total: int
    mode: Mode
    policy: MatchPolicy
    wait: float  # seconds the group may hold room, from its first Permit
    on_timeout: OnTimeout
    group: tuple[GangKey, ...]  # sorted; always contains the gang itself
    resources: tuple[tuple[str, int], ...] = ()  # what the minimum needs in all, in thousandths; sorted


@dataclass(frozen=True, slots=True, order=True)
class SortKey:
    """Queue order; compared by the scheduler. Higher priority first, then ascending."""

    priority: int
    created_ns: int
    gang: str
    index: int
