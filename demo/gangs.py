# SPDX-License-Identifier: Apache-2.0
"""The pods of the demo, as a user would write them."""

import json

SCHEDULER = "muster-scheduler"


def pod(gang: str, index: int, minimum: int, cpu: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{gang}-{index}",
            "annotations": {
                "gang.scheduling.koordinator.sh/name": gang,
                "gang.scheduling.koordinator.sh/min-available": str(minimum),
            },
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}],
        },
    }


def pods(gang: str, indices: range, minimum: int, cpu: int) -> str:
    """As JSON for kubectl."""
    items = [pod(gang, index, minimum, cpu) for index in indices]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
