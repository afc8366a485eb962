# SPDX-License-Identifier: Apache-2.0
"""What the writer is told about gangs that have an object is what `muster get gangs` shows, after every event."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from muster.core import Policy, events, spec
from muster.core.decision import Admit, Effect
from muster.core.model import PodUid, Source
from muster.core.reasons import Reason
from muster.server import engine as module
from muster.server.engine import Engine
from tests.builders import pod, podgroup
from tests.server.harness import Notes


class Story:
    def __init__(self, engine: Engine, notes: Notes) -> None:
        self._engine = engine
        self._notes = notes

    def open(self, *pods: object, objects: Iterable[object] = ()) -> None:
        opening = events.Synchronize(tuple(pods), tuple(objects))  # type: ignore[arg-type]
        self._engine.open("e1", opening, lambda effects: None)

    def close(self) -> None:
        self._engine.close()

    def happen(self, event: events.Event) -> tuple[Effect, ...]:
        return self._engine.handle(event).effects

    async def told(self) -> dict[str, str]:
        """The reasons as they were told, which must be those that people are shown."""
        await asyncio.sleep(0.03)
        shown = {gang.key: gang.why for gang in self._engine.gangs() if gang.key in self._notes.held}
        assert self._notes.held == shown
        return {key: why.reason.value if why else "" for key, why in self._notes.held.items()}

    @property
    def leading(self) -> bool:
        return self._notes.leading


@pytest.fixture
async def story(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Story]:
    monkeypatch.setattr(module, "EXPLAIN_EVERY", 0.005)
    notes = Notes()
    engine = Engine(Policy(), notes)
    task = asyncio.create_task(engine.explain_forever())
    yield Story(engine, notes)
    engine.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def joins(name: str, gang: str = "train", node: str = "") -> events.PodSeen:
    return events.PodSeen(pod(name, gang, joins=Source.SIGS, node=node))


async def test_the_life_of_a_gang(story: Story) -> None:
    story.open()
    assert await story.told() == {}
    story.happen(events.ObjectSeen(podgroup("train", 2)))
    assert await story.told() == {"a/train": "NotEnoughMembers"}
    story.happen(joins("p0"))
    assert await story.told() == {"a/train": "NotEnoughMembers"}
    admitted = story.happen(joins("p1"))
    assert any(isinstance(effect, Admit) for effect in admitted)
    assert await story.told() == {"a/train": ""}
    story.happen(events.PostFilter(PodUid("p0"), "0/1 nodes are available"))
    assert await story.told() == {"a/train": "NoRoom"}
    story.happen(joins("p0", node="n"))
    story.happen(joins("p1", node="n"))
    await story.told()
    story.happen(events.PodGone(PodUid("p0")))
    story.happen(events.PodGone(PodUid("p1")))
    assert await story.told() == {"a/train": "NotEnoughMembers"}
    story.happen(events.ObjectGone(Source.SIGS, "a", "train", "SIGS-train"))
    assert await story.told() == {}


async def test_gangs_without_an_object_are_not_told_of(story: Story) -> None:
    story.open(pod("p0", "plain", 2))
    story.happen(events.PodSeen(pod("p1", "plain", 3)))
    assert await story.told() == {}


async def test_what_another_gang_of_the_group_lacks_is_told_on_all_of_them(story: Story) -> None:
    groups = '["a/left", "a/right"]'
    story.open(objects=[podgroup("left", 1, groups=groups)])
    assert await story.told() == {"a/left": "GroupIncomplete"}
    story.happen(events.ObjectSeen(podgroup("right", 1, groups=groups)))
    assert await story.told() == dict.fromkeys(("a/left", "a/right"), "NotEnoughMembers")
    story.happen(joins("p0", "left"))
    assert await story.told() == dict.fromkeys(("a/left", "a/right"), "NotEnoughMembers")
    story.happen(joins("p1", "right"))
    assert await story.told() == dict.fromkeys(("a/left", "a/right"), "")


async def test_what_concerns_the_whole_cluster_is_told_of_gangs_without_members_too(story: Story) -> None:
    story.open(objects=[podgroup("big", 1, resources={"cpu": 8000}), podgroup("apart", 1, groups='["b/other"]')])
    assert await story.told() == {"a/big": "NotEnoughMembers", "a/apart": "GroupNotAllowed"}
    story.happen(events.Capacity({"cpu": 4000}))
    for namespace in ("a", "b"):
        story.happen(events.NamespaceSeen(namespace, {spec.CONSENT: spec.CONSENTS}))
    assert await story.told() == {"a/big": Reason.TOO_BIG_FOR_CLUSTER.value, "a/apart": "GroupIncomplete"}


async def test_a_new_session_takes_back_what_is_not_there_any_more(story: Story) -> None:
    story.open(objects=[podgroup("train", 2), podgroup("gone", 2)])
    assert set(await story.told()) == {"a/train", "a/gone"}
    assert story.leading
    story.close()
    assert not story.leading
    story.open(objects=[podgroup("train", 2)])
    assert set(await story.told()) == {"a/train"}
    assert story.leading
