# SPDX-License-Identifier: Apache-2.0
"""What the status of a PodGroup is, from its pods alone. Pure; the time is an argument.

Everything is counted anew each time and nothing is ever added to what was there, so it does not matter which events
were missed. The phase is a function of the counts, by the first row that fits:

    the minimum is not one a gang can have     Pending      the condition says what is wrong with it
    succeeded >= min                           Finished
    usable < min, and some failed              Failed       until somebody replaces them
    usable < min                               Pending      also when members that ran were lost
    scheduled < min                            Scheduling
    running + succeeded < min                  Scheduled
    else                                       Running

Usable are members that count towards the minimum or may yet: not failed, not held by a scheduling gate, not being
deleted. A gang whose minimum runs is Running, however many of its surplus failed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from muster.core import reasons
from muster.core.reasons import Reason
from muster.writer.status.model import Held, Member, PodGroup

CONDITION = "Scheduled"
SCHEDULED, TRYING = "Scheduled", "Trying"  # beside the reasons for which a gang is held, the only ones
MOST_OWNERS = 32

# A gang that is tried again keeps the outcome of the last try until there is another: it would flip at every retry.
_OUTCOMES = frozenset(reason.value for reason in (Reason.NO_ROOM, Reason.LOST_PLACE, Reason.GAVE_WAY))


@dataclass(frozen=True, slots=True)
class Counts:
    members: int = 0
    usable: int = 0
    scheduled: int = 0  # have a node and have not failed
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def count(members: Collection[Member]) -> Counts:
    """One that is being deleted does not count any more, unless it has finished."""
    finished = ("Succeeded", "Failed")
    there = [member for member in members if member.phase in finished or not member.deleting]
    phases = [member.phase for member in there]
    return Counts(
        members=len(there),
        usable=sum(m.phase != "Failed" and (m.bound or not m.gated) for m in there),
        scheduled=sum(m.bound and m.phase != "Failed" for m in there),
        running=phases.count("Running"),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )


def phase(minimum: int | None, counts: Counts) -> str:
    if minimum is None:
        return "Pending"
    if counts.succeeded >= minimum:
        return "Finished"
    if counts.usable < minimum:
        return "Failed" if counts.failed else "Pending"
    if counts.scheduled < minimum:
        return "Scheduling"
    return "Scheduled" if counts.running + counts.succeeded < minimum else "Running"


def status(group: PodGroup, members: Collection[Member], held: Held | None, now: str) -> dict[str, Any]:
    """All fields that are ours, as they should be; None: it should not be there. `held` None: not told yet."""
    counts = count(members)
    reached = phase(group.minimum, counts)
    started = group.status.get("scheduleStartTime") or (None if reached == "Pending" else now)
    wanted: dict[str, Any] = {
        "phase": reached,
        "members": counts.members,
        "scheduled": counts.scheduled,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        # Of this run: when all members are gone, the next ones start over.
        "scheduleStartTime": started if counts.members else None,
    }
    if owners := sorted({owner for member in members for owner in member.owners}):
        more = [f"and {len(owners) - MOST_OWNERS} more"] if len(owners) > MOST_OWNERS else []
        wanted["occupiedBy"] = ",".join(owners[:MOST_OWNERS] + more)
    said = _condition(group, counts, held)
    if said is not None:
        wanted["conditions"] = _with(_conditions(group.status), said, now)
    return wanted


def condition(of: dict[str, Any]) -> dict[str, Any]:
    """Our condition of a status; empty if there is none."""
    return next((c for c in _conditions(of) if c.get("type") == CONDITION), {})


def differing(group: PodGroup, wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not as they should be."""
    return {field: value for field, value in wanted.items() if group.status.get(field) != value}


def only_words(group: PodGroup, differing: dict[str, Any]) -> bool:
    """Nothing differs but the sentence of a reason that stays."""
    old, new = condition(group.status), condition(differing)
    return set(differing) == {"conditions"} and (old.get("reason"), old.get("status")) == (
        new.get("reason"),
        new.get("status"),
    )


@dataclass(frozen=True, slots=True)
class _Said:
    status: bool
    reason: str
    sentence: str


def _condition(group: PodGroup, counts: Counts, held: Held | None) -> _Said | None:
    """None: it stays as it is.

    minimum scheduled                    True   Scheduled
    not told yet                                stays, but never True
    the server says what holds it        False  that
    too few members                      False  NotEnoughMembers; the core knows nothing of those that finished
    tried again after a failed try              stays
    else                                 False  Trying
    """
    minimum, old = group.minimum, condition(group.status)
    if minimum is not None and counts.scheduled >= minimum:
        return _Said(True, SCHEDULED, f"the minimum of {minimum} of gang {group.gang} has a node")
    if held is None and old.get("status") != "True":
        return None
    if held is not None and held.reason:
        return _Said(False, held.reason, held.sentence)
    if minimum is not None and counts.usable < minimum:
        lacking = reasons.not_enough_members(group.gang, counts.usable, minimum)
        failed = f"; {counts.failed} failed" if counts.failed else ""
        return _Said(False, lacking.reason.value, lacking.sentence + failed)
    if old.get("status") == "False" and old.get("reason") in _OUTCOMES:
        return None
    return _Said(False, TRYING, f"gang {group.gang} is being scheduled")


def _conditions(of: dict[str, Any]) -> list[dict[str, Any]]:
    listed = of.get("conditions")
    return [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []


def _with(old: list[dict[str, Any]], said: _Said, now: str) -> list[dict[str, Any]]:
    """The conditions with ours in its place. Others' are left alone."""
    flag = "True" if said.status else "False"
    before = next((c for c in old if c.get("type") == CONDITION), {})
    since = before.get("lastTransitionTime") if before.get("status") == flag else None
    ours = {
        "type": CONDITION,
        "status": flag,
        "lastTransitionTime": since or now,
        "reason": said.reason,
        "message": said.sentence,
    }
    if not before:
        return [*old, ours]
    return [{**c, **ours} if c.get("type") == CONDITION else c for c in old]
