# SPDX-License-Identifier: Apache-2.0
"""The lines between the server and its writer: one JSON object a line, both ways. Plain data and its encoding.

To the child:   {"tell": {…}}  {"clear": uid}  {"mark": {…}}
From the child: {"marked": uid}  {"gone": uid}  {"lost": uid}
"""

from dataclasses import dataclass
from enum import Enum

import orjson

NOTE_BYTES = 1024  # what the API server takes as an event's note, counted in bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell a pod's owner why it is held."""

    uid: str
    namespace: str
    name: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Nothing holds this pod any more: what was not yet told is no longer true."""

    uid: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Write the timeout annotation."""

    uid: str
    namespace: str
    name: str


Order = Tell | Clear | Mark


class Result(Enum):
    """What became of an order."""

    MARKED = "marked"  # the annotation is on the pod
    GONE = "gone"  # the pod does not exist any more, or another one has its name
    LOST = "lost"  # an event could not be written and was given up


class MalformedError(Exception):
    """A line that neither side of ours writes."""


def cut(sentence: str) -> str:
    """At most what an event's note takes, and always encodable: a lone surrogate would end in an exception later."""
    raw = sentence.encode("utf-8", "replace")
    if len(raw) <= NOTE_BYTES:
        return raw.decode()
    return raw[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"


def encode(order: Order) -> bytes:
    match order:
        case Tell(uid, namespace, name, reason, sentence):
            body: object = {
                "uid": uid,
                "namespace": namespace,
                "name": name,
                "reason": reason,
                "sentence": cut(sentence),
            }
            return orjson.dumps({"tell": body}, option=orjson.OPT_APPEND_NEWLINE)
        case Clear(uid):
            return orjson.dumps({"clear": uid}, option=orjson.OPT_APPEND_NEWLINE)
        case Mark(uid, namespace, name):
            body = {"uid": uid, "namespace": namespace, "name": name}
            return orjson.dumps({"mark": body}, option=orjson.OPT_APPEND_NEWLINE)


def decode(line: bytes) -> Order:
    key, body = _single(line)
    try:
        match key:
            case "tell":
                return Tell(**_strings(body))
            case "clear":
                return Clear(**_strings({"uid": body}))
            case "mark":
                return Mark(**_strings(body))
    except TypeError as error:
        raise MalformedError(str(error)) from error
    raise MalformedError(f"unknown order {key!r}")


def encode_result(result: Result, uid: str) -> bytes:
    return orjson.dumps({result.value: uid}, option=orjson.OPT_APPEND_NEWLINE)


def decode_result(line: bytes) -> tuple[Result, str]:
    key, body = _single(line)
    try:
        return Result(key), _strings({"uid": body})["uid"]
    except ValueError as error:
        raise MalformedError(str(error)) from error


def _single(line: bytes) -> tuple[str, object]:
    """The one key of a line's object, and its value."""
    try:
        whole = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise MalformedError(str(error)) from error
    if not isinstance(whole, dict) or len(whole) != 1:
        raise MalformedError("a line is an object with one key")
    return next(iter(whole.items()))


def _strings(body: object) -> dict[str, str]:
    if not isinstance(body, dict) or not all(isinstance(value, str) for value in body.values()):
        raise MalformedError("all values are strings")
    return body
