# SPDX-License-Identifier: Apache-2.0
"""The lines between the processes, and the event that is made of one."""

from datetime import UTC, datetime

import pytest

from muster.core.reasons import Reason
from muster.writer.api import WARNINGS, event
from muster.writer.wire import (
    NOTE_BYTES,
    Clear,
    GangGone,
    GangHeld,
    Leading,
    MalformedError,
    Mark,
    Order,
    Result,
    Tell,
    cut,
    decode,
    decode_result,
    encode,
    encode_result,
)

TELL = Tell("u-1", "a", "train-0", "NoRoom", "no node for member train-0")
AT = datetime(2031, 5, 6, 7, 8, 9, 0, UTC)


@pytest.mark.parametrize(
    "order",
    [
        TELL,
        Clear("u-1"),
        Mark("u-1", "a", "train-0"),
        GangHeld("a/train", "NoRoom", "no node"),
        GangHeld("a/train", "", ""),
        GangGone("a/train"),
        Leading(True),
        Leading(False),
    ],
)
def test_an_order_survives_the_wire(order: Order) -> None:
    line = encode(order)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line) == order


@pytest.mark.parametrize("result", list(Result))
def test_a_result_survives_the_wire(result: Result) -> None:
    assert decode_result(encode_result(result, "u-1")) == (result, "u-1")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"mark":{"uid":"1"}}',
        b'{"mark":{"uid":1}}',
        b'{"clear":3}',
        b'{"jump":"1"}',
        b'{"leading":"yes"}',
        b"\xff",
    ],
)
def test_a_line_that_is_none_of_ours_is_malformed(line: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(line)
    with pytest.raises(MalformedError):
        decode_result(line)


def test_a_sentence_is_cut_by_bytes_at_a_whole_character() -> None:
    assert cut("é" * 512) == "é" * 512
    assert len(cut("é" * 600).encode()) <= NOTE_BYTES
    assert cut("é" * 600).endswith("é…")
    assert cut("lone \ud800 surrogate") == "lone ? surrogate"


def test_an_event_speaks_of_exactly_one_pod() -> None:
    made = event(TELL, AT, "host-1")
    assert made.regarding is not None and made.metadata is not None
    assert (made.regarding.kind, made.regarding.uid, made.regarding.name) == ("Pod", "u-1", "train-0")
    assert (made.reason, made.note, made.type) == ("NoRoom", "no node for member train-0", "Warning")
    assert (made.metadata.namespace, made.reportingController) == ("a", "muster-server")


def test_an_event_about_a_podgroup_says_of_which_kind() -> None:
    made = event(
        Tell("u-1", "a", "train", "NoRoom", "no node", "scheduling.x-k8s.io/v1alpha1", "PodGroup"), AT, "host-1"
    )
    assert made.regarding is not None
    assert (made.regarding.apiVersion, made.regarding.kind) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")


def test_an_events_time_always_has_a_fraction_because_the_server_wants_one() -> None:
    assert event(TELL, AT, "host-1").eventTime.microsecond > 0


def test_the_same_event_has_the_same_name_in_the_same_ten_minutes() -> None:
    def name(tell: Tell, at: datetime) -> str:
        made = event(tell, at, "host-1").metadata
        assert made is not None and made.name is not None
        return made.name

    assert name(TELL, AT) == name(TELL, AT.replace(second=30))
    assert name(TELL, AT) != name(TELL, AT.replace(hour=8))
    assert name(TELL, AT) != name(Tell("u-2", "a", "train-0", "NoRoom", TELL.sentence), AT)
    long = Tell("u-1", "a", "x" * 229 + "." + "y" * 23, "NoRoom", "no node")
    assert len(name(long, AT)) <= 253 and ".." not in name(long, AT)


def test_only_what_needs_somebody_to_act_is_a_warning() -> None:
    for reason in Reason:
        made = event(Tell("u-1", "a", "p", reason.value, "why"), AT, "host-1")
        assert made.type == ("Warning" if reason in WARNINGS else "Normal")
