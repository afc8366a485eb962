# SPDX-License-Identifier: Apache-2.0
"""What a person can do about each reason. docs/reasons.md shows the same words; the tests keep the table closed."""

from muster.core.reasons import Reason
from muster.core.spec import GROUPS, MIN, ON_TIMEOUT, TIMEOUT, WAIT

CROSS_NAMESPACE = "gang.muster.dev/cross-namespace-groups: allowed"

HINTS: dict[Reason, str] = {
    Reason.NOT_ENOUGH_MEMBERS: (
        "Create the missing pods; the gang is tried as soon as they exist. If they should exist, look at the controller"
        f" that creates them, or at a quota that stops it. If fewer are enough, lower {MIN}, or spec.minMember of the"
        " PodGroup."
    ),
    Reason.INVALID_GANG: (
        "Correct the value that the sentence names and create the pods again. Nothing of the gang is scheduled before."
    ),
    Reason.MISSING_POD_GROUP: (
        "Create the PodGroup in the namespace of the pods, or correct the name in their label. The gang goes on by"
        " itself when the PodGroup exists."
    ),
    Reason.GROUP_INCOMPLETE: (
        f"Create the other gangs, and let each of them list the same gangs in {GROUPS}. A name that is wrong in one"
        " list holds all."
    ),
    Reason.GROUP_NOT_ALLOWED: (
        "Gangs of different namespaces start together only if an administrator has set the label"
        f" {CROSS_NAMESPACE} on each of the namespaces, and if each gang lists the other."
    ),
    Reason.TOO_BIG_FOR_CLUSTER: (
        "Add nodes, or ask for less in spec.minResources of the PodGroup. The gang goes on by itself when the nodes"
        " that are not cordoned have that much, used or not."
    ),
    Reason.NO_ROOM: (
        "The sentence has the scheduler's own words for why no node takes this member. Free or add room, or ask for"
        " less. The gang is tried again by itself, and at once when a node or a place becomes free."
    ),
    Reason.LOST_PLACE: (
        "Nothing has to be done: the gang is tried again. If it happens over and over, see whether pods of higher"
        " priority take the places, or whether members are deleted while they wait."
    ),
    Reason.GAVE_WAY: (
        "Nothing has to be done: the gang is tried again when the other has started, or gave up, or after a minute or"
        " two. Among gangs that hold on to room each other need the least important one steps back: see priorities."
    ),
    Reason.WAITING_FOR_QUORUM: (
        "Nothing has to be done while the others are being placed. If it takes long, the members without a place say"
        " what they lack: see WHY below."
    ),
    Reason.SURPLUS: (
        "Nothing has to be done: members past the minimum follow when the gang has its minimum. To start them together"
        f" with the others, raise {MIN}."
    ),
    Reason.TIMED_OUT: (
        f"See that there is room for the minimum, then remove the annotation {TIMEOUT} from all pods of the gang, or"
        f" create them again. {WAIT} gives a gang more time, and {ON_TIMEOUT}: Retry lets it try again by itself."
    ),
    Reason.SETTINGS_DIFFER: (
        "The gang is scheduled by the settings that the sentence names: those on pods come before those of a PodGroup,"
        " and older ones before newer ones. Remove the others, or make them the same."
    ),
}


def hint(reason: str) -> str:
    """Empty for a reason this version does not know: the server may be newer."""
    try:
        return HINTS[Reason(reason)]
    except ValueError:
        return ""
