# SPDX-License-Identifier: Apache-2.0
"""Either side is killed at every extension point, with gangs of both modes under way.

Whatever dies wherever: no gang starts in part before it could be whole, and both gangs run in the end.
"""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightkube import Client, KubeConfig

from localcluster import Cluster
from localcluster.layout import BIN
from tests.stories.conftest import ELSEWHERE
from tests.stories.world import World, new_world

pytestmark = pytest.mark.cluster

SCHEDULER = [
    *("before-PreFilter", "after-PreFilter", "before-PostFilter", "after-PostFilter", "before-Permit", "after-Permit"),
    *("before-wait", "after-wait", "after-quorum", "before-Unreserve", "after-Unreserve", "before-Bind", "after-Bind"),
]
SERVER = [
    f"{when}-{event}"
    for event in ("PodSeen", "Permit", "CommitReport", "PostFilter", "Unreserve", "Tick")
    for when in ("before", "after")
]
POINTS = [("scheduler", point) for point in SCHEDULER] + [("server", point) for point in SERVER]


@pytest.fixture(scope="module")
def failing() -> Iterator[tuple[Cluster, dict[str, Path]]]:
    """A cluster whose scheduler and server die where a file says."""
    if ELSEWHERE in os.environ:
        pytest.skip("needs the local cluster")
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        files = {part: Path(directory) / f"fail-{part}" for part in ("scheduler", "server")}
        env = {part: f"MUSTER_FAILPOINT={path}" for part, path in files.items()}
        python = [str(BIN.parent.parent / ".venv" / "bin" / "python"), "-m", "tests.stories.failing_server"]
        cluster = Cluster(
            Path(directory) / "c",
            programs={
                "scheduler": ["/usr/bin/env", env["scheduler"], str(BIN / "muster-scheduler-failing")],
                "server": ["/usr/bin/env", env["server"], *python],
            },
            progress=print,
        )
        cluster.start(nodes=0)
        yield cluster, files
        cluster.stop()


@pytest.fixture(scope="module")
def client(failing: tuple[Cluster, dict[str, Path]]) -> Iterator[Client]:
    made = Client(config=KubeConfig.from_file(failing[0].kubeconfig), field_manager="muster-tests")
    yield made
    made.close()


@pytest.mark.parametrize(("part", "point"), POINTS, ids=[f"{part}-{point}" for part, point in POINTS])
def test_killed_at(failing: tuple[Cluster, dict[str, Path]], client: Client, part: str, point: str) -> None:
    cluster, files = failing
    with new_world(client, f"m-{uuid.uuid4().hex[:8]}") as world:
        old = cluster.pid(part)
        assert old
        needs_failure = any(word in point for word in ("PostFilter", "Unreserve", "Tick"))
        tell(world, files[part], point, needs_failure)
        world.wait(lambda: not files[part].exists(), f"{part} to reach {point}", 60)
        cluster.wait_restart(part, old)
        if needs_failure:
            assert not world.bound(), "a gang started in part"
        world.node("more", cpu=8)
        world.wait_bound(["strict-0", "strict-1", "strict-2", "loose-0", "loose-1"], 60)


def tell(world: World, file: Path, point: str, needs_failure: bool) -> None:
    """Two gangs; where the point is on the way of a failure, there is room for neither of them."""
    world.node("a", cpu=1 if needs_failure else 8)
    file.write_text(point)
    loose = {"mode": "NonStrict", "waiting_time": "2s", "on_timeout": "Retry"}
    world.gang(["loose-0", "loose-1"], "loose", 2, **loose)
    world.gang(["strict-0", "strict-1", "strict-2"], "strict", 3)
    if needs_failure:
        world.never(lambda: bool(world.bound()), "a gang started in part", 0.5)
