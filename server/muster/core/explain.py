# SPDX-License-Identifier: Apache-2.0
"""Why each member is where it is, and who has not been told yet."""

from collections.abc import Iterator

from muster.core import reasons
from muster.core.gang import Member
from muster.core.group import Group
from muster.core.model import Phase
from muster.core.reasons import Explanation, Why


def why(group: Group, member: Member, obstacle: Why | None) -> Why | None:
    """What holds this member; None when nothing does: it runs, is about to, or has its turn in the queue.

    `obstacle` is the group's, computed once by the caller for all of its members.
    """
    if member.declared.problems:
        return reasons.invalid(member.declared.problems)
    if member.phase in (Phase.BINDING, Phase.BOUND):
        return None
    if obstacle is not None:
        return obstacle
    gang = member.gang
    if gang.spec is None or group.free(gang) or member.uid in group.trying:
        return None
    if member.phase is Phase.WAITING:
        return reasons.waiting_for_quorum(gang.key, gang.placed(), gang.spec.min)
    if group.failure is not None and (group.retry_at is not None or member.tried == group.cycle):
        return group.failure
    return reasons.surplus(gang.key, gang.spec.min) if group.running else None


def sentence(group: Group, member: Member) -> str:
    """The answer to a member that may not go on."""
    said = why(group, member, group.obstacle())
    return said.sentence if said else f"gang {member.gang.key} is not admitted"


def untold(group: Group) -> Iterator[Explanation]:
    """Explanations that differ from what the members' owners were told last."""
    obstacle = group.obstacle()
    for member in group.members():
        said = why(group, member, obstacle)
        if said != member.told:
            member.told = said
            yield _explanation(member, said)
        source = member.gang.source
        if source and not member.noticed and member.declared.spec not in (None, source.declared.spec):
            member.noticed = True
            yield _explanation(member, reasons.settings_differ(member.gang.key, source.pod.name))


def _explanation(member: Member, said: Why | None) -> Explanation:
    return Explanation(member.uid, member.pod.namespace, member.pod.name, member.gang.key, said)
