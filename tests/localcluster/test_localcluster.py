# SPDX-License-Identifier: Apache-2.0
"""The local cluster itself: what every other cluster test takes for granted."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster import Cluster, ClusterError, Layout

pytestmark = pytest.mark.cluster

NODE = "node-0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Not pytest's own directory: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        cluster = Cluster(directory, parts=["kwok"])
        cluster.start(nodes=2)
        yield cluster
        cluster.stop()


def eventually(check: Callable[[], bool], timeout: float = 15) -> bool:
    deadline = time.monotonic() + timeout
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def pod(name: str, node: str = NODE, **metadata: object) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "containers": [{"name": "work", "image": "none"}],
            },
        }
    )


def phase(cluster: Cluster, name: str) -> str:
    return cluster.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")


def test_refuses_whoever_shows_no_credentials(cluster: Cluster) -> None:
    port = cluster.layout.apiserver_port.read_text().strip()
    context = ssl.create_default_context(cafile=cluster.layout.pki / "ca.crt")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    for path in ("/readyz", "/version", "/api/v1/nodes"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            opener.open(f"https://127.0.0.1:{port}{path}", timeout=5)
        refused.value.close()  # it is an open response too
        assert refused.value.code == 401, path


def test_keeps_keys_tokens_and_sockets_to_the_owner(cluster: Cluster) -> None:
    layout = cluster.layout
    for directory in (layout.run, layout.pki, layout.etcd):
        assert directory.stat().st_mode & 0o077 == 0, directory
    for file in (layout.kubeconfig, layout.kubeconfig_of("server"), layout.kubeconfig_of("scheduler")):
        assert file.stat().st_mode & 0o777 == 0o600, file


def test_accounts_have_the_rights_they_need_and_no_more(cluster: Cluster) -> None:
    def can(account: str, *request: str) -> bool:
        try:
            answer = cluster.kubectl_as(cluster.layout.kubeconfig_of(account), "auth", "can-i", *request)
        except ClusterError:  # kubectl reports "no" by its exit code
            return False
        return answer.strip() == "yes"

    assert can("server", "patch", "pods")
    assert can("server", "create", "events.events.k8s.io")
    for request in (
        ["list", "secrets"],
        ["delete", "pods"],
        ["update", "podgroups.scheduling.sigs.k8s.io"],
        ["create", "pods", "--subresource=binding"],
        ["update", "nodes"],
    ):
        assert not can("server", *request), request
    assert can("scheduler", "create", "pods", "--subresource=binding")
    assert can("scheduler", "update", "leases.coordination.k8s.io/muster-scheduler", "-n", "muster-system")
    assert not can("scheduler", "list", "secrets")


def test_a_node_a_user_creates_becomes_ready(cluster: Cluster) -> None:
    cluster.kubectl(
        "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guest"}})
    )
    cluster.kubectl("wait", "--for=condition=Ready", "node/guest", "--timeout=15s")
    # The taint that keeps pods away goes only when the node controller works too.
    taints = ["get", "node", "guest", "-o", "jsonpath={.spec.taints}"]
    assert eventually(lambda: cluster.kubectl(*taints) == "")


def test_a_bound_pod_runs_and_a_deleted_one_goes(cluster: Cluster) -> None:
    cluster.kubectl("create", "-f", "-", input=pod("runs"))
    assert eventually(lambda: phase(cluster, "runs") == "Running")
    cluster.kubectl("delete", "pod", "runs", "--timeout=15s")
    assert "runs" not in cluster.kubectl("get", "pods", "-o", "name")


@pytest.mark.parametrize(("code", "end"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_can_be_told_how_to_end(cluster: Cluster, code: str, end: str) -> None:
    told = {"localcluster.muster.dev/run-for": "100ms", "localcluster.muster.dev/exit-code": code}
    cluster.kubectl("create", "-f", "-", input=pod(f"ends-{code}", annotations=told))
    assert eventually(lambda: phase(cluster, f"ends-{code}") == end)


def test_a_job_completes(cluster: Cluster) -> None:
    template = {"spec": json.loads(pod("unused"))["spec"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": template}}
    cluster.kubectl("create", "-f", "-", input=json.dumps(job))
    cluster.kubectl("wait", "--for=condition=Complete", "job/job", "--timeout=30s")


def test_starts_again_what_dies_and_keeps_the_data(cluster: Cluster) -> None:
    cluster.kubectl("create", "namespace", "survivor")
    for name in ("kwok", "controlplane"):
        old = cluster.kill(name, signal.SIGKILL)
        assert cluster.wait_restart(name, old) != old
    assert "survivor" in cluster.kubectl("get", "namespaces", "-o", "name")
    cluster.kubectl("create", "-f", "-", input=pod("after-restart"))
    assert eventually(lambda: phase(cluster, "after-restart") == "Running", timeout=30)


def test_a_second_start_only_adjusts_the_nodes(cluster: Cluster) -> None:
    before = cluster.pid("controlplane")
    cluster.start(nodes=3)
    names = cluster.kubectl("get", "nodes", "-o", "name").split()
    assert [f"node/node-{index}" for index in range(3)] == [name for name in names if "/node-" in name]
    cluster.start(nodes=1)
    assert "node/node-2" not in cluster.kubectl("get", "nodes", "-o", "name")
    assert cluster.pid("controlplane") == before


def test_two_clusters_do_not_know_each_other(cluster: Cluster) -> None:
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        with Cluster(directory, parts=[]) as other:
            other.kubectl("create", "namespace", "elsewhere")
            assert "elsewhere" not in cluster.kubectl("get", "namespaces", "-o", "name")
            with pytest.raises(ClusterError):  # the certificate authorities differ
                other.kubectl_as(cluster.kubeconfig, f"--server={server_of(other)}", "get", "namespaces")
            gone = other.pid("controlplane")
        assert gone is not None
        with pytest.raises(ProcessLookupError):
            os.kill(gone, 0)
        assert not other.kubeconfig.exists()
        assert not other.layout.etcd.exists()


def test_a_killed_supervisor_loses_nothing_and_leaves_nothing() -> None:
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        with Cluster(directory, parts=[]) as cluster:
            cluster.kubectl("create", "namespace", "survivor")
            orphan = cluster.pid("controlplane")
            cluster.kill("supervisor", signal.SIGKILL)
            assert eventually(lambda: not cluster.running())
            cluster.start()
            assert cluster.pid("controlplane") != orphan
            assert "survivor" in cluster.kubectl("get", "namespaces", "-o", "name")
        assert not command_lines_with(directory)


def command_lines_with(text: str) -> list[str]:
    processes = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in processes.splitlines() if text in line]


def server_of(cluster: Cluster) -> str:
    return f"https://127.0.0.1:{cluster.layout.apiserver_port.read_text().strip()}"


def test_says_which_binary_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"muster-controlplane is missing; build it with `make build`"):
        Cluster(tmp_path, parts=[], binaries=tmp_path).start()


def test_says_when_the_directory_is_too_deep(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="too deep"):
        Cluster(tmp_path / ("d" * 120), parts=[]).start()


def test_reports_a_part_that_keeps_dying_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "muster-controlplane"
    broken.write_text("#!/bin/sh\necho no such luck\nexit 7\n")
    broken.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        with pytest.raises(ClusterError, match=r"keeps dying \(ended with exit code 7(.|\n)*no such luck"):
            Cluster(directory, parts=[], binaries=tmp_path).start()
        assert not Layout(Path(directory)).supervised()
