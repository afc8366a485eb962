# SPDX-License-Identifier: Apache-2.0
"""What is kept of pods and PodGroups, and how it is read from what the API server sends.

Of a pod some hundred bytes are kept, whatever it weighs. Only names and the uid are taken for granted: a cluster may
have definitions of PodGroup that check less than ours do, and one odd object must not hide the others.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from muster.core import spec
from muster.core.model import GangKey, Pod, PodUid

_DEFAULTS = spec.Defaults()


class Key(NamedTuple):
    """One object of one collection that is watched."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of a gang, as far as the status needs it."""

    uid: str
    gang: GangKey | None  # None: what it says names no gang
    phase: str  # of the pod
    bound: bool = False
    gated: bool = False
    deleting: bool = False
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodGroup:
    """An object whose status is kept."""

    namespace: str
    name: str
    uid: str
    version: str  # resourceVersion
    minimum: int | None  # None: not one that a gang can have
    status: dict[str, Any]

    @property
    def gang(self) -> GangKey:
        return GangKey(f"{self.namespace}/{self.name}")


@dataclass(frozen=True, slots=True)
class Held:
    """What the server says about a gang; an empty reason: nothing holds it."""

    reason: str = ""
    sentence: str = ""


class _Owner(msgspec.Struct, gc=False):
    name: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    scheduling_gates: list[Any] | None = None


class _PodStatus(msgspec.Struct, gc=False, frozen=True):
    phase: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _PodSpec
    status: _PodStatus = _PodStatus()


class _PodGroup(msgspec.Struct):
    metadata: _Meta
    spec: Any = None
    status: Any = None


_read_pod = msgspec.json.Decoder(_Pod).decode
_read_pod_group = msgspec.json.Decoder(_PodGroup).decode


def pod(raw: bytes | msgspec.Raw) -> tuple[Key, Member]:
    """Raises msgspec.MsgspecError if it is no pod. Which gang it is of is for the core to say."""
    read = _read_pod(raw)
    meta = read.metadata
    said = Pod(
        PodUid(meta.uid), meta.namespace, meta.name, annotations=meta.annotations or {}, labels=meta.labels or {}
    )
    member = Member(
        uid=meta.uid,
        gang=spec.declare(said, _DEFAULTS).gang,
        phase=read.status.phase or "Pending",
        bound=bool(read.spec.node_name),
        gated=bool(read.spec.scheduling_gates),
        deleting=meta.deletion_timestamp is not None,
        owners=tuple(f"{meta.namespace}/{owner.name}" for owner in meta.owner_references or ()),
    )
    return Key(meta.namespace, meta.name), member


def pod_group(raw: bytes | msgspec.Raw) -> tuple[Key, PodGroup]:
    """Raises msgspec.MsgspecError if it is no object."""
    read = _read_pod_group(raw)
    meta = read.metadata
    declared = read.spec.get("minMember") if isinstance(read.spec, dict) else None
    sound = type(declared) is int and 1 <= declared <= spec.MAX_MEMBERS
    group = PodGroup(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        minimum=declared if sound else None,
        status=read.status if isinstance(read.status, dict) else {},
    )
    return Key(meta.namespace, meta.name), group
