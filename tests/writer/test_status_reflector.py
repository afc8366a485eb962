# SPDX-License-Identifier: Apache-2.0
"""A reflector never misses what happened, whatever happens to its watch."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from muster.writer.status import reflector
from muster.writer.status.model import Key
from muster.writer.status.reflector import Reflector
from muster.writer.status.rest import Rest
from tests.writer.scripted import PODS, Scripted, failure, running, until


class Names:
    """A sink that knows names and what is told about each."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}

    def put(self, raw: bytes | msgspec.Raw) -> Key:
        thing = msgspec.json.decode(raw)
        name = thing["metadata"]["name"]
        self.there[name] = thing["status"]["phase"]
        return Key("a", name)

    def drop(self, key: Key) -> None:
        del self.there[key.name]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(reflector, "FIRST_DELAY", 0.01)
    return Scripted()


@pytest.fixture
async def rest(api: Scripted, tmp_path: Path) -> AsyncIterator[Rest]:
    made = api.rest(tmp_path)
    yield made
    await made.close()


def watches(api: Scripted) -> list[str]:
    """The versions from which it watched."""
    return [query["resourceVersion"] for _, path, query in api.requests if path == PODS and "watch" in query]


def lists(api: Scripted) -> int:
    return sum(path == PODS and "watch" not in query for _, path, query in api.requests)


async def test_all_pages_and_then_what_happens(api: Scripted, rest: Rest) -> None:
    api.page = 2
    for n in range(5):
        api.pod(f"p{n}")
    sink = Names()
    async with running(Reflector(rest, PODS, sink).run()):
        await until(lambda: bool(api.streams[PODS]))
        assert sorted(sink.there) == ["p0", "p1", "p2", "p3", "p4"]
        assert (lists(api), watches(api)) == (3, [str(api.version)])
        api.pod("p5")
        api.pod("p0", "Running")
        api.delete(PODS, "p1")
        await until(lambda: sorted(sink.there) == ["p0", "p2", "p3", "p4", "p5"])
        assert sink.there["p0"] == "Running"


async def test_after_the_end_of_a_stream_it_goes_on_from_the_last_bookmark(api: Scripted, rest: Rest) -> None:
    sink = Names()
    async with running(Reflector(rest, PODS, sink).run()):
        await until(lambda: bool(api.streams[PODS]))
        api.streams[PODS][0].send("BOOKMARK", {"metadata": {"resourceVersion": "77"}})
        api.streams[PODS][0].end()
        await until(lambda: len(api.streams[PODS]) == 2)
        assert (watches(api)[-1], lists(api)) == ("77", 1)


@pytest.mark.parametrize("how", ["in the stream", "as an answer"])
async def test_a_lost_version_is_a_new_list_and_what_vanished_meanwhile_is_dropped(
    api: Scripted, rest: Rest, how: str
) -> None:
    api.pod("p0")
    api.pod("p1")
    sink = Names()
    async with running(Reflector(rest, PODS, sink).run()):
        await until(lambda: bool(api.streams[PODS]))
        api.delete(PODS, "p0", told=False)
        api.pod("p1", "Running", told=False)
        if how == "in the stream":
            api.streams[PODS][0].send("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
        else:
            left = [failure(410)]
            api.refuse = lambda method, path, query: left.pop() if left and "watch" in query else None
            api.streams[PODS][0].end()
        await until(lambda: sink.there == {"p1": "Running"})
        assert lists(api) == 2


async def test_a_server_in_trouble_is_asked_again_and_nothing_is_forgotten(api: Scripted, rest: Rest) -> None:
    api.pod("p0")
    sink = Names()
    made = Reflector(rest, PODS, sink)
    left = [httpx2.Response(404, text="<html>no such page</html>"), failure(503), failure(500)]
    api.refuse = lambda method, path, query: left.pop() if left else None
    async with running(made.run()):
        await until(lambda: made.synced)
        api.streams[PODS][0].send("ERROR", {"kind": "Status", "code": 500, "message": "etcd is away"})
        left += [failure(503), failure(429)]
        await until(lambda: len(api.streams[PODS]) == 2)
        assert sink.there == {"p0": "Pending"}
        api.pod("p1")
        await until(lambda: len(sink.there) == 2)


async def test_a_line_ends_at_a_newline_and_nowhere_else(api: Scripted, rest: Rest) -> None:
    sink = Names()
    async with running(Reflector(rest, PODS, sink).run()):
        await until(lambda: bool(api.streams[PODS]))
        api.pod("p0", "odd \u2028 and \x85 and \x1c")
        stream = api.streams[PODS][0]
        whole = stream.chunks.get_nowait()
        assert whole is not None
        for at in range(0, len(whole), 7):
            stream.chunks.put_nowait(whole[at : at + 7])
        await until(lambda: sink.there == {"p0": "odd \u2028 and \x85 and \x1c"})


async def test_one_that_hangs_up_at_once_is_not_asked_as_fast_as_we_can(
    api: Scripted, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "FIRST_DELAY", 0.1)
    api.refuse = lambda method, path, query: httpx2.Response(200, content=b"") if "watch" in query else None
    async with running(Reflector(rest, PODS, Names()).run()):
        await until(lambda: len(watches(api)) >= 4)
        before = len(watches(api))
        assert before < 8


async def test_an_odd_object_does_not_hide_the_others(api: Scripted, rest: Rest) -> None:
    api.pod("p0")
    api.things[PODS]["odd"] = {"metadata": {"name": "odd"}, "status": {}}
    sink = Names()
    original = sink.put

    def put(raw: bytes | msgspec.Raw) -> Key:
        try:
            return original(raw)
        except KeyError as error:
            raise msgspec.ValidationError("no phase") from error

    sink.put = put  # type: ignore[method-assign]
    async with running(Reflector(rest, PODS, sink).run()):
        await until(lambda: bool(api.streams[PODS]))
        assert sink.there == {"p0": "Pending"}
