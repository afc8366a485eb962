# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario: commands, a line of dashes, what was decided. `pytest --rewrite` writes what is decided now.

Commands, one a line; names without a slash are in namespace a:

    pod NAME gang=G min=N [key=value …]    the pod is seen (again: it changed)
    pods NAME… gang=G min=N …              several at once; with joins=KIND a PodGroup of that kind has the settings
    podgroup NAME KIND min=N [timeout=S] [uid=U] [created=N] [cpu=N] [memory=N] [key=value …]
                                           the PodGroup is seen (again: it changed); KIND is sigs, x_k8s or native
    podgroup-gone NAME KIND [uid=U]
    namespace NAME [key=value …]           its labels, all of them, by what follows gang.muster.dev/
    capacity [cpu=N] [memory=N]            of all nodes together
    gone NAME | room | tick
    prefilter NAME | postfilter NAME [message…] | permit NAME [quiet | went] | unreserve NAME
    report COMMIT [missing NAME…]
    sync NAME:STANDING[:SECONDS]…          a session opens with all that is known so far, minus what is gone
    at SECONDS                             the clock; a tick runs at every instant the core asked for on the way
    state | why
"""

from dataclasses import dataclass, field, replace

from muster.core import Core, events
from muster.core.decision import Admit, Allow, Decision, Hold, Mark, Reject, Verdict
from muster.core.model import GangObject, Phase, Pod, PodUid, Source
from muster.core.spec import MUSTER
from muster.core.view import view
from tests.builders import pod, podgroup


@dataclass
class Stage:
    core: Core = field(default_factory=Core)
    now: float = 0.0
    known: dict[str, Pod] = field(default_factory=dict)
    objects: dict[tuple[str, Source], GangObject] = field(default_factory=dict)
    namespaces: dict[str, events.NamespaceSeen] = field(default_factory=dict)
    capacity: dict[str, int] | None = None

    def run(self, command: str) -> list[str]:
        word, *words = command.split()
        match word:
            case "pod" | "pods":
                return self._pods(words)
            case "at":
                return self._until(float(words[0]))
            case "state":
                return [line for key in sorted(self.core.gangs) for line in self._state(key)]
            case "why":
                return [f"{e.name}: {_why(e.why)}" for e in self.core.explanations(self.now + 10)]
            case "gone":
                self.known.pop(words[0], None)
            case "sync":
                return self._sync(words)
            case "podgroup" | "podgroup-gone" | "namespace" | "capacity":
                return _shown(self.core.handle(self._declare(word, words), self.now))
        return _shown(self.core.handle(_event(word, words), self.now))

    def _pods(self, words: list[str]) -> list[str]:
        names = [word for word in words if "=" not in word]
        given = dict(word.split("=", 1) for word in words if "=" in word)
        lines: list[str] = []
        for name in names:
            namespace, _, short = name.rpartition("/")
            settings = {key: _value(key, value) for key, value in given.items() if key not in ("gang", "min", "joins")}
            joins = Source[given["joins"].upper()] if "joins" in given else None
            made = pod(
                short,
                given.get("gang", ""),
                given.get("min"),
                uid=name,
                namespace=namespace or "a",
                joins=joins,
                **settings,  # type: ignore[arg-type]
            )
            self.known[name] = made
            lines += _shown(self.core.handle(events.PodSeen(made), self.now))
        return lines

    def _declare(self, word: str, words: list[str]) -> events.Event:
        given = dict(word.split("=", 1) for word in words if "=" in word)
        amounts: dict[str, int] = {
            key: round(float(given.pop(key)) * 1000) for key in ("cpu", "memory") if key in given
        }
        if word == "capacity":
            self.capacity = amounts
            return events.Capacity(amounts)
        namespace, _, name = words[0].rpartition("/")
        if word == "namespace":
            self.namespaces[name] = events.NamespaceSeen(name, {MUSTER + key: given[key] for key in given})
            return self.namespaces[name]
        source = Source[words[1].upper()]
        if word == "podgroup-gone":
            gone = self.objects.pop((words[0], source))
            return events.ObjectGone(source, gone.namespace, gone.name, given.get("uid", gone.uid))
        minimum, timeout = (int(given.pop(key)) if key in given else None for key in ("min", "timeout"))
        made = podgroup(
            name,
            minimum,
            namespace=namespace or "a",
            source=source,
            uid=given.pop("uid", ""),
            created=int(given.pop("created", 0)),
            timeout=timeout,
            resources=amounts,
            **given,  # type: ignore[arg-type]
        )
        self.objects[words[0], source] = made
        return events.ObjectSeen(made)

    def _until(self, instant: float) -> list[str]:
        lines: list[str] = []
        while (due := self.core.next_due()) is not None and due <= instant:
            self.now = max(self.now, due)
            lines += [f"{self.now:g}s {line}" for line in _shown(self.core.handle(events.Tick(), self.now))]
        self.now = instant
        return lines

    def _sync(self, words: list[str]) -> list[str]:
        pods = {name: replace(known, standing=Phase.PENDING) for name, known in self.known.items()}
        for word in words:
            name, standing, *waited = word.split(":")
            pods[name] = replace(
                pods[name], standing=Phase[standing.upper()], waited=float(waited[0]) if waited else 0.0
            )
        all_there_is = events.Synchronize(
            tuple(pods.values()), tuple(self.objects.values()), tuple(self.namespaces.values()), self.capacity
        )
        return _shown(self.core.handle(all_there_is, self.now))

    def _state(self, key: str) -> list[str]:
        seen = view(self.core, key, self.now)  # type: ignore[arg-type]
        members: dict[str, list[str]] = {}
        for member in seen.members:
            members.setdefault(member.phase.value, []).append(member.name)
        phases = "  ".join(f"{phase}({' '.join(names)})" for phase, names in members.items())
        lines = [f"{key} {seen.phase.value} cycle={seen.cycle}  {phases}".rstrip()]
        return lines + ([f"  {_why(seen.why)}"] if seen.why else [])


def _event(word: str, words: list[str]) -> events.Event:
    uid = PodUid(words[0]) if words else PodUid("")
    match word:
        case "gone":
            return events.PodGone(uid)
        case "room":
            return events.Room()
        case "tick":
            return events.Tick()
        case "prefilter":
            return events.PreFilter(uid)
        case "postfilter":
            return events.PostFilter(uid, " ".join(words[1:]))
        case "permit":
            quiet = "quiet" in words or "went" in words
            return events.Permit(uid, "n1", asked=not quiet, went="went" in words)
        case "unreserve":
            return events.Unreserve(uid)
        case "report":
            return events.CommitReport(int(words[0]), tuple(PodUid(word) for word in words[2:]))
    raise ValueError(f"unknown command {word!r}")


def _value(key: str, value: str) -> str | int:
    if key in ("priority", "created"):
        return int(value)
    if key in ("gated", "deleting"):
        return value == "yes"
    return value


def _shown(decision: Decision) -> list[str]:
    lines = []
    if decision.verdict is not Verdict.NONE:
        allow = f"  {_effect(decision.allow)}" if decision.allow else ""
        if decision.whole_with:
            allow += f"  with({' '.join(decision.whole_with)})"
        reason = f'  "{decision.reason}"' if decision.reason else ""
        lines.append(decision.verdict.value.upper() + reason + allow)
    return lines + [_effect(effect) for effect in decision.effects]


def _effect(effect: Admit | Allow | Hold | Reject | Mark) -> str:
    match effect:
        case Admit():
            names = " ".join(f"{uid}" for uid, _ in effect.members)
            return f"{'free' if effect.free else 'admit'}({names})" + (
                "" if effect.free else f" quiet={effect.quiet_permits}"
            )
        case Allow():
            return f"allow#{effect.commit}({' '.join(effect.uids)})"
        case Hold() | Reject():
            return f'{type(effect).__name__.lower()}({" ".join(effect.uids)}) "{effect.reason}"'
        case Mark():
            return f"mark({' '.join(effect.uids)})"


def _why(why: object) -> str:
    return f"{why.reason.value}: {why.sentence}" if why else "-"  # type: ignore[attr-defined]


def play(text: str) -> str:
    """The scenario with its outputs as they are now."""
    stage = Stage()
    blocks: list[str] = []
    for block in text.strip("\n").split("\n\n"):
        commands, _, _ = block.partition("\n----")
        out: list[str] = []
        for line in commands.splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                out += stage.run(line)
        blocks.append(commands if _only_comments(commands) else "\n".join([commands, "----", *(out or ["-"])]))
    return "\n\n".join(blocks) + "\n"


def _only_comments(commands: str) -> bool:
    return all(not line.strip() or line.lstrip().startswith("#") for line in commands.splitlines())
