# SPDX-License-Identifier: Apache-2.0
"""The cluster that is measured on: a control plane and nodes without kubelets."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from localcluster import Cluster, ClusterError
from localcluster.api import Api
from localcluster.layout import REPO, Layout

NAMESPACE = "bench"
POD_GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/podgroups"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_SCHEDULER = {"kind": "ServiceAccount", "name": "muster-scheduler", "namespace": "muster-system"}
_SETTLED = 6.0  # seconds without a change of any node: more than a period of the node controller

Progress = Callable[[str], None]


class Lab:
    """Leaving the `with` block stops and removes everything."""

    def __init__(self, dir: Path, nodes: int, progress: Progress) -> None:
        self._cluster = Cluster(dir, parts=["controlplane"])
        self._nodes = nodes
        self._say = progress

    def __enter__(self) -> Lab:
        self._cluster.stop()  # what a killed run left would be measured along
        self._cluster.start(nodes=0)
        try:
            self._furnish()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.stop()

    @property
    def layout(self) -> Layout:
        return self._cluster.layout

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        # A new connection each time: the API server closes those that are idle, and most are for minutes.
        with Api(self.layout) as api:
            return api.request(method, path, body)

    def _post_all(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        with Api(self.layout) as api:
            api.each("POST", ((path, body) for body in bodies))

    @property
    def control_plane_pid(self) -> int:
        pid = self._cluster.pid("controlplane")
        if pid is None:
            raise ClusterError("the control plane is not running")
        return pid

    def _furnish(self) -> None:
        self._say(f"control plane is up; creating {self._nodes} nodes")
        self._request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._post_all("/api/v1/nodes", (_node(index) for index in range(self._nodes)))
        self._wait(self._default_account, "the namespace to be usable", 30)
        self._settle()

    def _default_account(self) -> bool:
        accounts = self._request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")["items"]
        return any(account["metadata"]["name"] == "default" for account in accounts)

    def _settle(self) -> None:
        """Wait until the controllers are done with the new nodes."""
        seen, since = "", time.monotonic()

        def quiet() -> bool:
            nonlocal seen, since
            nodes = self._request("GET", "/api/v1/nodes")["items"]
            now = str([(node["metadata"]["resourceVersion"]) for node in nodes])
            if now != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since > _SETTLED

        self._wait(quiet, "the node controller to be done", 120, every=1.0)

    def _wait(self, done: Callable[[], bool], what: str, timeout: float, every: float = 0.1) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {timeout:g} s for {what}")
            time.sleep(every)

    def allow_pod_groups(self, crd: Mapping[str, Any]) -> None:
        """Make the API of coscheduling known and let the schedulers' account use it."""
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        known = {each["metadata"]["name"] for each in self._request("GET", definitions)["items"]}
        if crd["metadata"]["name"] not in known:  # Muster reads the same PodGroups and brings their definition along
            self._request("POST", definitions, crd)
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}
        role = {"metadata": {"name": "bench-coscheduling"}, "rules": [rule]}
        self._request("POST", f"{rbac}/clusterroles", role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench-coscheduling"}
        binding = {"metadata": {"name": "bench-coscheduling"}, "roleRef": reference, "subjects": [_SCHEDULER]}
        self._request("POST", f"{rbac}/clusterrolebindings", binding)
        self._wait(self._pod_groups_served, "the API of PodGroups", 30)

    def _pod_groups_served(self) -> bool:
        try:
            self._request("GET", POD_GROUPS)
        except ClusterError:
            return False
        return True

    def create_pod_groups(self, names: Iterable[str], size: int) -> None:
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        self._post_all(
            POD_GROUPS, ({**kind, "metadata": {"name": name}, "spec": {"minMember": size}} for name in names)
        )

    def clear(self, pod_groups: bool) -> None:
        """Remove the pods of a run, and its events and PodGroups: they would slow down the next one."""
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for path in (_PODS, _EVENTS, *([POD_GROUPS] if pod_groups else [])):
            # A request has a time limit; a second one takes up where the first had to stop.
            self._wait(lambda path=path: self._emptied(path, now), f"{path} to be empty", 120)  # type: ignore[misc]

    def _emptied(self, path: str, options: Mapping[str, Any]) -> bool:
        try:
            self._request("DELETE", path, options)
        except ClusterError as error:
            if "timed out" not in str(error):
                raise
        return not self._request("GET", f"{path}?limit=1")["items"]


def pod_group_crd(module: Path) -> dict[str, Any]:
    """The definition that comes with the Go module of coscheduling."""
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins"],
        cwd=module,
        capture_output=True,
        text=True,
        check=True,
    )
    file = Path(found.stdout.strip()) / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"
    crd: dict[str, Any] = yaml.safe_load(file.read_text())
    return crd


def module_dir() -> Path:
    return REPO / "bench" / "coscheduling"


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index}"
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
        # What the node controller would say of it anyway before long, so that nothing changes in the middle of a run.
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
