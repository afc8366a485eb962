# SPDX-License-Identifier: Apache-2.0
"""Why each member is where it is, and who has not been told yet."""

from muster.core import reasons
from muster.core.gang import Gang, Member
from muster.core.group import Group
from muster.core.model import Phase
from muster.core.reasons import Explanation, Why


def why(group: Group, member: Member, obstacle: Why | None) -> Why | None:
    """What holds this member; None when nothing does: it runs, is about to, or has its turn in the queue.

    `obstacle` is the group's, computed once by the caller for all of its members.
    """
    if member.declared.problems:
        return reasons.invalid(member.declared.problems)
    gang = member.gang
    if member.phase in (Phase.BINDING, Phase.BOUND) or group.free(gang):
        return None
    if obstacle is not None:
        return obstacle
    if gang.spec is None or member.uid in group.trying or not member.usable:
        return None
    if member.phase is Phase.WAITING:
        return reasons.waiting_for_quorum(gang.key, gang.placed(), gang.spec.min)
    if group.failure is not None and (group.retry_at is not None or member.tried == group.cycle or group.probing()):
        return group.failure
    return reasons.surplus(gang.key, gang.spec.min)


def sentence(group: Group, member: Member) -> str:
    """The answer to a member that may not go on."""
    said = why(group, member, group.obstacle())
    return said.sentence if said else f"gang {member.gang.key} is not admitted"


def untold(group: Group) -> tuple[list[Explanation], bool]:
    """What differs from what the members' owners were told last, and whether more is to be told the next time: a pod
    is told one thing at a time, what holds it first."""
    obstacle = group.obstacle()
    news: list[Explanation] = []
    more = False
    for gang in group.gangs.values():
        about_objects = _about_objects(gang)
        for member in gang.members.values():
            said, noticed = why(group, member, obstacle), _about_pod(member) or about_objects
            if said != member.told:
                member.told = said
                news.append(_explanation(member, said))
                more |= noticed not in (None, member.noticed)
                continue
            if noticed not in (None, member.noticed):
                news.append(_explanation(member, noticed))
            member.noticed = noticed
    return news, more


def _about_pod(member: Member) -> Why | None:
    """That settings on this pod do not count, if it has such."""
    gang, declared = member.gang, member.declared
    if gang.spec is None or (declared.spec in (None, gang.spec) and not declared.unused):
        return None
    unused = ", ".join(declared.unused) + " of this pod " + ("is" if len(declared.unused) == 1 else "are")
    return reasons.settings_differ(
        gang.key, _holder(gang), unused if declared.unused else "those of this pod differ and are"
    )


def _about_objects(gang: Gang) -> Why | None:
    """That settings of objects do not count, if there are such."""
    unused = [declared.object.source.value for declared in gang.ranked() if declared.spec != gang.spec]
    if gang.spec is None or not unused:
        return None
    return reasons.settings_differ(
        gang.key, _holder(gang), f"those of {' and '.join(unused)} {gang.key} differ and are"
    )


def _holder(gang: Gang) -> str:
    if gang.source is not None:
        return f"its oldest member {gang.source.pod.name}"
    return gang.ranked()[0].object.source.value


def _explanation(member: Member, said: Why | None) -> Explanation:
    return Explanation(member.uid, member.pod.namespace, member.pod.name, member.gang.key, said)
