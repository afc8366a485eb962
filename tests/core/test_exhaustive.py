# SPDX-License-Identifier: Apache-2.0
"""Every history up to a length, in a small world. judge.py checks every event; a share of the states is run to its
end. MUSTER_DEPTH looks further (12 takes some minutes); the ordinary run takes some 30 seconds.
"""

import itertools
import os

import pytest

from tests.core.smallworld import GANGS, MINIMUM, Action, Shape, SmallWorld, thaw

DEEPER = int(os.environ.get("MUSTER_DEPTH", "0"))
SHARE = 8 if DEEPER else 32  # one state in so many is run to its end, which costs as much as visiting twenty
MIXED = ("Strict", "NonStrict")
MODES = [("Strict", "Strict"), MIXED, ("NonStrict", "NonStrict")]
POLICIES = ["once-satisfied", "only-waiting", "waiting-and-running"]
SHAPES = [Shape(modes, policy, grouped=False) for modes, policy in itertools.product(MODES, POLICIES)]
SHAPES += [Shape(modes, policy, grouped=True) for modes, policy in zip(MODES, POLICIES, strict=True)]


@pytest.mark.parametrize(("troubles", "depth"), [(1, DEEPER or 6), (2, (DEEPER or 5) - 2)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_history_starts_a_gang_in_part_or_hangs_it(shape: Shape, troubles: int, depth: int) -> None:
    begin = SmallWorld(shape, troubles)
    for gang in GANGS:
        for _ in range(MINIMUM):
            begin.act(("create", gang))
    seen: set[int] = set()
    layer: list[tuple[SmallWorld, tuple[Action, ...]]] = [(begin, ())]
    for _ in range(depth):
        following: list[tuple[SmallWorld, tuple[Action, ...]]] = []
        for world, path in layer:
            frozen = world.freeze()
            for action in world.actions():
                after = thaw(frozen)
                try:
                    after.act(action)
                    if (state := after.fingerprint()) in seen:
                        continue
                    seen.add(state)
                    if state % SHARE == 0:
                        thaw(after.freeze()).must_end_well()
                except AssertionError as error:
                    raise AssertionError(f"{error}\nafter {(*path, action)}") from error
                following.append((after, (*path, action)))
        layer = following
    print(f"{len(seen)} states")
