# SPDX-License-Identifier: Apache-2.0
"""Core: one door in, one decision out. Finds the gang and group an event is about and hands it over."""

from dataclasses import dataclass, field
from typing import assert_never

from muster.core import events, reasons
from muster.core.agenda import Agenda
from muster.core.decision import Allow, Decision, Effect, Reject, Verdict
from muster.core.explain import sentence, untold
from muster.core.gang import Gang, Member
from muster.core.group import Group
from muster.core.model import GangKey, GroupId, Phase, Pod, PodUid
from muster.core.reasons import Explanation
from muster.core.spec import Declaration, Defaults, declare

UNKNOWN = "not known to muster-server"


@dataclass(frozen=True, slots=True)
class Policy:
    """What an administrator sets for all gangs."""

    defaults: Defaults = field(default_factory=Defaults)


@dataclass(slots=True)
class Stray:
    """A pod with gang keys that names no gang: held alone."""

    pod: Pod
    declared: Declaration
    told: bool = False


class Core:
    """All state. Not thread-safe and needs not be: the caller hands in one event at a time."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._reset()

    def _reset(self) -> None:
        self.gangs: dict[GangKey, Gang] = {}
        self.groups: dict[GroupId, Group] = {}
        self.strays: dict[PodUid, Stray] = {}
        self._members: dict[PodUid, Member] = {}
        self._group_of: dict[GangKey, Group] = {}
        self._commits: dict[int, GroupId] = {}
        self._last_commit = 0
        self._agenda = Agenda()
        self._backing_off: dict[GroupId, Group] = {}
        self._unexplained: dict[GroupId, Group] = {}

    # ---- the door ---------------------------------------------------------------------------------------

    def handle(self, event: events.Event, now: float) -> Decision:
        """Take in one event. Repeated, late and unknown ones change nothing."""
        out: list[Effect] = []
        match event:
            case events.PodSeen(pod):
                return self._pod_seen(pod, now, out)
            case events.PodGone(uid):
                return self._pod_gone(uid, now, out)
            case events.Permit(uid, node, asked):
                return self._permit(uid, node, asked, now, out)
            case events.PreFilter(uid):
                return self._pre_filter(uid, now, out)
            case events.PostFilter(uid, message):
                return self._post_filter(uid, message, now, out)
            case events.Unreserve(uid):
                return self._unreserve(uid, now, out)
            case events.CommitReport(commit, missing):
                return self._commit_report(commit, missing, now, out)
            case events.Room():
                return self._room(now, out)
            case events.Tick():
                return self._tick(now, out)
            case events.Synchronize(pods):
                return self._synchronize(pods, now, out)
        assert_never(event)

    def next_due(self) -> float | None:
        """When the next Tick is wanted."""
        return self._agenda.next()

    def explanations(self) -> list[Explanation]:
        """What the owners of pods have not been told yet. Asked for a few times a second, not at every event, so
        that a gang which arrives in a burst is explained once and not once for every member."""
        told: list[Explanation] = []
        for stray in self.strays.values():
            if not stray.told:
                stray.told = True
                pod, why = stray.pod, reasons.invalid(stray.declared.problems)
                told.append(Explanation(pod.uid, pod.namespace, pod.name, None, why))
        groups, self._unexplained = self._unexplained, {}
        for group in groups.values():
            told.extend(untold(group))
        return told

    def group_of(self, gang: GangKey) -> Group:
        return self._group_of[gang]

    def pod(self, uid: PodUid) -> Pod | None:
        member = self._members.get(uid)
        return member.pod if member else None

    # ---- facts ------------------------------------------------------------------------------------------

    def _synchronize(self, pods: tuple[Pod, ...], now: float, out: list[Effect]) -> Decision:
        self._reset()
        for pod in sorted(pods, key=lambda pod: pod.age_order):
            self._enter(pod, now, out)
        for member in self._members.values():
            self._group_of[member.gang.key].restore(member, now)
        for group in list(self.groups.values()):
            self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _pod_seen(self, pod: Pod, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(pod.uid)
        if member is not None and self._declared(member, pod).gang != member.gang.key:
            self._exit(member, now, out)  # a pod that changes its gang leaves one and joins another
            member = None
        if member is None:
            member = self._enter(pod, now, out)
            if member is None:
                return Decision(effects=tuple(out))
            group = self._group_of[member.gang.key]
            group.wake(now)
        else:
            group = self._update(member, pod, now, out)
        if pod.node and member.phase is not Phase.BOUND:
            group.bound(member, pod.node)
        elif not member.usable:
            group.withdraw(member, out)
        self._advance(group, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _pod_gone(self, uid: PodUid, now: float, out: list[Effect]) -> Decision:
        self.strays.pop(uid, None)
        member = self._members.get(uid)
        if member is None:
            return Decision()
        self._exit(member, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _room(self, now: float, out: list[Effect]) -> Decision:
        for group in list(self._backing_off.values()):
            group.wake(now)
            self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _tick(self, now: float, out: list[Effect]) -> Decision:
        for group_id in self._agenda.pop_due(now):
            self._advance(self.groups[group_id], now, out)
        return Decision(effects=tuple(out))

    # ---- who belongs where ------------------------------------------------------------------------------

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
        gang = self.gangs.get(declared.gang)
        if gang is None:
            gang = self.gangs[declared.gang] = Gang(declared.gang)
        member = self._members[pod.uid] = gang.add(pod, declared)
        self._link(gang, now, out)
        return member

    def _update(self, member: Member, pod: Pod, now: float, out: list[Effect]) -> Group:
        member.gang.update(member, pod, self._declared(member, pod))
        return self._link(member.gang, now, out)

    def _exit(self, member: Member, now: float, out: list[Effect]) -> None:
        gang = member.gang
        group = self._group_of[gang.key]
        del self._members[member.uid]
        group.forget(member)
        gang.remove(member)
        if gang.members:
            group = self._link(gang, now, out)
        else:
            del self.gangs[gang.key], self._group_of[gang.key]
            self._leave(gang, group, out)
        self._advance(group, now, out)

    def _link(self, gang: Gang, now: float, out: list[Effect]) -> Group:
        """Put the gang into the group its settings name. Gangs that name the same set are in one group; a gang
        that names a set alone stays alone in it, so listing somebody else's gang affects nobody else."""
        wanted = gang.spec.group if gang.spec else (gang.key,)
        group_id = GroupId(",".join(wanted))
        old = self._group_of.get(gang.key)
        if old is not None and old.id == group_id:
            return old
        if old is not None:
            self._leave(gang, old, out)
            self._advance(old, now, out)
        new = self.groups.get(group_id)
        if new is None:
            new = self.groups[group_id] = Group(group_id, wanted)
        if old is not None and len(new.gangs) == 0:
            new.satisfied = old.satisfied
        new.gangs[gang.key] = gang
        self._group_of[gang.key] = new
        return new

    def _leave(self, gang: Gang, group: Group, out: list[Effect]) -> None:
        group.expel(gang, out)
        if not group.gangs:
            del self.groups[group.id]
            self._agenda.set(group.id, None)
            self._backing_off.pop(group.id, None)
            self._unexplained.pop(group.id, None)
            for commit in group.commits:
                self._commits.pop(commit, None)

    # ---- calls ------------------------------------------------------------------------------------------

    def _pre_filter(self, uid: PodUid, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(uid)
        if member is None:
            return Decision(Verdict.REFUSE, UNKNOWN)
        gang, group = member.gang, self._group_of[member.gang.key]
        if group.free(gang) and member.usable:
            return Decision(Verdict.PASS, gang=gang.key)
        if uid in group.trying:
            if member.pod.nominated:  # it made room for itself: one more try
                return Decision(Verdict.PASS, gang=gang.key)
            # Its last try ended and nobody said how, for example because there is no node at all.
            group.no_node(member, "its last try came to nothing", now, out)
        self._advance(group, now, out)
        return Decision(Verdict.REFUSE, sentence(group, member), gang.key, tuple(out))

    def _post_filter(self, uid: PodUid, message: str, now: float, out: list[Effect]) -> Decision:
        """PASS: others may be evicted for this pod."""
        member = self._members.get(uid)
        if member is None:
            return Decision(Verdict.REFUSE, UNKNOWN)
        gang, group = member.gang, self._group_of[member.gang.key]
        if group.free(gang):
            return Decision(Verdict.PASS, gang=gang.key)
        if uid not in group.trying:
            return Decision(Verdict.REFUSE, sentence(group, member), gang.key)
        completes = group.lacking() == 1 and gang.lacking() == 1
        why = group.no_node(member, message, now, out)
        self._advance(group, now, out)
        return Decision(Verdict.PASS if completes else Verdict.REFUSE, why.sentence, gang.key, tuple(out))

    def _permit(self, uid: PodUid, node: str, asked: bool, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(uid)
        if member is None:
            return _answer(Verdict.REFUSE, UNKNOWN, None, uid, asked)
        group = self._group_of[member.gang.key]
        verdict = group.place(member, node, now)
        allow = None
        if verdict is Verdict.PASS and member.phase is Phase.WAITING:
            allow = group.commit(self._new_commit(group.id), without=uid if asked else None)
        self._touch(group)
        reason = "" if verdict is Verdict.PASS else sentence(group, member)
        return _answer(verdict, reason, member.gang.key, uid, asked, allow)

    def _unreserve(self, uid: PodUid, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(uid)
        if member is None:
            return Decision()
        group = self._group_of[member.gang.key]
        group.lose(member, now, out)
        self._advance(group, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _commit_report(self, commit: int, missing: tuple[PodUid, ...], now: float, out: list[Effect]) -> Decision:
        group_id = self._commits.pop(commit, None)
        if group_id is None:
            return Decision()
        group = self.groups[group_id]
        group.committed(commit, missing, now, out)
        self._advance(group, now, out)
        return Decision(gang=next(iter(group.gangs)), effects=tuple(out))

    # ---- after every event ------------------------------------------------------------------------------

    def _new_commit(self, group: GroupId) -> int:
        self._last_commit += 1
        self._commits[self._last_commit] = group
        return self._last_commit

    def _advance(self, group: Group, now: float, out: list[Effect]) -> None:
        if group.gangs:
            group.advance(now, self._new_commit, out)
            self._touch(group)

    def _touch(self, group: Group) -> None:
        """Keep the agenda and the other lists in step with the group."""
        self._agenda.set(group.id, group.due())
        if group.retry_at is not None:
            self._backing_off[group.id] = group
        else:
            self._backing_off.pop(group.id, None)
        self._unexplained[group.id] = group


def _answer(
    verdict: Verdict, reason: str, gang: GangKey | None, uid: PodUid, asked: bool, allow: Allow | None = None
) -> Decision:
    """A verdict at Permit, as a reply or, when the scheduler did not wait for one, as effects."""
    if asked:
        return Decision(verdict, reason, gang, allow=allow)
    effects: tuple[Effect, ...] = (allow,) if allow else ()
    if verdict is Verdict.REFUSE:
        effects = (Reject((uid,), reason),)
    return Decision(Verdict.NONE, reason, gang, effects)
