# SPDX-License-Identifier: Apache-2.0
"""Words for a terminal: what came from the cluster made harmless, durations as people write them, protobuf as JSON."""

import unicodedata

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message

# Controls, invisible format characters (among them those that reverse the direction of text), surrogates, separators
# of lines: whatever a terminal might obey instead of showing it.
_DANGEROUS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def safe(text: str) -> str:
    """The text on one line, with everything in it that is not for the eye written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _DANGEROUS else char for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def to_json(message: Message, *, one_line: bool = False) -> str:
    """Protobuf's JSON with all fields, so that a script finds each key in each answer."""
    text: str = MessageToJson(
        message, always_print_fields_with_no_presence=True, ensure_ascii=True, indent=None if one_line else 2
    )
    return text.replace("\x7f", "\\u007f")  # the one control character that JSON leaves as it is


def duration(seconds: float) -> str:
    """Two units at most, as in 9m32s, and one when it is long: nobody reads the seconds of days."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, rest = divmod(whole, 3600)
    if hours < 48:
        return f"{hours}h{rest // 60}m" if rest >= 60 else f"{hours}h"
    days, left = divmod(hours, 24)
    return f"{days}d{left}h" if left and days < 8 else f"{days}d"


def age(created_unix_ns: int, now: float) -> str:
    return duration(now - created_unix_ns / 1e9) if created_unix_ns > 0 else "<unknown>"
