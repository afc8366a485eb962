# SPDX-License-Identifier: Apache-2.0
"""Who belongs where: pods to gangs, objects to gangs, gangs to groups. All state of the core is held here."""

from dataclasses import dataclass, field

from muster.core import events
from muster.core.agenda import Agenda
from muster.core.decision import Effect
from muster.core.gang import Gang, Member
from muster.core.group import Group
from muster.core.model import GangKey, GangObject, GroupId, Pod, PodUid, Surroundings
from muster.core.spec import CONSENT, CONSENTS, Declaration, Defaults, declare, declare_object
from muster.core.standoff import GRACE, Standoffs


@dataclass(frozen=True, slots=True)
class Policy:
    """What an administrator sets for all gangs."""

    defaults: Defaults = field(default_factory=Defaults)
    standoff_grace: float = GRACE  # seconds without progress after which one of several stuck groups steps back


@dataclass(slots=True)
class Stray:
    """A pod with gang keys that names no gang: held alone."""

    pod: Pod
    declared: Declaration
    told: bool = False


class Roster:
    """The base of Core, which knows what can happen."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._last_commit = 0
        self._reset()

    def _reset(self) -> None:
        self.gangs: dict[GangKey, Gang] = {}
        self.groups: dict[GroupId, Group] = {}
        self.strays: dict[PodUid, Stray] = {}
        self._surroundings = Surroundings()
        self._members: dict[PodUid, Member] = {}
        self._group_of: dict[GangKey, Group] = {}
        self._commits: dict[int, GroupId] = {}
        self._agenda = Agenda()
        self._standoffs = Standoffs(self._policy.standoff_grace)
        self._backing_off: dict[GroupId, Group] = {}
        self._unexplained: dict[GroupId, Group] = {}

    # ---- members and objects ----------------------------------------------------------------------------

    def _declared(self, member: Member, pod: Pod) -> Declaration:
        if pod.annotations == member.pod.annotations and pod.labels == member.pod.labels:
            return member.declared
        return declare(pod, self._policy.defaults)

    def _enter(self, pod: Pod, now: float, out: list[Effect]) -> Member | None:
        declared = declare(pod, self._policy.defaults)
        self.strays.pop(pod.uid, None)
        if declared.gang is None:
            self.strays[pod.uid] = Stray(pod, declared)
            return None
        gang = self._gang(declared.gang)
        member = self._members[pod.uid] = gang.add(pod, declared)
        self._regroup(gang, now, out)
        return member

    def _update(self, member: Member, pod: Pod, now: float, out: list[Effect]) -> Group:
        member.gang.update(member, pod, self._declared(member, pod))
        return self._regroup(member.gang, now, out)

    def _declare(self, seen: GangObject, now: float, out: list[Effect]) -> Group:
        gang = self._gang(seen.key)
        known = gang.objects.get(seen.source)
        gang.declare(declare_object(seen, self._policy.defaults))
        group = self._regroup(gang, now, out)
        if known is not None and known.object.uid != seen.uid:
            group.start_over(gang)
        return group

    def _consent(self, namespace: events.NamespaceSeen) -> bool:
        """Take in whether gangs of this namespace may start with those of others; says if that is news."""
        consenting = self._surroundings.consenting
        consents = namespace.labels.get(CONSENT) == CONSENTS
        if consents == (namespace.name in consenting):
            return False
        consenting.symmetric_difference_update({namespace.name})
        return True

    def _gang(self, key: GangKey) -> Gang:
        gang = self.gangs.get(key)
        if gang is None:
            gang = self.gangs[key] = Gang(key)
        return gang

    def _exit(self, member: Member, now: float, out: list[Effect]) -> None:
        gang = member.gang
        group = self._group_of[gang.key]
        del self._members[member.uid]
        group.forget(member)
        gang.remove(member)
        if gang.members:
            group = self._regroup(gang, now, out)
        else:
            self._drop(gang, now, out)
            if gang.objects:  # it starts over: what earlier members had reached is over
                self.gangs[gang.key] = gang
                self._advance(self._link(gang, now, out), now, out)
        self._advance(group, now, out)

    def _drop(self, gang: Gang, now: float, out: list[Effect]) -> Group:
        """Nothing is known of the gang any more."""
        del self.gangs[gang.key]
        group = self._group_of.pop(gang.key)
        self._leave(gang, group, now, out)
        return group

    def _regroup(self, gang: Gang, now: float, out: list[Effect]) -> Group:
        """The gang's settings may have changed: see that it is in the right group, and that a wait which is under way
        has the length it should have now."""
        before = self._group_of.get(gang.key)
        group = self._link(gang, now, out)
        if group is before and group.deadline is not None and gang.spec is not None:
            group.deadline += group.wait - group.waits
        group.waits = group.wait
        return group

    def _link(self, gang: Gang, now: float, out: list[Effect]) -> Group:
        """Put the gang into the group its settings name. Gangs that name the same set are in one group; a gang
        that names a set alone stays alone in it, so listing somebody else's gang affects nobody else."""
        wanted = gang.spec.group if gang.spec else (gang.key,)
        group_id = GroupId(",".join(wanted))
        old = self._group_of.get(gang.key)
        if old is not None and (old.id == group_id or old.commits):
            return old  # while members are being let through the group stays as it is; _commit_report comes back to it
        if old is not None:
            self._leave(gang, old, now, out)
            self._advance(old, now, out)
        new = self.groups.get(group_id)
        if new is None:
            new = self.groups[group_id] = Group(group_id, wanted, self._surroundings)
        new.gangs[gang.key] = gang
        self._group_of[gang.key] = new
        return new

    def _leave(self, gang: Gang, group: Group, now: float, out: list[Effect]) -> None:
        group.expel(gang, out)
        group.waits = group.wait
        if not group.gangs:
            del self.groups[group.id]
            self._agenda.set(group.id, None)
            self._standoffs.forget(group, now)
            self._call_back(now)
            self._backing_off.pop(group.id, None)
            self._unexplained.pop(group.id, None)
            for commit in group.commits:
                self._commits.pop(commit, None)

    # ---- after every event ------------------------------------------------------------------------------

    def _new_commit(self, group: GroupId) -> int:
        self._last_commit += 1
        self._commits[self._last_commit] = group
        return self._last_commit

    def _advance(self, group: Group, now: float, out: list[Effect]) -> None:
        if group.gangs:
            group.advance(now, self._new_commit, out)
            self._touch(group, now)

    def _call_back(self, now: float) -> None:
        for group in self._standoffs.returned():
            self._agenda.set(group.id, now)

    def _touch(self, group: Group, now: float) -> None:
        """Keep the agenda and the other lists in step with the group."""
        instants = (group.due(), self._standoffs.watch(group, now))
        self._agenda.set(group.id, min((at for at in instants if at is not None), default=None))
        self._call_back(now)
        if group.retry_at is not None:
            self._backing_off[group.id] = group
        else:
            self._backing_off.pop(group.id, None)
        group.stirred_at = now
        if group.id not in self._unexplained:
            group.untold_since = now
            self._unexplained[group.id] = group
