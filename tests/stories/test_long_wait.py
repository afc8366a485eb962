# SPDX-License-Identifier: Apache-2.0
"""A wait beyond the framework's limit of 15 minutes.

Takes 17; run by name: pytest -m slow tests/stories/test_long_wait.py
"""

import time

import pytest

from tests.stories.world import World

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1500)]


def test_a_wait_of_sixteen_minutes_is_kept(world: World) -> None:
    world.node("a", cpu=2)
    world.gang(["p0", "p1", "p2"], "train", 3, mode="NonStrict", waiting_time="16m")
    world.wait_told("p0", "WaitingForQuorum", "2 of 3 members")
    began = time.monotonic()

    world.wait(lambda: len(world.marked()) == 3, "the wait to end", patience=1200)

    assert 950 < time.monotonic() - began < 975
