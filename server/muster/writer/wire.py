# SPDX-License-Identifier: Apache-2.0
"""The lines between the server and its writer: one JSON object a line, both ways. Plain data and its encoding.

To the child:   {"tell": {…}}  {"clear": uid}  {"mark": {…}}
                {"gang": {…}}  {"gang_gone": key}  {"leading": true}
From the child: {"marked": uid}  {"gone": uid}  {"lost": uid}
"""

from dataclasses import dataclass
from enum import Enum

import orjson

NOTE_BYTES = 1024  # what the API server takes as an event's note, counted in bytes


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the owner of a pod why it is held. The child tells owners of PodGroups by it too."""

    uid: str
    namespace: str
    name: str
    reason: str
    sentence: str
    api_version: str = "v1"
    kind: str = "Pod"


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


@dataclass(frozen=True, slots=True)
class GangHeld:
    """What holds a gang that has an object; an empty reason: nothing does."""

    gang: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True)
class GangGone:
    """There is no object of this gang any more."""

    gang: str


@dataclass(frozen=True, slots=True)
class Leading:
    """Whether our scheduler is in session: only then is it up to us to write what becomes of PodGroups."""

    leading: bool


Order = Tell | Clear | Mark | GangHeld | GangGone | Leading


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
        case GangHeld(gang, reason, sentence):
            body = {"gang": gang, "reason": reason, "sentence": cut(sentence)}
            return orjson.dumps({"gang": body}, option=orjson.OPT_APPEND_NEWLINE)
        case GangGone(gang):
            return orjson.dumps({"gang_gone": gang}, option=orjson.OPT_APPEND_NEWLINE)
        case Leading(leading):
            return orjson.dumps({"leading": leading}, option=orjson.OPT_APPEND_NEWLINE)


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
            case "gang":
                return GangHeld(**_strings(body))
            case "gang_gone":
                return GangGone(**_strings({"gang": body}))
            case "leading" if isinstance(body, bool):
                return Leading(body)
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
