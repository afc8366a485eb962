# SPDX-License-Identifier: Apache-2.0
"""Gangs that want the same room: whatever the order in which the scheduler takes their pods, each that fits alone
runs some day, one after the other, as those who run finish."""

import random

import pytest

from muster.core.reasons import Reason
from tests.builders import pod
from tests.core.simulator import At, Simulator

PODS_RUN = 15.0  # seconds


def run(world: Simulator, dice: random.Random, limit: float) -> list[str]:
    """In which order the gangs started. The scheduler takes pods in any order, and frees room late: the worst case."""
    started: list[str] = []
    ends: dict[str, float] = {}
    reasons: set[Reason] = set()
    while world.entries and world.now < limit:
        for _ in range(4):
            ready = world.queued()
            if ready and world.asking is None:
                world.attempt(dice.choice(ready))
        for uid in [uid for uid, entry in world.entries.items() if entry.at is At.BINDING]:
            world.finish_bind(uid)
            gang = world.entries[uid].pod.name.partition("-")[0]
            ends[uid] = world.now + PODS_RUN
            if gang not in started:
                started.append(gang)
        for uid in [uid for uid in world.entries if ends.get(uid, limit) <= world.now]:
            world.delete(uid)
        reasons |= {group.failure.reason for group in world.core.groups.values() if group.failure}
        world.pass_time(dice.choice([0.05, 0.2, 0.5]))
    assert not world.entries, f"{sorted(world.entries)} never ran, {started} did; {reasons}"
    return started


def submit(world: Simulator, sizes: list[int], mode: str, dice: random.Random) -> None:
    pods = [
        pod(f"g{gang}-{member}", f"g{gang}", size, mode=mode, created=gang, waiting_time="10m")
        for gang, size in enumerate(sizes)
        for member in range(size)
    ]
    dice.shuffle(pods)
    for each in pods:
        world.create(each)


@pytest.mark.parametrize("seed", range(12))
def test_strict_gangs_that_race_all_run(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, 6) for _ in range(4)]
    world = Simulator(slots=max(sizes))
    submit(world, sizes, "Strict", dice)
    run(world, dice, limit=900.0)


@pytest.mark.parametrize("seed", range(12))
def test_lenient_gangs_that_race_all_run(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [dice.randint(1, 6) for _ in range(4)]
    world = Simulator(slots=max(sizes) + dice.randint(0, 3))
    submit(world, sizes, "NonStrict", dice)
    run(world, dice, limit=600.0)  # before the waits run out: it is not the timeout that solves it


def test_of_two_strict_gangs_that_fit_only_alone_the_first_wins_at_once() -> None:
    world = Simulator(slots=3)
    submit(world, [3, 3], "Strict", random.Random(1))
    for _ in range(12):
        world.schedule_one()
    bound = sorted(uid for uid, entry in world.entries.items() if entry.at is At.BINDING)
    assert bound == ["g0-0", "g0-1", "g0-2"]
    assert world.now == 0.0
