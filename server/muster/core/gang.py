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

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from muster.core.model import GangKey, GangSpec, MatchPolicy, Phase, Pod, PodUid, SortKey
from muster.core.reasons import Why
from muster.core.spec import Declaration


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
    mark: TimeoutMark = TimeoutMark.NONE
    told: Why | None = None  # what its owner was told last
    noticed: bool = False  # was told that its settings differ from its gang's

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
        self._count = dict.fromkeys(Phase, 0)
        self._source: Member | None = None

    # ---- settings: of the first member with sound ones; of the oldest when a session opens or they change ----

    @property
    def source(self) -> Member | None:
        return self._source

    @property
    def spec(self) -> GangSpec | None:
        return self._source.declared.spec if self._source else None

    def _elect(self) -> None:
        self._source = min(
            (member for member in self.members.values() if member.declared.spec is not None),
            key=lambda member: member.pod.age_order,
            default=None,
        )

    # ---- members --------------------------------------------------------------------------------------

    def add(self, pod: Pod, declared: Declaration) -> Member:
        member = Member(pod, declared, self)
        if declared.timed_out:
            member.mark = TimeoutMark.SEEN
        self.members[pod.uid] = member
        self._tally(member, +1)
        if declared.spec and not self._source:
            self._source = member
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
        if member is self._source:
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

    def lacking(self) -> int:
        """How many more must be placed for the minimum."""
        return max(0, self.spec.min - self.placed()) if self.spec else 0
