# SPDX-License-Identifier: Apache-2.0
"""The fake nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from localcluster.api import Api

_PATH = "/api/v1/nodes"
# Marks the nodes that are ours to remove; those a user creates are left alone.
_OURS = "localcluster.muster.dev/node"


@dataclass(frozen=True)
class NodeShape:
    """What a node offers, as Kubernetes quantities."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: str = "110"

    def resources(self) -> dict[str, str]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": self.pods}


def adjust(api: Api, count: int, shape: NodeShape) -> str:
    """Make node-0 … node-<count-1> with this shape be the nodes of ours; tell what was done."""
    existing = api.request("GET", f"{_PATH}?labelSelector={_OURS}")["items"]
    have = {node["metadata"]["name"]: node["status"].get("allocatable") for node in existing}
    want = [f"node-{index}" for index in range(count)]
    missing = [name for name in want if name not in have]
    surplus = have.keys() - set(want)
    changed = [name for name in want if name in have and have[name] != shape.resources()]
    api.each("POST", [(_PATH, _node(name, shape)) for name in missing])
    api.each("DELETE", [(f"{_PATH}/{name}", None) for name in surplus])
    status = {"status": {"capacity": shape.resources(), "allocatable": shape.resources()}}
    api.each("PATCH", [(f"{_PATH}/{name}/status", status) for name in changed])
    return f"{count} nodes ({len(missing)} created, {len(surplus)} removed, {len(changed)} changed)"


def ready(api: Api) -> tuple[int, int]:
    """How many nodes can take pods, and how many there are."""
    nodes = api.request("GET", _PATH)["items"]
    return sum(_usable(node) for node in nodes), len(nodes)


def _usable(node: dict[str, Any]) -> bool:
    # The condition comes from the fake kubelet; the taint goes when the node controller has seen it.
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _node(name: str, shape: NodeShape) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "fake",
                _OURS: "true",
            },
        },
        "status": {
            "capacity": shape.resources(),
            "allocatable": shape.resources(),
            # Ready from birth: a node that the node controller has once seen not ready takes it far longer to clear,
            # a minute for 1000 nodes. The fake kubelet makes those ready that come without.
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "created ready",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
            "nodeInfo": {"kubeletVersion": "fake", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }
