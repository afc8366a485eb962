# SPDX-License-Identifier: Apache-2.0
"""What scheduling costs in calls to the server: nothing for plain pods, one round trip at most for a gang."""

import re

import pytest

from localcluster import Cluster
from tests.stories.world import World

pytestmark = pytest.mark.cluster
_SAMPLE = re.compile(r"^(?P<name>muster_\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$", re.MULTILINE)


def counters(cluster: Cluster) -> dict[str, float]:
    """The scheduler's own counts, by name and labels. It authenticates us as any other client of the cluster."""
    port = (cluster.layout.run / "scheduler.port").read_text().strip()
    address = (f"--server=https://127.0.0.1:{port}", "--insecure-skip-tls-verify")
    text = cluster.kubectl(*address, "get", "--raw", "/metrics")
    return {f"{m['name']}{{{m['labels'] or ''}}}": float(m["value"]) for m in _SAMPLE.finditer(text)}


def grown(before: dict[str, float], after: dict[str, float], name: str) -> dict[str, float]:
    return {
        key: value - before.get(key, 0.0)
        for key, value in after.items()
        if key.startswith(name + "{") and value != before.get(key, 0.0)
    }


def test_plain_pods_cause_no_call_and_no_fact(world: World, cluster: Cluster) -> None:
    world.node("a", cpu=64)
    before = counters(cluster)
    names = [f"p{index}" for index in range(30)]
    for name in names:
        world.pod(name, cpu="100m")
    world.wait_bound(names)
    world.delete(*names[:5])
    after = counters(cluster)
    assert not grown(before, after, "muster_calls_total")
    assert not grown(before, after, "muster_facts_sent_total")


@pytest.mark.parametrize("size", [2, 30])
def test_a_gang_costs_one_round_trip_at_most_whatever_its_size(world: World, cluster: Cluster, size: int) -> None:
    world.node("a", cpu=64)
    before = counters(cluster)
    names = [f"p{index}" for index in range(size)]
    world.gang(names, "train", size, cpu="100m")
    world.wait_bound(names)
    calls = grown(before, counters(cluster), "muster_calls_total")
    waited = {key: count for key, count in calls.items() if 'result="quiet"' not in key}
    assert sum(waited.values()) <= 1, calls
    assert sum(calls.values()) == size
