# SPDX-License-Identifier: Apache-2.0
"""What a story can do: a namespace and nodes of its own on a real control plane, pods, time to wait.

Every story has its own nodes (a label and a selector keep others off), so stories do not disturb each other and a full
node means what the story says it means.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lightkube import ApiError, Client
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Event, Namespace, Node, Pod

from muster.core import spec

SCHEDULER = "muster-scheduler"
STORY = "muster.dev/story"
PATIENCE = 30.0  # seconds; how long a story waits for what must come. Machines are noisy.


@dataclass
class World:
    client: Client
    namespace: str

    # ---- nodes ----------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: int = 4) -> str:
        full = f"{self.namespace}-{name}"
        room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": full, "labels": {STORY: self.namespace, "kubernetes.io/hostname": full}},
            "status": {"capacity": room, "allocatable": room},
        }
        self.client.create(from_dict(node))
        self.wait(lambda: self._ready(full), f"node {full} to be ready")
        return full

    def _ready(self, name: str) -> bool:
        node = self.client.get(Node, name)
        conditions = (node.status.conditions if node.status else None) or []
        taints = (node.spec.taints if node.spec else None) or []
        return any(c.type == "Ready" and c.status == "True" for c in conditions) and not taints

    def drop_nodes(self) -> None:
        for node in self.client.list(Node, labels={STORY: self.namespace}):
            assert node.metadata and node.metadata.name
            self.client.delete(Node, node.metadata.name)

    # ---- pods -----------------------------------------------------------------------------------------------

    def gang(
        self,
        names: Iterable[str],
        gang: str,
        minimum: int | str,
        *,
        cpu: str = "1",
        priority: str = "",
        **settings: str,
    ) -> None:
        """Members of a gang; other settings by their short names, as users write them after the prefix."""
        annotations = {spec.NAME: gang, spec.MIN: str(minimum)}
        for key, value in settings.items():
            prefix = spec.MUSTER if key == "on_timeout" else spec.KOORDINATOR
            annotations[prefix + key.replace("_", "-")] = value
        for name in names:
            self.pod(name, annotations, cpu=cpu, priorityClassName=priority or None)

    def priority(self, name: str, value: int) -> str:
        """A priority class for this story."""
        full = f"{self.namespace}-{name}"
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        self.client.create(from_dict({**kind, "metadata": {"name": full}, "value": value}))
        return full

    def pod(
        self,
        name: str,
        annotations: dict[str, str] | None = None,
        *,
        labels: dict[str, str] | None = None,
        cpu: str = "1",
        **fields: object,
    ) -> Pod:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "annotations": annotations or {},
                "labels": labels or {},
            },
            "spec": {
                "schedulerName": SCHEDULER,
                "nodeSelector": {STORY: self.namespace},
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
                **fields,
            },
        }
        created: Pod = self.client.create(from_dict(pod))  # type: ignore[assignment]
        return created

    def delete(self, *names: str) -> None:
        for name in names:
            self.client.delete(Pod, name, namespace=self.namespace, grace_period=0)

    def annotate(self, name: str, **annotations: str | None) -> None:
        keys = {spec.KOORDINATOR + key.replace("_", "-"): value for key, value in annotations.items()}
        self.client.patch(Pod, name, {"metadata": {"annotations": keys}}, namespace=self.namespace)

    def pods(self) -> dict[str, Pod]:
        return {str(p.metadata and p.metadata.name): p for p in self.client.list(Pod, namespace=self.namespace)}

    def bound(self) -> set[str]:
        return {name for name, pod in self.pods().items() if pod.spec and pod.spec.nodeName}

    def marked(self) -> set[str]:
        pods = self.pods().items()
        return {n for n, p in pods if p.metadata and (p.metadata.annotations or {}).get(spec.TIMEOUT) == "true"}

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of each event on the pod, oldest first."""
        listed = self.client.list(Event, namespace=self.namespace, fields={"involvedObject.name": name})
        return [(event.reason or "", event.message or "") for event in listed]

    # ---- time -----------------------------------------------------------------------------------------------

    def wait(self, check: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
        """Wait until it is so; returns how long that took."""
        began = time.monotonic()
        while not check():
            if time.monotonic() - began > patience:
                raise AssertionError(f"waited {patience:g}s in vain for {what}; bound: {sorted(self.bound())}")
            time.sleep(0.05)
        return time.monotonic() - began

    def wait_bound(self, names: Iterable[str], patience: float = PATIENCE) -> float:
        wanted = set(names)
        return self.wait(lambda: wanted <= self.bound(), f"{sorted(wanted)} to be bound", patience)

    def wait_told(self, name: str, reason: str, text: str = "", patience: float = PATIENCE) -> float:
        def told() -> bool:
            return any(r == reason and text in message for r, message in self.events(name))

        return self.wait(told, f"pod {name} to be told {reason} {text!r}, was told {self.events(name)}", patience)

    def never(self, check: Callable[[], bool], what: str, seconds: float) -> None:
        """Look for a while: it must not be so at any moment."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert not check(), what
            time.sleep(0.05)


@contextmanager
def new_world(client: Client, name: str) -> Iterator[World]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    client.create(from_dict(namespace))
    world = World(client, name)
    world.wait(lambda: _has_default_account(client, name), f"namespace {name} to be usable")
    try:
        yield world
    finally:
        client.deletecollection(Pod, namespace=name, grace_period=0)
        world.drop_nodes()
        client.delete(Namespace, name)


def _has_default_account(client: Client, namespace: str) -> bool:
    from lightkube.resources.core_v1 import ServiceAccount

    try:
        client.get(ServiceAccount, "default", namespace=namespace)
    except ApiError as error:
        if error.status.code == 404:
            return False
        raise
    return True
