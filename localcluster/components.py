# SPDX-License-Identifier: Apache-2.0
"""The processes a cluster is made of: how each is started and what tells that it is ready."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from localcluster.api import administrator
from localcluster.children import Child
from localcluster.layout import REPO, ClusterError, Layout, write_private

# In the order in which they start.
COMPONENTS = ("controlplane", "kwok", "server", "scheduler")

# Those with a ServiceAccount muster-<name> in manifests/rbac.
ACCOUNTS = ("server", "scheduler")

_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_STAGES = REPO / "localcluster" / "kwok" / "stages.yaml"


def in_order(names: Iterable[str]) -> list[str]:
    """The components with these names, in the order in which they start. There is always a control plane."""
    chosen = {"controlplane", *names}
    if unknown := sorted(chosen - set(COMPONENTS)):
        raise ClusterError(f"unknown component {', '.join(unknown)!r}; there are {', '.join(COMPONENTS)}")
    return [name for name in COMPONENTS if name in chosen]


def children(
    layout: Layout,
    binaries: Path,
    names: Iterable[str],
    extra_args: Mapping[str, Sequence[str]],
    programs: Mapping[str, Sequence[str]],
) -> list[Child]:
    """The processes to run. `extra_args` are appended to the arguments of the component of that name; `programs`
    replaces the program of a component, and leaves it its arguments."""
    make = {"controlplane": _controlplane, "kwok": _kwok, "server": _server, "scheduler": _scheduler}
    made = [make[name](layout, binaries) for name in in_order(names)]
    return [replace(child, argv=[*_program(child, programs), *extra_args.get(child.name, ())]) for child in made]


def _program(child: Child, programs: Mapping[str, Sequence[str]]) -> list[str]:
    if child.name not in programs:
        return child.argv
    flags = next(index for index, word in enumerate(child.argv) if word.startswith("--"))
    return [*programs[child.name], *child.argv[flags:]]


def _controlplane(layout: Layout, binaries: Path) -> Child:
    return Child("controlplane", [_binary(binaries, "muster-controlplane"), f"--dir={layout.dir}"])


def _kwok(layout: Layout, binaries: Path) -> Child:
    # The administrator's certificate: kwok plays every kubelet at once, which no built-in role covers.
    access = f"--kubeconfig={layout.kubeconfig}"
    return Child(
        "kwok",
        [_binary(binaries, "kwok"), access, f"--config={_STAGES}", "-v=WARN"],
        needs=[str(layout.kubeconfig)],
        # A kwok that was killed holds the leases of its nodes, and the next one would leave those nodes alone
        # until they expire.
        before=[_binary(binaries, "kubectl"), access, "delete", "--raw", _NODE_LEASES],
    )


def _server(layout: Layout, binaries: Path) -> Child:
    own = layout.kubeconfig_of("server")
    return Child(
        "server",
        [
            sys.executable,
            "-m",
            "muster.server",
            f"--listen=unix://{layout.server_socket}",
            f"--kubeconfig={own}",
            f"--metrics-address=127.0.0.1:{layout.server_port.read_text().strip()}",
            "--log-level=info",
        ],
        needs=[str(own)],
        # From the source tree, so that an edit needs only a restart of the process.
        env={"PYTHONPATH": os.pathsep.join(filter(None, [str(REPO / "server"), os.environ.get("PYTHONPATH")]))},
    )


def _scheduler(layout: Layout, binaries: Path) -> Child:
    own = layout.kubeconfig_of("scheduler")
    return Child(
        "scheduler",
        [
            _binary(binaries, "muster-scheduler"),
            f"--config={layout.scheduler_config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={layout.scheduler_port.read_text().strip()}",
            # Its own port asks the API server who calls, with the rights of its account.
            f"--authentication-kubeconfig={own}",
            f"--authorization-kubeconfig={own}",
        ],
        needs=[str(own), str(layout.scheduler_config)],
    )


def _binary(binaries: Path, name: str) -> str:
    path = binaries / name
    if not os.access(path, os.X_OK):
        raise ClusterError(f"{path} is missing; build it with `make build`")
    return str(path)


def not_ready(layout: Layout, name: str) -> str | None:
    """What is missing until the component can be used; None if it is ready."""
    if layout.pid(name) is None:
        return "not running"
    if name == "controlplane":
        # The file is there from the first time on; after a restart only an answer tells.
        return _api_not_ready(layout) if layout.kubeconfig.exists() else "starting etcd and kube-apiserver"
    if name == "server":
        return _connect(layout.server_socket)
    if name == "scheduler":
        return _scheduler_not_ready(layout)
    return None


def _connect(path: Path) -> str | None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return None


def _api_not_ready(layout: Layout) -> str | None:
    return _get(f"https://127.0.0.1:{layout.apiserver_port.read_text().strip()}/readyz", administrator(layout))


def _scheduler_not_ready(layout: Layout) -> str | None:
    # The scheduler makes itself a certificate at each start, so there is nothing to check it against.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _get(f"https://127.0.0.1:{layout.scheduler_port.read_text().strip()}/readyz", context)


def _get(url: str, context: ssl.SSLContext) -> str | None:
    # No proxy, whatever the environment says: this never leaves the machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=1):
            return None
    except urllib.error.HTTPError as error:
        error.close()  # it is an open response too
        return f"{url}: {error}"
    except OSError as error:
        return f"{url}: {error}"


def choose_ports(layout: Layout) -> None:
    """Record free loopback ports, so that clusters can run side by side and a restarted part is found where it was."""
    with socket.socket() as first, socket.socket() as second:
        for probe, file in ((first, layout.scheduler_port), (second, layout.server_port)):
            probe.bind(("127.0.0.1", 0))
            write_private(file, f"{probe.getsockname()[1]}\n")
