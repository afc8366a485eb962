# SPDX-License-Identifier: Apache-2.0
"""Protobuf <-> core types. The only module that knows both; nothing is decided here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from muster.core import events
from muster.core.decision import Admit, Allow, Decision, Effect, Hold, Mark, Reject, Verdict
from muster.core.model import GangKey, GangObject, Phase, Pod, PodUid, Source
from muster.core.view import GangView, MemberView
from muster.v1 import scheduling_pb2 as pb
from muster.v1 import view_pb2 as view_pb

MAX_REASON = 1024  # what a scheduler will put into an event; a longer one is cut
MAX_UIDS = 20_000  # named in one Directives frame, about 4 MiB: a scheduler takes 16

_STANDING = {
    pb.STANDING_UNSPECIFIED: Phase.PENDING,
    pb.STANDING_WAITING: Phase.WAITING,
    pb.STANDING_BINDING: Phase.BINDING,
}
_SOURCE = {
    pb.GANG_SOURCE_SIGS: Source.SIGS,
    pb.GANG_SOURCE_X_K8S: Source.X_K8S,
    pb.GANG_SOURCE_NATIVE: Source.NATIVE,
}
_VERDICT = {
    Verdict.PASS: pb.VERDICT_PASS,
    Verdict.WAIT: pb.VERDICT_WAIT,
    Verdict.REFUSE: pb.VERDICT_REFUSE,
}


class ContractError(Exception):
    """The scheduler sent a frame that breaks the contract; the text says how."""


def pod(message: pb.Pod) -> Pod:
    if not message.namespace or not message.name:
        raise ContractError(f"pod {message.uid!r} without namespace or name")
    if message.standing not in _STANDING:
        raise ContractError(f"pod {message.uid!r} with unknown standing {message.standing}")
    return Pod(
        uid=_uid(message.uid),
        namespace=message.namespace,
        name=message.name,
        created_ns=message.created_unix_ns,
        priority=message.priority,
        annotations=dict(message.annotations),
        labels=dict(message.labels),
        node=message.node_name,
        gated=message.gated,
        deleting=message.deleting,
        nominated=message.nominated_node,
        scheduling_group=message.scheduling_group,
        standing=_STANDING[message.standing],
        waited=max(0, message.waited_ms) / 1000,
    )


def gang_object(message: pb.GangObject) -> GangObject:
    return GangObject(
        source=_source(message),
        namespace=message.namespace,
        name=message.name,
        uid=_uid(message.uid),
        created_ns=message.created_unix_ns,
        min=message.min if message.HasField("min") else None,
        timeout=message.timeout_seconds if message.HasField("timeout_seconds") else None,
        resources=dict(message.min_resources),
        annotations=dict(message.annotations),
        unreadable=dict(message.unreadable),
    )


def facts(message: pb.Facts) -> Iterator[events.Event]:
    for fact in message.facts:
        match fact.WhichOneof("fact"):
            case "pod":
                yield events.PodSeen(pod(fact.pod))
            case "permit":
                yield _permit(fact.permit, asked=False)
            case "pod_gone":
                yield events.PodGone(_uid(fact.pod_gone.uid))
            case "unreserve":
                yield events.Unreserve(_uid(fact.unreserve.uid))
            case "commit_report":
                report = fact.commit_report
                yield events.CommitReport(report.commit, tuple(_uid(uid) for uid in report.missing))
            case "post_filter":
                yield _post_filter(fact.post_filter, asked=False)
            case "gang_object":
                yield events.ObjectSeen(gang_object(fact.gang_object))
            case "gang_object_gone":
                gone = fact.gang_object_gone
                yield events.ObjectGone(_source(gone), gone.namespace, gone.name, _uid(gone.uid))
            case "namespace":
                if not fact.namespace.name:
                    raise ContractError("a namespace without a name")
                yield events.NamespaceSeen(fact.namespace.name, dict(fact.namespace.labels))
            case "capacity":
                yield events.Capacity(dict(fact.capacity.allocatable))
            case "room":
                yield events.Room()
            case _:
                raise ContractError("an empty fact")


@dataclass
class Snapshot:
    """What stands between Hello and Synced; the last word about each thing counts."""

    pods: dict[PodUid, Pod] = field(default_factory=dict)
    objects: dict[tuple[Source, GangKey], GangObject] = field(default_factory=dict)
    namespaces: dict[str, events.NamespaceSeen] = field(default_factory=dict)
    capacity: Mapping[str, int] | None = None

    def add(self, message: pb.Facts) -> None:
        for fact in facts(message):
            match fact:
                case events.PodSeen(seen):
                    self.pods[seen.uid] = seen
                case events.ObjectSeen(declared):
                    self.objects[declared.source, declared.key] = declared
                case events.NamespaceSeen(name):
                    self.namespaces[name] = fact
                case events.Capacity(allocatable):
                    self.capacity = allocatable
                case _:
                    raise ContractError(f"{type(fact).__name__} may not stand between Hello and Synced")

    def event(self) -> events.Synchronize:
        return events.Synchronize(
            tuple(self.pods.values()), tuple(self.objects.values()), tuple(self.namespaces.values()), self.capacity
        )


def call(frame: pb.SchedulerFrame) -> events.Event:
    """The event of any frame that is neither Hello, Facts nor Synced."""
    match frame.WhichOneof("body"):
        case "pre_filter":
            return events.PreFilter(_checked(frame.pre_filter, asked=True))
        case "post_filter":
            return _post_filter(frame.post_filter, asked=True)
        case "permit":
            return _permit(frame.permit, asked=True)
        case body:
            raise ContractError(f"unexpected frame {body or 'without a body'}")


def reply(frame: pb.SchedulerFrame, decision: Decision) -> pb.ServerFrame:
    """The reply to a call."""
    match frame.WhichOneof("body"):
        case "pre_filter":
            passed = decision.verdict is Verdict.PASS
            answer = pb.PreFilterReply(
                call_id=frame.pre_filter.call_id, **{"pass": passed}, reason=_cut(decision.reason)
            )
            return pb.ServerFrame(pre_filter=answer)
        case "post_filter":
            return pb.ServerFrame(
                post_filter=pb.PostFilterReply(
                    call_id=frame.post_filter.call_id,
                    may_preempt=decision.verdict is Verdict.PASS,
                    reason=_cut(decision.reason),
                    whole_with=decision.whole_with,
                )
            )
        case _:
            permit = pb.PermitReply(
                call_id=frame.permit.call_id, verdict=_VERDICT[decision.verdict], reason=_cut(decision.reason)
            )
            if decision.allow is not None:
                permit.allow.CopyFrom(_allow(decision.allow))
            return pb.ServerFrame(permit=permit)


def directives(effects: Iterable[Effect]) -> Iterator[pb.ServerFrame]:
    """The effects the scheduler has to apply, in order, in one frame unless they are very many. Marks are not its
    business."""
    listed: list[pb.Directive] = []
    uids = 0
    for effect in effects:
        if isinstance(effect, Mark):
            continue
        named = len(effect.members) if isinstance(effect, Admit) else len(effect.uids)
        if listed and uids + named > MAX_UIDS:
            yield pb.ServerFrame(directives=pb.Directives(directives=listed))
            listed, uids = [], 0
        listed.append(_directive(effect))
        uids += named
    if listed:
        yield pb.ServerFrame(directives=pb.Directives(directives=listed))


def _directive(effect: Admit | Hold | Allow | Reject) -> pb.Directive:
    match effect:
        case Admit():
            members = [
                pb.Admission(
                    uid=uid,
                    key=pb.SortKey(
                        priority=key.priority, created_unix_ns=key.created_ns, gang=key.gang, index=key.index
                    ),
                )
                for uid, key in effect.members
            ]
            admit = pb.Admit(
                group=effect.group,
                cycle=effect.cycle,
                members=members,
                quiet_permits=effect.quiet_permits,
                wait_ms=round(effect.wait * 1000),
                free=effect.free,
            )
            return pb.Directive(admit=admit)
        case Hold():
            return pb.Directive(hold=pb.Hold(uids=effect.uids, reason=_cut(effect.reason)))
        case Allow():
            return pb.Directive(allow=_allow(effect))
        case Reject():
            return pb.Directive(reject=pb.Reject(uids=effect.uids, reason=_cut(effect.reason)))


def gang(seen: GangView) -> view_pb.Gang:
    namespace, _, name = seen.key.partition("/")
    return view_pb.Gang(
        namespace=namespace,
        name=name,
        phase=seen.phase.value,
        reason=seen.why.reason.value if seen.why else "",
        sentence=seen.why.sentence if seen.why else "",
        min=seen.min,
        total=seen.total,
        mode=seen.mode,
        group=seen.group,
        cycle=seen.cycle,
        deadline_ms=_milliseconds(seen.deadline_in),
        retry_ms=_milliseconds(seen.retry_in),
        created_unix_ns=seen.created_ns,
        last_failure=seen.last_failure,
        members=[_member(member) for member in seen.members],
    )


def _member(seen: MemberView) -> view_pb.Member:
    return view_pb.Member(
        uid=seen.uid,
        name=seen.name,
        phase=seen.phase.value,
        node_name=seen.node,
        failures=seen.failures,
        reason=seen.why.reason.value if seen.why else "",
        sentence=seen.why.sentence if seen.why else "",
    )


def _permit(request: pb.PermitRequest, asked: bool) -> events.Permit:
    return events.Permit(_checked(request, asked), request.node_name, asked, request.went)


def _post_filter(request: pb.PostFilterRequest, asked: bool) -> events.PostFilter:
    return events.PostFilter(_checked(request, asked), request.message[:MAX_REASON])


def _checked(request: pb.PreFilterRequest | pb.PostFilterRequest | pb.PermitRequest, asked: bool) -> PodUid:
    """The uid of a request that has a call id if, and only if, it is a call."""
    if (request.call_id != 0) is not asked:
        raise ContractError(f"{type(request).__name__} as a {'call without' if asked else 'fact with'} a call_id")
    return _uid(request.uid)


def _allow(effect: Allow) -> pb.Allow:
    return pb.Allow(commit=effect.commit, uids=effect.uids)


def _uid(text: str) -> PodUid:
    if not text:
        raise ContractError("an empty uid")
    return PodUid(text)


def _source(message: pb.GangObject | pb.GangObjectGone) -> Source:
    if message.source not in _SOURCE or not message.namespace or not message.name:
        raise ContractError(f"gang object {message.uid!r} without a known source, namespace and name")
    return _SOURCE[message.source]


def _cut(reason: str) -> str:
    return reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 1] + "…"


def _milliseconds(seconds: float | None) -> int:
    return -1 if seconds is None else round(seconds * 1000)
