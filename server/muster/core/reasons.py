# SPDX-License-Identifier: Apache-2.0
"""Why a pod is held: a closed list, each with one sentence that has the numbers. docs/reasons.md says what to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from muster.core.model import GangKey, PodUid, Source
from muster.core.spec import CONSENT, CONSENTS, TIMEOUT, Problem, quantity


class Reason(Enum):
    NOT_ENOUGH_MEMBERS = "NotEnoughMembers"
    INVALID_GANG = "InvalidGang"
    MISSING_POD_GROUP = "MissingPodGroup"
    GROUP_INCOMPLETE = "GroupIncomplete"
    GROUP_NOT_ALLOWED = "GroupNotAllowed"
    TOO_BIG_FOR_CLUSTER = "TooBigForCluster"
    NO_ROOM = "NoRoom"
    LOST_PLACE = "LostPlace"
    GAVE_WAY = "GaveWay"
    WAITING_FOR_QUORUM = "WaitingForQuorum"
    SURPLUS = "Surplus"
    TIMED_OUT = "TimedOut"
    SETTINGS_DIFFER = "SettingsDiffer"


@dataclass(frozen=True, slots=True)
class Why:
    """One reason and its sentence."""

    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Tell a pod's owner why it is held (or, with `why` None, that nothing holds it any more)."""

    uid: PodUid
    namespace: str
    name: str
    gang: GangKey | None
    why: Why | None


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _gave_back(count: int) -> str:
    return f"; {_members(count)} with a place gave it back" if count else ""


def not_enough_members(gang: GangKey, known: int, minimum: int) -> Why:
    return Why(
        Reason.NOT_ENOUGH_MEMBERS,
        f"waiting for {minimum - known} more of {_members(minimum)} of gang {gang}",
    )


def invalid(problems: Sequence[Problem]) -> Why:
    return Why(Reason.INVALID_GANG, "; ".join(str(problem) for problem in problems))


def no_valid_member(gang: GangKey, problems: Sequence[Problem]) -> Why:
    return Why(
        Reason.INVALID_GANG,
        f"no member of gang {gang} has valid settings: " + "; ".join(str(problem) for problem in problems),
    )


def invalid_object(gang: GangKey, source: Source, problems: Sequence[Problem]) -> Why:
    return Why(Reason.INVALID_GANG, f"{source.value} {gang}: " + "; ".join(str(problem) for problem in problems))


def missing_pod_group(gang: GangKey) -> Why:
    return Why(Reason.MISSING_POD_GROUP, f"waiting for PodGroup {gang} to exist")


def group_incomplete(gang: GangKey, others: Sequence[GangKey]) -> Why:
    listed = ", ".join(others[:4]) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
    return Why(
        Reason.GROUP_INCOMPLETE,
        f"gang {gang} starts together with others: waiting for {listed} to exist and to list the same gangs",
    )


def group_not_allowed() -> Why:
    """The same sentence for all, whoever lacks the label and whether or not the others exist: one namespace must not
    learn from it about another."""
    return Why(
        Reason.GROUP_NOT_ALLOWED,
        f"its gang lists gangs of other namespaces; such gangs start together only if each of the namespaces has the "
        f"label {CONSENT}: {CONSENTS}",
    )


def too_big_for_cluster(gang: GangKey, needs: Sequence[tuple[str, int]], capacity: Mapping[str, int]) -> Why:
    short = ", ".join(f"{quantity(n)} {name} of {quantity(capacity.get(name, 0))}" for name, n in needs)
    return Why(Reason.TOO_BIG_FOR_CLUSTER, f"gang {gang} needs more than all nodes together have: {short}")


def no_room(gang: GangKey, pod: str, message: str, released: int) -> Why:
    said = message.rstrip(". ") or "no reason given"
    return Why(Reason.NO_ROOM, f"no node for member {pod} of gang {gang}: {said}{_gave_back(released)}")


def lost_place(gang: GangKey, pod: str, released: int) -> Why:
    return Why(
        Reason.LOST_PLACE, f"member {pod} of gang {gang} lost its place before all had one{_gave_back(released)}"
    )


def bind_failed(gang: GangKey, pod: str) -> Why:
    return Why(Reason.LOST_PLACE, f"member {pod} of gang {gang} lost its node; it is tried again by itself")


def unusable(gang: GangKey, pod: str, problems: Sequence[Problem]) -> Why:
    """Why a member that was on its way is so no more."""
    return invalid(problems) if problems else Why(Reason.LOST_PLACE, f"member {pod} of gang {gang} is being deleted")


def changed_gang(gang: GangKey, pod: str) -> Why:
    return Why(Reason.LOST_PLACE, f"pod {pod} is no member of gang {gang} any more")


def regrouped(gang: GangKey) -> Why:
    return Why(Reason.GROUP_INCOMPLETE, f"gang {gang} starts together with other gangs from now on")


def waiting_for_quorum(gang: GangKey, placed: int, minimum: int) -> Why:
    return Why(
        Reason.WAITING_FOR_QUORUM,
        f"{placed} of {_members(minimum)} of gang {gang} have a place; waiting for {minimum - placed} more",
    )


def gave_way(gang: GangKey, places: int, winner: GangKey, lacking: int, wanted: int) -> Why:
    """Names the other gang only to its own namespace."""
    known = gang.partition("/")[0] == winner.partition("/")[0]
    other = f"gang {winner}" if known else "a gang of another namespace"
    back = f"{places} place{'s' * (places != 1)}"
    return Why(
        Reason.GAVE_WAY,
        f"gang {gang} gave {back} back so that {other}, which lacks {lacking} of {wanted}, can start: neither could "
        f"while both held on to what they had; it is tried again after that",
    )


def surplus(gang: GangKey, minimum: int) -> Why:
    return Why(Reason.SURPLUS, f"past the minimum: waiting until gang {gang} has its {_members(minimum)}")


def timed_out(gang: GangKey, seconds: float) -> Why:
    return Why(
        Reason.TIMED_OUT,
        f"gang {gang} did not get its minimum placed within {seconds:g}s; "
        f"to try again remove the annotation {TIMEOUT} from all of its pods",
    )


def timed_out_and_retried(gang: GangKey, seconds: float) -> Why:
    return Why(Reason.TIMED_OUT, f"gang {gang} did not get its minimum placed within {seconds:g}s; it is tried again")


def settings_differ(gang: GangKey, holder: str, unused: str) -> Why:
    """`holder` has the settings that count, `unused` says which ones do not."""
    return Why(Reason.SETTINGS_DIFFER, f"gang {gang} has the settings of {holder}; {unused} not used")
