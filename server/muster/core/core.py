# SPDX-License-Identifier: Apache-2.0
"""Core: one door in, one decision out. Finds the gang and group an event is about and hands it over."""

from collections.abc import Mapping, Sequence
from typing import assert_never

from muster.core import events, reasons
from muster.core.decision import Allow, Decision, Effect, Reject, Verdict
from muster.core.explain import sentence, untold
from muster.core.group import Group
from muster.core.model import GangKey, GangObject, GroupId, Phase, Pod, PodUid
from muster.core.reasons import Explanation
from muster.core.roster import Policy, Roster

__all__ = ["Core", "Policy"]

UNKNOWN = "not known to muster-server"

SETTLED = 0.5  # seconds in which nothing happened to a group before its members' owners are told why it is held
PATIENCE = 5.0  # seconds after which they are told although it does not come to rest


class Core(Roster):
    """Not thread-safe and needs not be: the caller hands in one event at a time."""

    # ---- the door ---------------------------------------------------------------------------------------

    def handle(self, event: events.Event, now: float) -> Decision:
        """Take in one event. Repeated, late and unknown ones change nothing."""
        out: list[Effect] = []
        match event:
            case events.PodSeen(pod):
                return self._pod_seen(pod, now, out)
            case events.PodGone(uid):
                return self._pod_gone(uid, now, out)
            case events.ObjectSeen(seen):
                return self._object_seen(seen, now, out)
            case events.ObjectGone():
                return self._object_gone(event, now, out)
            case events.NamespaceSeen():
                return self._namespace_seen(event, now, out)
            case events.Capacity(allocatable):
                return self._capacity(allocatable, now, out)
            case events.Permit():
                return self._permit(event, now, out)
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
            case events.Synchronize():
                return self._synchronize(event, now, out)
        assert_never(event)

    def next_due(self) -> float | None:
        """When the next Tick is wanted."""
        return self._agenda.next()

    def explanations(self, now: float) -> list[Explanation]:
        """What the owners of pods have not been told yet. Asked for a few times a second. A group in which something
        just happened is left for later, so that a gang which arrives in a burst is explained once, or not at all if
        it runs a moment later, and not once for every member."""
        told: list[Explanation] = []
        for stray in self.strays.values():
            if not stray.told:
                stray.told = True
                pod, why = stray.pod, reasons.invalid(stray.declared.problems)
                told.append(Explanation(pod.uid, pod.namespace, pod.name, None, why))
        for group in list(self._unexplained.values()):
            if now - group.stirred_at < SETTLED and now - group.untold_since < PATIENCE:
                continue
            news, more = untold(group)
            told.extend(news)
            if not more:
                del self._unexplained[group.id]
        return told

    def group_of(self, gang: GangKey) -> Group:
        return self._group_of[gang]

    def pod(self, uid: PodUid) -> Pod | None:
        member = self._members.get(uid)
        return member.pod if member else None

    # ---- facts ------------------------------------------------------------------------------------------

    def _synchronize(self, all_there_is: events.Synchronize, now: float, out: list[Effect]) -> Decision:
        self._reset()
        # The scheduler may still report on an order of the last session, or of a server before this one.
        self._last_commit = max(self._last_commit, int(now * 1000))
        self._surroundings.capacity = all_there_is.capacity
        for namespace in all_there_is.namespaces:
            self._consent(namespace)
        # In this order the settings of a gang change at most once, from none to some: nobody has to change groups
        # before it is known where all the members stand.
        for pod in sorted(all_there_is.pods, key=lambda pod: pod.age_order):
            self._enter(pod, now, out)
        for seen in sorted(all_there_is.objects, key=lambda seen: seen.age_order):
            self._declare(seen, now, out)
        for member in self._members.values():
            self._group_of[member.gang.key].restore(member, now)
        for group in list(self.groups.values()):
            self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _pod_seen(self, pod: Pod, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(pod.uid)
        left = None
        if member is not None and self._declared(member, pod).gang != member.gang.key:
            left, member = member, None  # a pod that changes its gang leaves one and joins another
            self._group_of[left.gang.key].withdraw(left, reasons.changed_gang(left.gang.key, pod.name), out)
            self._exit(left, now, out)
        if member is None:
            member = self._enter(pod, now, out)
            if member is None:
                return Decision(effects=tuple(out))
            if left is not None:
                member.take_over(left)
            group = self._group_of[member.gang.key]
            group.wake(now)
        else:
            before = (member.gang.spec, member.gang.eligible)
            group = self._update(member, pod, now, out)
            if before != (member.gang.spec, member.gang.eligible):
                group.wake(now)
        if pod.node and member.phase is not Phase.BOUND:
            group.bound(member, pod.node)
        elif not member.usable:
            group.withdraw(member, reasons.unusable(member.gang.key, pod.name, member.declared.problems), out)
        self._advance(group, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _pod_gone(self, uid: PodUid, now: float, out: list[Effect]) -> Decision:
        self.strays.pop(uid, None)
        member = self._members.get(uid)
        if member is None:
            return Decision()
        self._exit(member, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _object_seen(self, seen: GangObject, now: float, out: list[Effect]) -> Decision:
        group = self._declare(seen, now, out)
        group.wake(now)
        self._advance(group, now, out)
        return Decision(gang=seen.key, effects=tuple(out))

    def _object_gone(self, gone: events.ObjectGone, now: float, out: list[Effect]) -> Decision:
        gang = self.gangs.get(GangKey(f"{gone.namespace}/{gone.name}"))
        known = gang.objects.get(gone.source) if gang else None
        if gang is None or known is None or known.object.uid != gone.uid:
            return Decision()
        gang.undeclare(gone.source)
        if gang.members or gang.objects:
            group = self._regroup(gang, now, out)
            if gang.spec is None:
                group.start_over(gang)
        else:
            group = self._drop(gang, now, out)
        self._advance(group, now, out)
        return Decision(gang=gang.key, effects=tuple(out))

    def _namespace_seen(self, namespace: events.NamespaceSeen, now: float, out: list[Effect]) -> Decision:
        if self._consent(namespace):
            for group in [group for group in self.groups.values() if namespace.name in group.namespaces]:
                self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _capacity(self, allocatable: Mapping[str, int], now: float, out: list[Effect]) -> Decision:
        self._surroundings.capacity = allocatable
        sized = {gang.key for gang in self.gangs.values() if gang.spec and gang.spec.resources}
        for group in [group for group in self.groups.values() if not sized.isdisjoint(group.gangs)]:
            self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _room(self, now: float, out: list[Effect]) -> Decision:
        """Wake those that did not fit, none of them sooner than one that goes before it in the queue."""
        earliest = now
        for group in sorted(self._backing_off.values(), key=_turn):
            group.wake(earliest)
            earliest = max(earliest, group.retry_at or earliest)
            self._advance(group, now, out)
        return Decision(effects=tuple(out))

    def _tick(self, now: float, out: list[Effect]) -> Decision:
        while due := [self.groups[group_id] for group_id in self._agenda.pop_due(now)]:
            for group in sorted(due, key=_turn):
                self._advance(group, now, out)
            for group in self._standoffs.resolve(now, out):
                self._advance(group, now, out)
        return Decision(effects=tuple(out))

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
        """PASS: pods may be evicted for this one, if it and `whole_with` would then all find a node."""
        member = self._members.get(uid)
        if member is None:
            return Decision(Verdict.REFUSE, UNKNOWN)
        gang, group = member.gang, self._group_of[member.gang.key]
        if group.free(gang):
            if uid in group.trying:
                group.release(member)
                self._advance(group, now, out)
            return Decision(Verdict.PASS, gang=gang.key, effects=tuple(out))
        if uid not in group.trying:
            return Decision(Verdict.REFUSE, sentence(group, member), gang.key)
        # An eviction makes sense only if all that is lacking could be placed: this member and those still to be tried.
        others = group.companions(member)
        why = group.no_node(member, message, now, out)
        self._advance(group, now, out)
        if others is None:
            return Decision(Verdict.REFUSE, why.sentence, gang.key, tuple(out))
        return Decision(Verdict.PASS, why.sentence, gang.key, tuple(out), whole_with=others)

    def _permit(self, event: events.Permit, now: float, out: list[Effect]) -> Decision:
        uid, asked = event.uid, event.asked
        member = self._members.get(uid)
        if member is None:
            return _answer(Verdict.REFUSE, UNKNOWN, None, uid, asked)
        group = self._group_of[member.gang.key]
        verdict = group.place(member, event.node, now, asked, event.went)
        allow = None
        if verdict is Verdict.PASS and member.phase is Phase.WAITING:
            allow = group.commit(self._new_commit(group.id), without=uid if asked else None)
        if verdict is Verdict.WAIT and not group.trying:
            self._advance(group, now, out)  # the picks have all had their try, and more are needed
        else:
            self._touch(group, now)
        told = asked or verdict is Verdict.REFUSE
        reason = sentence(group, member) if told and verdict is not Verdict.PASS else ""
        return _answer(verdict, reason, member.gang.key, uid, asked, allow, out)

    def _unreserve(self, uid: PodUid, now: float, out: list[Effect]) -> Decision:
        member = self._members.get(uid)
        if member is None:
            return Decision()
        group = self._group_of[member.gang.key]
        group.lose(member, now, out)
        self._advance(group, now, out)
        for other in list(group.yields_to.values()):  # it stepped back for these, and here is room
            other.wake(now)
            self._advance(other, now, out)
        return Decision(gang=member.gang.key, effects=tuple(out))

    def _commit_report(self, commit: int, missing: tuple[PodUid, ...], now: float, out: list[Effect]) -> Decision:
        group_id = self._commits.pop(commit, None)
        if group_id is None:
            return Decision()
        group = self.groups[group_id]
        group.committed(commit, missing, now, out)
        if missing:
            self._take_back_elsewhere(commit, missing, now, out)
        told = next(iter(group.gangs))
        for gang in list(group.gangs.values()):  # what changed while the order was on its way
            self._advance(self._regroup(gang, now, out), now, out)
        return Decision(gang=told, effects=tuple(out))

    def _take_back_elsewhere(self, commit: int, missing: tuple[PodUid, ...], now: float, out: list[Effect]) -> None:
        """Members that changed their gang while the order was on its way are not let through either."""
        for member in [m for m in self._members.values() if m.commit == commit and m.phase is Phase.BINDING]:
            group = self._group_of[member.gang.key]
            group.undo(member, missing)
            group.withdraw(member, reasons.lost_place(member.gang.key, member.pod.name, 0), out)
            self._advance(group, now, out)


def _turn(group: Group) -> tuple[int, int, GroupId]:
    """The order of groups in the queue."""
    priority, created = group.rank
    return (-priority, created, group.id)


def _answer(
    verdict: Verdict,
    reason: str,
    gang: GangKey | None,
    uid: PodUid,
    asked: bool,
    allow: Allow | None = None,
    out: Sequence[Effect] = (),
) -> Decision:
    """A verdict at Permit, as a reply or, when the scheduler did not wait for one, as effects."""
    if asked:
        return Decision(verdict, reason, gang, tuple(out), allow=allow)
    effects: list[Effect] = [allow] if allow else []
    if verdict is Verdict.REFUSE:
        effects.append(Reject((uid,), reason))
    return Decision(Verdict.NONE, reason, gang, (*effects, *out))
