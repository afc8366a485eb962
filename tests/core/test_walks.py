# SPDX-License-Identifier: Apache-2.0
"""Long random walks through the small world, with messages that are on their way for as long as they like.

What the exhaustive search is too short for and Hypothesis too polite. MUSTER_WALKS makes more of them.
"""

import os
import random

import pytest

from tests.core.smallworld import Action, Shape, SmallWorld

WALKS = int(os.environ.get("MUSTER_WALKS", "120"))
MODES = ("Strict", "NonStrict")
POLICIES = ("once-satisfied", "only-waiting", "waiting-and-running")
# The ordinary course of things is more likely than what goes wrong, else a walk gets nowhere.
WEIGHTS = {"pop": 8, "bind": 4, "up": 12, "down": 12, "time": 3, "create": 4, "unreserve": 6}


@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_walk_starts_a_gang_in_part_or_hangs_it(policy: str, lag: bool) -> None:
    for seed in range(WALKS):
        dice = random.Random(seed)
        shape = Shape(
            (dice.choice(MODES), dice.choice(MODES)), policy, dice.random() < 0.5, dice.choice(["Retry", "Fail"])
        )
        world = SmallWorld(shape, troubles=dice.randrange(8), lag=lag, again=dice.randrange(4))
        path: list[Action] = []
        try:
            for _ in range(80):
                could = world.actions()
                if not could:
                    break
                path.append(dice.choices(could, [WEIGHTS.get(action[0], 1) for action in could])[0])
                world.act(path[-1])
            world.must_end_well()
        except AssertionError as error:
            raise AssertionError(f"{error}\nseed {seed}, {shape}, after {path}") from error
