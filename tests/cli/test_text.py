# SPDX-License-Identifier: Apache-2.0
"""Words for a terminal, and the closed table of hints."""

import unicodedata

import pytest

from muster.cli.hints import HINTS, hint
from muster.cli.text import age, duration, safe
from muster.core.reasons import Reason


def test_every_reason_has_a_hint_that_is_a_sentence() -> None:
    assert set(HINTS) == set(Reason)
    for text in HINTS.values():
        assert text[0].isupper() and text.endswith(".") and "  " not in text


def test_a_reason_of_a_newer_server_has_no_hint() -> None:
    assert hint("NotInvented") == ""
    assert hint("NoRoom") == HINTS[Reason.NO_ROOM]


def test_no_control_character_passes() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x202E, 0x2028, 0x2066, 0xFEFF, 0xD800, 0xE0041):
        shown = safe(f"a{chr(code)}b")
        assert shown.startswith("a\\") and shown.isascii()


def test_ordinary_words_of_any_language_pass_unchanged() -> None:
    for text in ("plain", "naïve – 等待 1 个成员", "π"):
        assert safe(text) == text
        assert not any(unicodedata.category(char) == "Cc" for char in safe(text))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (572, "9m32s"),
        (3600, "1h"),
        (5400, "1h30m"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (90 * 86_400 + 7200, "90d"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_age_that_is_not_known_says_so() -> None:
    assert age(0, 100.0) == "<unknown>"
    assert age(90 * 10**9, 100.0) == "10s"
