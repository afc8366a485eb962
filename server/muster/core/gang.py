# SPDX-License-Identifier: Apache-2.0
"""One gang: its members, their phases, whose settings hold. Only group.py changes phases.

    phase     Permit, no quorum   quorum     Unreserve   node seen   gone
    PENDING   WAITING             BINDING    -           BOUND       removed
    WAITING   -                   BINDING    PENDING     BOUND       removed
    BINDING   -                   -          PENDING     BOUND       removed
    BOUND     -                   -          -           -           removed

BINDING is a phase and not a flag: an Unreserve of a WAITING member is a wait given up and may cost the others
their places, one of a BINDING member is a failed bind and concerns that pod alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from muster.core import reasons
from muster.core.model import GangKey, GangSpec, MatchPolicy, Phase, Pod, PodUid, SortKey, Source
from muster.core.reasons import Why
from muster.core.spec import Declaration, ObjectDeclaration


class TimeoutMark(Enum):
    """The timeout annotation of a member."""

    NONE = 0
    DUE = 1  # decided here, not yet seen on the pod
    SEEN = 2  # on the pod, as the API server says


@dataclass(slots=True, eq=False)
class Member:
    """A pod as its gang sees it."""

    pod: Pod
    declared: Declaration
    gang: "Gang"
    phase: Phase = Phase.PENDING
    node: str = ""
    failures: int = 0  # tries of this gang's life that found no node
    tried: int = 0  # the cycle of its last try
    admitted: bool = False  # the scheduler was told that it may enter the queue
    key: SortKey | None = None  # given once, for good
    commit: int = 0  # the commit that made it BINDING
    echoes: int = 0  # Unreserves still to come that we caused ourselves by rejecting it
    freely: bool = False  # its last admission was a free one; true until the next, since a Hold may come too late
    mark: TimeoutMark = TimeoutMark.NONE
    told: Why | None = None  # what its owner was told last
    noticed: Why | None = None  # which settings do not count, as its owner was told last

    @property
    def uid(self) -> PodUid:
        return self.pod.uid

    @property
    def usable(self) -> bool:
        """Counts for its gang: its settings are sound and nothing outside keeps it from being scheduled."""
        return not self.declared.problems and not self.pod.gated and not self.pod.deleting

    @property
    def eligible(self) -> bool:
        return self.phase is Phase.PENDING and self.usable

    def take_over(self, before: "Member") -> None:
        """The pod was in another gang: what the scheduler has of it stays."""
        self.key, self.echoes, self.freely = before.key, before.echoes, before.freely
        if before.phase is Phase.BINDING:
            self.gang.move(self, Phase.BINDING)


class Gang:
    """Members by uid, with counts kept in step so that no decision scans them."""

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.members: dict[PodUid, Member] = {}
        self.eligible = 0
        self.outside = 0  # eligible, and not admitted
        self.trying = 0  # admitted, and the outcome of the try is not known yet; group.py counts
        self.marked = 0
        self.flawed = 0  # members whose settings are wrong
        self.satisfied = False  # its minimum was let through; by gang, as one may come to its group later or again
        self.freed = False  # members were admitted freely
        self._count = dict.fromkeys(Phase, 0)
        # Whose settings hold: of the first member with sound ones (of the oldest when a session opens or they change);
        # without such a member, of the oldest object with sound ones.
        self.spec: GangSpec | None = None
        self.source: Member | None = None
        self.objects: dict[Source, ObjectDeclaration] = {}

    # ---- settings -------------------------------------------------------------------------------------

    def declare(self, declared: ObjectDeclaration) -> None:
        """An object that declares this gang came or changed."""
        self.objects[declared.object.source] = declared
        self._settle()

    def undeclare(self, source: Source) -> None:
        del self.objects[source]
        self._settle()

    def ranked(self) -> list[ObjectDeclaration]:
        """The objects, sound ones first, then by age: one that comes later does not disturb a gang that stands."""
        return sorted(self.objects.values(), key=lambda declared: (declared.spec is None, declared.object.age_order))

    def unsettled(self) -> Why:
        """Why there are no settings."""
        if self.objects:
            first = self.ranked()[0]
            return reasons.invalid_object(self.key, first.object.source, first.problems)
        if self.flawed:
            flawed = next(member for member in self.members.values() if member.declared.problems)
            return reasons.no_valid_member(self.key, flawed.declared.problems)
        return reasons.missing_pod_group(self.key)

    def _elect(self) -> None:
        self.source = min(
            (member for member in self.members.values() if member.declared.spec is not None),
            key=lambda member: member.pod.age_order,
            default=None,
        )
        self._settle()

    def _settle(self) -> None:
        if self.source is not None:
            self.spec = self.source.declared.spec
        else:
            self.spec = self.ranked()[0].spec if self.objects else None

    # ---- members --------------------------------------------------------------------------------------

    def add(self, pod: Pod, declared: Declaration) -> Member:
        member = Member(pod, declared, self)
        if declared.timed_out:
            member.mark = TimeoutMark.SEEN
        self.members[pod.uid] = member
        self._tally(member, +1)
        if declared.spec and not self.source:
            self.source = member
            self._settle()
        return member

    def update(self, member: Member, pod: Pod, declared: Declaration) -> None:
        """The pod changed. A mark that is due stays due until it is seen; one that was seen goes when it is removed."""
        self._tally(member, -1)
        same_settings = declared.spec == member.declared.spec
        member.pod, member.declared = pod, declared
        if declared.timed_out:
            member.mark = TimeoutMark.SEEN
        elif member.mark is TimeoutMark.SEEN:
            member.mark = TimeoutMark.NONE
        self._tally(member, +1)
        if not same_settings:
            self._elect()

    def remove(self, member: Member) -> None:
        del self.members[member.uid]
        self._tally(member, -1)
        self.satisfied = self.satisfied and bool(self.members)
        if member is self.source:
            self._elect()

    def move(self, member: Member, phase: Phase) -> None:
        self._tally(member, -1)
        member.phase = phase
        self._tally(member, +1)

    def set_admitted(self, member: Member, admitted: bool) -> None:
        self._tally(member, -1)
        member.admitted = admitted
        self._tally(member, +1)

    def set_mark(self, member: Member, mark: TimeoutMark) -> None:
        self._tally(member, -1)
        member.mark = mark
        self._tally(member, +1)

    def _tally(self, member: Member, step: int) -> None:
        self._count[member.phase] += step
        self.eligible += step * member.eligible
        self.outside += step * (member.eligible and not member.admitted)
        self.marked += step * (member.mark is not TimeoutMark.NONE)
        self.flawed += step * bool(member.declared.problems)

    def count(self, phase: Phase) -> int:
        return self._count[phase]

    def in_phase(self, phase: Phase) -> Iterator[Member]:
        if self._count[phase]:
            yield from (member for member in self.members.values() if member.phase is phase)

    # ---- the minimum ----------------------------------------------------------------------------------

    def placed(self) -> int:
        """Members that count towards the minimum, by the gang's match policy."""
        count = self._count
        now = count[Phase.WAITING] + count[Phase.BINDING]
        if self.spec and self.spec.policy is MatchPolicy.ONLY_WAITING:
            return now
        return now + count[Phase.BOUND]

    def oversized(self, capacity: Mapping[str, int] | None) -> Why | None:
        """Its minimum needs more than all nodes together have, even if nothing else ran. Not asked of a gang that runs
        in part: what its members use may be on nodes that do not count any more."""
        if capacity is None or self.spec is None or not self.spec.resources:
            return None
        if self._count[Phase.BOUND] or self._count[Phase.BINDING]:
            return None
        short = [(name, needed) for name, needed in self.spec.resources if needed > capacity.get(name, 0)]
        return reasons.too_big_for_cluster(self.key, short, capacity) if short else None

    def lacking(self) -> int:
        """How many more must be placed for the minimum."""
        return max(0, self.spec.min - self.placed()) if self.spec else 0
