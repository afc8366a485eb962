# SPDX-License-Identifier: Apache-2.0
"""The state as people see it: `muster get gangs` and `muster explain gang` show this and nothing else."""

from dataclasses import dataclass
from enum import Enum

from muster.core.core import Core
from muster.core.explain import why
from muster.core.gang import Gang
from muster.core.group import Group
from muster.core.model import GangKey, Phase, PodUid
from muster.core.reasons import Reason, Why


class GangPhase(Enum):
    """One word for where a gang is."""

    FORMING = "Forming"  # something is missing before it can be tried; the reason says what
    INVALID = "Invalid"  # its settings are wrong
    TRYING = "Trying"  # its members are in the scheduler's queue
    WAITING = "Waiting"  # some members have a place and wait for the others
    BACKING_OFF = "BackingOff"  # did not fit; tried again soon
    TIMED_OUT = "TimedOut"  # waited too long; marked
    SATISFIED = "Satisfied"  # its minimum was let through


@dataclass(frozen=True, slots=True)
class MemberView:
    uid: PodUid
    name: str
    phase: Phase
    node: str
    failures: int
    why: Why | None


@dataclass(frozen=True, slots=True)
class GangView:
    key: GangKey
    phase: GangPhase
    why: Why | None
    min: int
    total: int
    mode: str
    group: tuple[GangKey, ...]
    cycle: int
    deadline_in: float | None
    retry_in: float | None
    created_ns: int
    last_failure: str
    members: tuple[MemberView, ...]


def view(core: Core, key: GangKey, now: float) -> GangView:
    """One gang. The key must be known."""
    gang, group = core.gangs[key], core.group_of(key)
    obstacle = group.obstacle()
    members = tuple(
        MemberView(m.uid, m.pod.name, m.phase, m.node, m.failures, why(group, m, obstacle))
        for m in sorted(gang.members.values(), key=lambda member: member.pod.age_order)
    )
    phase = _phase(gang, group, obstacle)
    said = None if phase is GangPhase.SATISFIED else obstacle or _gang_why(members)
    spec = gang.spec
    created = [member.pod.created_ns for member in gang.members.values()]
    created += [declared.object.created_ns for declared in gang.objects.values()]
    return GangView(
        key=key,
        phase=phase,
        why=said,
        min=spec.min if spec else 0,
        total=spec.total if spec else 0,
        mode=spec.mode.value if spec else "",
        group=group.wanted,
        cycle=group.cycle,
        deadline_in=None if group.deadline is None else max(0.0, group.deadline - now),
        retry_in=None if group.retry_at is None else max(0.0, group.retry_at - now),
        created_ns=min(created),
        last_failure=group.message,
        members=members,
    )


def _phase(gang: Gang, group: Group, obstacle: Why | None) -> GangPhase:
    if group.free(gang):
        return GangPhase.SATISFIED
    if obstacle is not None:
        special = {Reason.INVALID_GANG: GangPhase.INVALID, Reason.TIMED_OUT: GangPhase.TIMED_OUT}
        return special.get(obstacle.reason, GangPhase.FORMING)
    if gang.lacking() == 0 and not gang.count(Phase.WAITING):
        return GangPhase.SATISFIED
    if gang.count(Phase.WAITING):
        return GangPhase.WAITING
    return GangPhase.BACKING_OFF if group.retry_at is not None and not gang.trying else GangPhase.TRYING


def _gang_why(members: tuple[MemberView, ...]) -> Why | None:
    """The gang's sentence: that of a member which failed rather than of one that merely waits."""
    said = [member.why for member in members if member.why is not None]
    mild = (Reason.SURPLUS, Reason.WAITING_FOR_QUORUM)
    return next((w for w in said if w.reason not in mild), said[0] if said else None)
