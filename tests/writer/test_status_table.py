# SPDX-License-Identifier: Apache-2.0
"""The table of phases and conditions, row by row. S and # are the scenarios of Koordinator and of coscheduling."""

from typing import Any

import pytest

from muster.core.model import GangKey
from muster.writer.status.model import Held, Member, PodGroup
from muster.writer.status.table import CONDITION, Counts, condition, count, differing, only_words, phase, status

T0, T1 = "2031-01-01T00:00:00Z", "2031-01-01T01:00:00Z"
FREE = Held()
NO_ROOM = Held("NoRoom", "no node for member p1 of gang a/train")

# A letter for each kind of pod.
KINDS: dict[str, dict[str, Any]] = {
    "p": {"phase": "Pending"},
    "g": {"phase": "Pending", "gated": True},
    "b": {"phase": "Pending", "bound": True},
    "r": {"phase": "Running", "bound": True},
    "s": {"phase": "Succeeded", "bound": True},
    "f": {"phase": "Failed", "bound": True},
    "u": {"phase": "Unknown", "bound": True},
    "P": {"phase": "Pending", "deleting": True},
    "R": {"phase": "Running", "bound": True, "deleting": True},
    "S": {"phase": "Succeeded", "bound": True, "deleting": True},
    "F": {"phase": "Failed", "bound": True, "deleting": True},
}


def pods(letters: str, owners: tuple[str, ...] = ()) -> list[Member]:
    return [Member(f"u-{n}", GangKey("a/train"), owners=owners, **KINDS[letter]) for n, letter in enumerate(letters)]


def group(minimum: int | None = 2, **fields: Any) -> PodGroup:
    return PodGroup("a", "train", "g-1", "7", minimum, fields)


def said(flag: str, reason: str, message: str = "because", since: str = T0) -> dict[str, Any]:
    return {"type": CONDITION, "status": flag, "lastTransitionTime": since, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("minimum", "letters", "expected"),
    [
        # the minimum is not one a gang can have
        (None, "", "Pending"),  # S138
        (None, "rrr", "Pending"),
        # succeeded >= min
        (2, "ss", "Finished"),  # S130, S132, S133, #64, #66, #68
        (2, "ssf", "Finished"),
        (2, "ssp", "Finished"),
        (3, "sss", "Finished"),  # #75
        # usable < min, and some failed
        (2, "ff", "Failed"),  # S129, #63
        (3, "rrf", "Failed"),  # #77
        (3, "ssf", "Failed"),
        (2, "fg", "Failed"),
        # usable < min
        (2, "", "Pending"),  # S136, #78
        (3, "pp", "Pending"),  # S134, #70
        (3, "rr", "Pending"),  # #67
        (4, "pp", "Pending"),  # #71
        (2, "pg", "Pending"),
        (3, "rrR", "Pending"),
        # scheduled < min
        (2, "pp", "Scheduling"),  # #65
        (3, "bpp", "Scheduling"),
        (3, "rrp", "Scheduling"),
        (3, "rrfp", "Scheduling"),  # the failed one has been replaced
        # running + succeeded < min
        (2, "bb", "Scheduled"),  # S131, #74 before they run
        (3, "rrb", "Scheduled"),
        (3, "rru", "Scheduled"),
        # else
        (2, "rr", "Running"),  # S128, #61
        (2, "rrrr", "Running"),  # S137, #62
        (3, "rrs", "Running"),  # #76
        (2, "rrf", "Running"),  # the quorum still runs
        (2, "rrp", "Running"),
        (2, "rsf", "Running"),
    ],
)
def test_the_phase(minimum: int | None, letters: str, expected: str) -> None:
    assert phase(minimum, count(pods(letters))) == expected


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("", Counts()),
        ("pgbrsfu", Counts(members=7, usable=5, scheduled=4, running=1, succeeded=1, failed=1)),
        ("PR", Counts()),
        ("SF", Counts(members=2, usable=1, scheduled=1, succeeded=1, failed=1)),
    ],
)
def test_the_counts(letters: str, expected: Counts) -> None:
    assert count(pods(letters)) == expected


def test_what_was_there_does_not_count() -> None:
    old: dict[str, Any] = {
        "phase": "Running",
        "scheduled": 30,
        "running": 20,
        "succeeded": 9,
        "failed": 9,
        "members": 99,
    }
    new = status(group(**old), pods("pp"), FREE, T0)
    assert {field: new[field] for field in old} == {
        "phase": "Scheduling", "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0, "members": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("minimum", "letters", "held", "old", "flag", "reason", "sentence"),
    [
        # minimum scheduled, whatever else is said
        (2, "bb", None, None, "True", "Scheduled", "the minimum of 2 of gang a/train has a node"),
        (2, "ss", Held("NotEnoughMembers", "waiting for 2 more"), None, "True", "Scheduled", "the minimum of 2"),
        (2, "rrp", NO_ROOM, None, "True", "Scheduled", "the minimum of 2"),
        # not told yet: stays, but never True
        (2, "pp", None, None, None, "", ""),
        (2, "pp", None, said("False", "NoRoom"), "False", "NoRoom", "because"),
        (2, "pp", None, said("True", "Scheduled"), "False", "Trying", "is being scheduled"),
        (2, "p", None, said("True", "Scheduled"), "False", "NotEnoughMembers", "waiting for 1 more of 2 members"),
        # the server says what holds it
        (2, "pp", NO_ROOM, None, "False", "NoRoom", "no node for member p1"),
        (2, "p", NO_ROOM, said("False", "NotEnoughMembers"), "False", "NoRoom", "no node for member p1"),
        (None, "pp", Held("InvalidGang", "spec.minMember is 0"), None, "False", "InvalidGang", "spec.minMember is 0"),
        # too few members
        (3, "rr", FREE, said("True", "Scheduled"), "False", "NotEnoughMembers", "waiting for 1 more of 3 members"),
        (
            3,
            "rrf",
            FREE,
            None,
            "False",
            "NotEnoughMembers",
            "waiting for 1 more of 3 members of gang a/train; 1 failed",
        ),
        (3, "rrf", FREE, said("False", "NoRoom"), "False", "NotEnoughMembers", "waiting for 1 more"),
        # tried again after a failed try
        (2, "pp", FREE, said("False", "NoRoom"), "False", "NoRoom", "because"),
        (2, "pp", FREE, said("False", "LostPlace"), "False", "LostPlace", "because"),
        (2, "pp", FREE, said("False", "GaveWay"), "False", "GaveWay", "because"),
        # else
        (2, "pp", FREE, None, "False", "Trying", "gang a/train is being scheduled"),
        (2, "pp", FREE, said("False", "NotEnoughMembers"), "False", "Trying", "is being scheduled"),
        (2, "rp", FREE, said("True", "Scheduled"), "False", "Trying", "is being scheduled"),
        (None, "pp", FREE, None, "False", "Trying", "is being scheduled"),
    ],
)
def test_the_condition(
    minimum: int | None,
    letters: str,
    held: Held | None,
    old: dict[str, Any] | None,
    flag: str | None,
    reason: str,
    sentence: str,
) -> None:
    before = group(minimum, **({"conditions": [old]} if old else {}))
    # As it is once what differs was written.
    shown = condition({**before.status, **status(before, pods(letters), held, T1)})
    if flag is None:
        assert not shown
        return
    assert (shown["status"], shown["reason"]) == (flag, reason)
    assert sentence in shown["message"]
    assert shown["lastTransitionTime"] == (T0 if old and old["status"] == flag else T1)


def test_conditions_of_others_are_left_alone() -> None:
    theirs = {"type": "Theirs", "status": "True", "extra": 1}
    listed = status(group(conditions=[said("False", "NoRoom"), theirs]), pods("rr"), FREE, T1)["conditions"]
    assert listed == [
        said("True", "Scheduled", "the minimum of 2 of gang a/train has a node", T1),
        theirs,
    ]


def test_nothing_differs_after_it_was_written() -> None:
    before = group(3)
    wanted = status(before, pods("rrp", ("a/job",)), NO_ROOM, T0)
    after = group(3, **{field: value for field, value in wanted.items() if value is not None})
    assert not differing(after, status(after, pods("rrp", ("a/job",)), NO_ROOM, T1))


def test_the_start_is_when_the_minimum_was_first_there_and_stays_until_all_are_gone() -> None:
    assert status(group(), pods("p"), FREE, T0)["scheduleStartTime"] is None
    assert status(group(), pods("pp"), FREE, T0)["scheduleStartTime"] == T0
    assert status(group(scheduleStartTime=T0), pods("rr"), FREE, T1)["scheduleStartTime"] == T0
    assert status(group(scheduleStartTime=T0), pods("p"), FREE, T1)["scheduleStartTime"] == T0
    assert status(group(scheduleStartTime=T0), pods(""), FREE, T1)["scheduleStartTime"] is None


def test_the_owners_are_those_of_all_members_and_stay_when_there_are_none() -> None:
    assert status(group(), pods("p", ("a/x",)), FREE, T0)["occupiedBy"] == "a/x"  # S139, #72
    assert status(group(), pods("pp", ("a/b", "a/a")), FREE, T0)["occupiedBy"] == "a/a,a/b"  # S139, #73
    assert "occupiedBy" not in status(group(occupiedBy="test"), pods("pp"), FREE, T0)  # S138, S139
    many = status(group(), pods("p", tuple(f"a/{n:03}" for n in range(40))), FREE, T0)["occupiedBy"]
    assert many.endswith(",a/031,and 8 more")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"conditions": [said("False", "NoRoom", "other words")]}, True),
        ({"conditions": [said("False", "LostPlace")]}, False),
        ({"conditions": [said("True", "NoRoom")]}, False),
        ({"conditions": [said("False", "NoRoom", "other words")], "running": 2}, False),
        ({"running": 2}, False),
    ],
)
def test_new_words_for_the_same_reason_can_wait(new: dict[str, Any], expected: bool) -> None:
    assert only_words(group(conditions=[said("False", "NoRoom")]), new) is expected
