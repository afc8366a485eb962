# SPDX-License-Identifier: Apache-2.0
"""The fake nodes of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


def adjust(kubectl: Callable[..., str], count: int, shape: NodeShape) -> str:
    """Make node-0 … node-<count-1> with this shape be the nodes of ours; tell what was done."""
    existing = json.loads(kubectl("get", "nodes", "-l", _OURS, "-o", "json"))["items"]
    have = {node["metadata"]["name"]: node for node in existing}
    want = [f"node-{index}" for index in range(count)]
    missing = [name for name in want if name not in have]
    surplus = sorted(have.keys() - set(want))
    changed = [name for name in want if name in have and have[name]["status"].get("allocatable") != shape.resources()]
    if missing:
        items = [_node(name, shape) for name in missing]
        kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    if surplus:
        kubectl("delete", "nodes", "--wait=false", *surplus)
    status = {"status": {"capacity": shape.resources(), "allocatable": shape.resources()}}
    for name in changed:
        kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps(status))
    return f"{count} nodes ({len(missing)} created, {len(surplus)} removed, {len(changed)} changed)"


def ready(kubectl: Callable[..., str]) -> tuple[int, int]:
    """How many nodes can take pods, and how many there are."""
    nodes: list[dict[str, Any]] = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    return sum(_usable(node) for node in nodes), len(nodes)


def _usable(node: dict[str, Any]) -> bool:
    # The condition comes from the fake kubelet; the taint goes when the node controller has seen it.
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _node(name: str, shape: NodeShape) -> dict[str, Any]:
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
        "status": {"capacity": shape.resources(), "allocatable": shape.resources()},
    }
