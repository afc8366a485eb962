# SPDX-License-Identifier: Apache-2.0
"""What a pod or a PodGroup says -> the gang it declares, or what is wrong with what it says.

A bad value never becomes a silent default: it is a `Problem` that names the key, the value and what is allowed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from muster.core.model import GangKey, GangObject, GangSpec, MatchPolicy, Mode, OnTimeout, Pod, Source

KOORDINATOR = "gang.scheduling.koordinator.sh/"
MUSTER = "gang.muster.dev/"
POD_GROUP_LABELS = ("pod-group.scheduling.sigs.k8s.io", "scheduling.x-k8s.io/pod-group")

NAME = KOORDINATOR + "name"
MIN = KOORDINATOR + "min-available"
TOTAL = KOORDINATOR + "total-number"
MODE = KOORDINATOR + "mode"
GROUPS = KOORDINATOR + "groups"
WAIT = KOORDINATOR + "waiting-time"
POLICY = KOORDINATOR + "match-policy"
TIMEOUT = KOORDINATOR + "timeout"  # written by the server, removed by people
ON_TIMEOUT = MUSTER + "on-timeout"
NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
NATIVE_NAME = "spec.schedulingGroup.podGroupName"
CONSENT, CONSENTS = MUSTER + "cross-namespace-groups", "allowed"  # a label of namespaces

MARK_ANNOTATION_PREFIXES = (KOORDINATOR, MUSTER)
MARK_LABEL_PREFIXES = (*POD_GROUP_LABELS, MUSTER)
_OWN_KEYS = {ON_TIMEOUT}
_SETTINGS = (MIN, TOTAL, MODE, GROUPS, WAIT, POLICY, ON_TIMEOUT)

MAX_MEMBERS = 10_000
_COUNTS = f"a whole number from 1 to {MAX_MEMBERS}"
MAX_GANGS = 32
MAX_VALUE = 4096
MIN_WAIT, MAX_WAIT = 1.0, 30 * 24 * 3600.0

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WHOLE = re.compile(r"[0-9]{1,9}")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one key."""

    key: str
    value: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.value)}: {self.allowed}"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a gang gets that does not say; set on the server."""

    wait: float = 600.0
    on_timeout: OnTimeout = OnTimeout.FAIL
    policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one pod says about its gang."""

    gang: GangKey | None  # None: it carries gang keys but names no gang
    spec: GangSpec | None  # None: the settings are wrong, or a PodGroup has them
    problems: tuple[Problem, ...] = ()
    timed_out: bool = False  # carries the timeout mark
    unused: tuple[str, ...] = ()  # settings on a pod whose gang has those of a PodGroup


@dataclass(frozen=True, slots=True)
class ObjectDeclaration:
    """What one PodGroup says about its gang: settings, or what is wrong with them."""

    object: GangObject
    spec: GangSpec | None
    problems: tuple[Problem, ...] = ()


def declare(pod: Pod, defaults: Defaults) -> Declaration:
    """Read everything a pod says. Total: whatever the strings are, it returns."""
    says = _Reader(pod.annotations, pod.labels, pod.scheduling_group)
    timed_out = pod.annotations.get(TIMEOUT) == "true"
    name, by_object = says.gang_name()
    if name is None:
        return Declaration(None, None, tuple(says.problems), timed_out)
    key = GangKey(f"{pod.namespace}/{name}")
    if by_object:
        unused = tuple(setting for setting in _SETTINGS if setting in pod.annotations)
        return Declaration(key, None, tuple(says.problems), timed_out, unused)
    spec = says.pod_spec(key, defaults)
    return Declaration(key, None if says.problems else spec, tuple(says.problems), timed_out)


def declare_object(seen: GangObject, defaults: Defaults) -> ObjectDeclaration:
    """Read everything a PodGroup says. Total, as `declare` is: its definition may check less than ours does."""
    says = _Reader(seen.annotations, {})
    spec = says.object_spec(seen, defaults)
    return ObjectDeclaration(seen, None if says.problems else spec, tuple(says.problems))


_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")


class _Reader:
    """Reads keys one by one and collects what is wrong, so that a user sees all of it at once."""

    def __init__(self, annotations: Mapping[str, str], labels: Mapping[str, str], native: str = "") -> None:
        self._annotations = annotations
        self._labels = labels
        self._native = {NATIVE_NAME: native} if native else {}
        self.problems: list[Problem] = []

    def gang_name(self) -> tuple[str | None, bool]:
        """The name, and whether a PodGroup object has the settings. A pod that has them itself comes first."""
        itself = [(NAME, self._annotations, False), (NAME_LABEL, self._labels, False)]
        objects = [(label, self._labels, True) for label in POD_GROUP_LABELS] + [(NATIVE_NAME, self._native, True)]
        has_settings = MIN in self._annotations or MIN_LABEL in self._labels
        for key, where, by_object in itself + objects if has_settings else objects + itself:
            if key in where:
                return self._read(key, where, _subdomain, "a DNS-1123 subdomain of at most 253 characters"), by_object
        self._wrong(NAME, "", f"it must be set when another {KOORDINATOR}… or {MUSTER}… key is")
        return None, False

    def pod_spec(self, key: GangKey, defaults: Defaults) -> GangSpec | None:
        if MIN not in self._annotations and MIN_LABEL in self._labels:
            minimum = self._read(MIN_LABEL, self._labels, _count, _COUNTS)
        elif MIN in self._annotations:
            minimum = self._annotation(MIN, _count, _COUNTS, None)
        else:
            minimum = None
            self._wrong(MIN, "", f"it must be {_COUNTS}")
        return self._spec(key, minimum, defaults.wait, (), defaults)

    def object_spec(self, seen: GangObject, defaults: Defaults) -> GangSpec | None:
        native = seen.source is Source.NATIVE
        # The API server sees to it that one of Kubernetes' own is either a gang with a minimum or none: a gang of one.
        field = "spec.schedulingPolicy.gang.minCount" if native else "spec.minMember"
        minimum = 1 if native and seen.min is None else seen.min
        if field not in seen.unreadable and not (minimum is not None and 1 <= minimum <= MAX_MEMBERS):
            self._wrong(field, "" if minimum is None else str(minimum), f"it must be {_COUNTS}")
        wait = defaults.wait
        if seen.timeout is not None:
            wait = float(seen.timeout)
            if not MIN_WAIT <= wait <= MAX_WAIT:
                seconds = f"a whole number of seconds from {MIN_WAIT:.0f} to {MAX_WAIT:.0f}"
                self._wrong("spec.scheduleTimeoutSeconds", str(seen.timeout), f"it must be {seconds}")
        for name, amount in sorted(seen.resources.items()):
            if amount < 0:
                self._wrong(f"spec.minResources.{name}", quantity(amount), "it must not be negative")
        for path, text in sorted(seen.unreadable.items()):
            self._wrong(path, text, "it must be " + ("a quantity" if "minResources" in path else "a whole number"))
        return self._spec(seen.key, minimum, wait, tuple(sorted(seen.resources.items())), defaults)

    def _spec(
        self, key: GangKey, minimum: int | None, wait: float, resources: tuple[tuple[str, int], ...], defaults: Defaults
    ) -> GangSpec | None:
        """What pods and objects say in the same way: by annotations."""
        self._refuse_unknown_keys()
        total = self._annotation(TOTAL, _count, _COUNTS, minimum)
        if minimum is not None and total is not None and total < minimum:
            self._wrong(TOTAL, str(total), f"it must not be less than the minimum, {minimum}")
        mode = self._annotation(MODE, _one_of(Mode), _names(Mode), Mode.STRICT)
        policy = self._annotation(POLICY, _one_of(MatchPolicy), _names(MatchPolicy), defaults.policy)
        on_timeout = self._annotation(ON_TIMEOUT, _one_of(OnTimeout), _names(OnTimeout), defaults.on_timeout)
        waits = self._annotation(WAIT, duration, "a duration such as 90s, 10m or 1h30m, from 1s to 720h", wait)
        alone: tuple[GangKey, ...] = ()
        gangs = f'a JSON array of at most {MAX_GANGS} strings "namespace/name"'
        others = self._annotation(GROUPS, _gang_list, gangs, alone)
        if minimum is None or total is None or mode is None or policy is None or on_timeout is None:
            return None
        if waits is None or others is None:
            return None
        group = tuple(sorted({key, *others}))
        if len(group) > MAX_GANGS:
            self._wrong(GROUPS, self._annotations[GROUPS], f"at most {MAX_GANGS} gangs, itself included")
        return GangSpec(minimum, total, mode, policy, waits, on_timeout, group, resources)

    def _refuse_unknown_keys(self) -> None:
        for key in self._annotations:
            if key.startswith(MUSTER) and key not in _OWN_KEYS:
                self._wrong(key, self._annotations[key], f"unknown key; known are {', '.join(sorted(_OWN_KEYS))}")

    def _annotation(self, key: str, parse: Callable[[str], _T | None], allowed: str, default: _T | None) -> _T | None:
        return self._read(key, self._annotations, parse, allowed) if key in self._annotations else default

    def _read(self, key: str, where: Mapping[str, str], parse: Callable[[str], _T | None], allowed: str) -> _T | None:
        text = where[key]
        value = parse(text) if len(text) <= MAX_VALUE else None
        if value is None:
            self._wrong(key, text, f"it must be {allowed}")
        return value

    def _wrong(self, key: str, value: str, allowed: str) -> None:
        self.problems.append(Problem(key, value, allowed))


def _shown(value: str) -> str:
    """A value as an event may show it: quoted, one line, short."""
    if not value:
        return "not set"
    quoted = json.dumps(value[:64], ensure_ascii=True)
    return quoted if len(value) <= 64 else f'{quoted[:-1]}…" ({len(value)} characters)'


def quantity(thousandths: int) -> str:
    """An amount of a resource, as people write it."""
    amount, rest = divmod(thousandths, 1000)
    if rest:
        return f"{thousandths}m"
    if amount >= 1 << 20:  # nobody has so many CPUs: these are bytes
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if amount % size == 0:
                return f"{amount // size}{unit}"
    return str(amount)


def _subdomain(text: str) -> str | None:
    return text if len(text) <= 253 and _SUBDOMAIN.fullmatch(text) else None


def _count(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) and 1 <= int(text) <= MAX_MEMBERS else None


def _one_of(enum: type[_E]) -> Callable[[str], _E | None]:
    return {member.value: member for member in enum}.get


def _names(enum: type[Enum]) -> str:
    return " or ".join(member.value for member in enum)


def duration(text: str) -> float | None:
    """Seconds of a Go duration within the allowed range, else None."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return seconds if MIN_WAIT <= seconds <= MAX_WAIT else None


def _gang_list(text: str) -> tuple[GangKey, ...] | None:
    """The listed gangs; an empty text or array means the gang stands alone."""
    try:
        listed = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return None
    if not isinstance(listed, list) or len(listed) > MAX_GANGS:
        return None
    for entry in listed:
        parts = entry.split("/") if isinstance(entry, str) else ()
        if len(parts) != 2 or not all(_subdomain(part) for part in parts):
            return None
    return tuple(GangKey(entry) for entry in listed)
