# SPDX-License-Identifier: Apache-2.0
"""The loop that keeps the status: who may write, when, and what it does when it may not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.writer.status import Keeper, keeper, reflector, sources
from muster.writer.wire import GangGone, GangHeld, Leading, Tell
from tests.writer.scripted import GROUP, GROUPS, PODS, Scripted, failure, running, until

TRAIN = f"/apis/{GROUP}/namespaces/a/podgroups/train"
SHORT = GangHeld("a/train", "NotEnoughMembers", "waiting for 1 more of 2 members of gang a/train")
FREE = GangHeld("a/train", "", "")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(reflector, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(sources, "ASK_EVERY", 0.05)
    monkeypatch.setattr(keeper, "SETTLE", 0.02)
    monkeypatch.setattr(keeper, "BETWEEN", 0.05)
    return Scripted()


class Kept:
    def __init__(self, keeper: Keeper, told: list[Tell]) -> None:
        self.obey = keeper.obey
        self.told = told

    def reasons(self) -> list[str]:
        return [tell.reason for tell in self.told]


@asynccontextmanager
async def keeping(api: Scripted, directory: Path, leading: bool = True) -> AsyncIterator[Kept]:
    told: list[Tell] = []
    rest = api.rest(directory)
    made = Keeper(rest, told.append)
    async with running(made.run()):
        if leading:
            made.obey(Leading(True))
        yield Kept(made, told)
    await rest.close()


def status(api: Scripted, name: str = "train") -> dict[str, Any]:
    found: dict[str, Any] = api.things[GROUPS][name].get("status", {})
    return found


def reason(api: Scripted) -> str:
    return str(next((c["reason"] for c in status(api).get("conditions", [])), ""))


async def calm(api: Scripted) -> None:
    """Until nothing was written for a while."""
    before = -1
    while before != len(api.patches):
        before = len(api.patches)
        await asyncio.sleep(0.3)


async def test_it_follows_pods_and_words(api: Scripted, tmp_path: Path) -> None:
    async with keeping(api, tmp_path) as kept:
        kept.obey(SHORT)
        api.group()
        api.pod("p0")
        await until(lambda: reason(api) == "NotEnoughMembers" and status(api)["members"] == 1)
        kept.obey(FREE)
        api.pod("p0", "Running", "n")
        api.pod("p1", "Running", "n")
        await until(lambda: status(api)["phase"] == "Running" and reason(api) == "Scheduled")
        api.pod("p0", "Succeeded", "n")
        api.pod("p1", "Succeeded", "n")
        await until(lambda: status(api)["phase"] == "Finished")
        assert kept.reasons() == ["NotEnoughMembers", "Scheduled"]
        assert (kept.told[0].kind, kept.told[0].api_version, kept.told[0].uid) == ("PodGroup", GROUP, "u-train")


async def test_one_whose_scheduler_never_leads_asks_for_nothing(api: Scripted, tmp_path: Path) -> None:
    api.group()
    async with keeping(api, tmp_path, leading=False) as kept:
        kept.obey(SHORT)
        await asyncio.sleep(0.2)
        assert not api.requests


async def test_one_that_leads_no_more_stops_writing_and_catches_up_when_it_does(api: Scripted, tmp_path: Path) -> None:
    api.group()
    async with keeping(api, tmp_path) as kept:
        await until(lambda: status(api).get("phase") == "Pending")
        kept.obey(Leading(False))
        api.pod("p0", "Running", "n")
        kept.obey(SHORT)
        await asyncio.sleep(0.3)
        assert status(api)["members"] == 0
        kept.obey(Leading(True))
        await until(lambda: status(api)["members"] == 1 and reason(api) == "NotEnoughMembers")


async def test_nothing_is_written_before_the_pods_are_known(api: Scripted, tmp_path: Path) -> None:
    api.group(status={"phase": "Running", "running": 2})
    api.pod("p0", "Running", "n")
    api.pod("p1", "Running", "n")
    api.refuse = lambda method, path, query: failure(503) if path == PODS else None
    async with keeping(api, tmp_path):
        await until(lambda: bool(api.streams[GROUPS]))
        await asyncio.sleep(0.2)
        assert not api.patches
        api.refuse = lambda *_: None
        await until(lambda: bool(api.patches))
        assert all(patch.get("phase", "Running") == "Running" for _, patch in api.patches)


async def test_what_is_as_it_should_be_is_not_written_again(api: Scripted, tmp_path: Path) -> None:
    api.group()
    async with keeping(api, tmp_path) as kept:
        kept.obey(SHORT)
        await calm(api)
        before = len(api.patches)
        api.put(GROUPS, "train", spec={"minMember": 2}, status=status(api), metadata={"annotations": {"x": "y"}})
        kept.obey(Leading(True))
        await calm(api)
        assert len(api.patches) == before <= 2


async def test_a_definition_that_comes_later_is_noticed_and_one_that_goes_is_too(api: Scripted, tmp_path: Path) -> None:
    served, api.served = api.served, {}
    async with keeping(api, tmp_path):
        await until(lambda: len(api.requests) > 6)
        assert not any(path == PODS for _, path, _ in api.requests)  # nobody to watch pods for
        api.served = served
        api.group()
        await until(lambda: status(api).get("phase") == "Pending")
        api.served = {}
        await asyncio.sleep(0.2)
        before = len(api.patches)
        api.pod("p0")
        await asyncio.sleep(0.2)
        assert len(api.patches) == before


async def test_without_a_status_of_its_own_the_object_is_written(api: Scripted, tmp_path: Path) -> None:
    api.served = {GROUP: ["podgroups"]}
    api.group()
    async with keeping(api, tmp_path):
        await until(lambda: status(api).get("phase") == "Pending")
        assert {path for path, _ in api.patches} == {TRAIN}
        api.served = {GROUP: ["podgroups", "podgroups/status"]}
        await asyncio.sleep(0.2)
        api.pod("p0")
        await until(lambda: status(api)["members"] == 1)
        assert api.patches[-1][0] == f"{TRAIN}/status"


async def test_fields_the_definition_does_not_have_are_written_once_and_events_still_come(
    api: Scripted, tmp_path: Path
) -> None:
    api.status_fields = {"phase", "running", "succeeded", "failed", "occupiedBy", "scheduleStartTime"}
    api.group()
    async with keeping(api, tmp_path) as kept:
        kept.obey(SHORT)
        await calm(api)
        assert len(api.patches) <= 2
        kept.obey(GangHeld("a/train", "NoRoom", "no node"))
        await until(lambda: kept.reasons() == ["NotEnoughMembers", "NoRoom"])
        api.pod("p0", "Running", "n")
        await until(lambda: status(api)["running"] == 1)
        assert "conditions" not in api.patches[-1][1]


async def test_a_conflict_is_tried_again_with_what_the_watch_brings(api: Scripted, tmp_path: Path) -> None:
    api.group()
    async with keeping(api, tmp_path):
        await until(lambda: status(api).get("phase") == "Pending")
        theirs = {"type": "Theirs", "status": "True"}
        changed = {**status(api), "conditions": [theirs]}
        api.put(GROUPS, "train", told=False, spec={"minMember": 2}, status=changed)
        api.pod("p0")
        await until(lambda: sum(method == "PATCH" for method, _, _ in api.requests) > len(api.patches))
        api.streams[GROUPS][0].send("MODIFIED", api.things[GROUPS]["train"])
        await until(lambda: status(api)["members"] == 1)
        assert theirs in status(api)["conditions"]


async def test_what_is_forbidden_is_not_tried_all_the_time(api: Scripted, tmp_path: Path) -> None:
    api.refuse = lambda method, path, query: failure(403, "no") if method == "PATCH" else None
    api.group()
    async with keeping(api, tmp_path) as kept:
        await until(lambda: any(method == "PATCH" for method, _, _ in api.requests))
        await asyncio.sleep(0.3)
        assert sum(method == "PATCH" for method, _, _ in api.requests) == 1
        assert not kept.told


async def test_new_words_for_the_same_reason_wait_and_are_no_event(
    api: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "PAUSE", 0.5)
    api.group()
    async with keeping(api, tmp_path) as kept:
        kept.obey(GangHeld("a/train", "NoRoom", "try 0"))
        await until(lambda: reason(api) == "NoRoom")
        await calm(api)
        before = len(api.patches)
        for n in range(1, 30):
            kept.obey(GangHeld("a/train", "NoRoom", f"try {n}"))
            await asyncio.sleep(0.03)
        await until(lambda: status(api)["conditions"][0]["message"] == "try 29")
        assert len(api.patches) - before <= 4
        assert kept.reasons() == ["NoRoom"]


async def test_a_podgroup_that_is_created_anew_starts_over(api: Scripted, tmp_path: Path) -> None:
    api.group()
    async with keeping(api, tmp_path) as kept:
        kept.obey(SHORT)
        await until(lambda: reason(api) == "NotEnoughMembers")
        api.delete(GROUPS, "train")
        kept.obey(GangGone("a/train"))
        api.group(minimum=1, metadata={"uid": "u-2"})
        api.pod("p0", "Running", "n")
        await until(lambda: status(api).get("phase") == "Running" and reason(api) == "Scheduled")
