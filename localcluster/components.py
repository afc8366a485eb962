# SPDX-License-Identifier: Apache-2.0
"""The processes a cluster is made of: how each is started and what tells that it is ready."""

from __future__ import annotations

import importlib.util
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from localcluster.children import Child
from localcluster.layout import REPO, ClusterError, Layout

# In the order in which they start.
COMPONENTS = ("controlplane", "kwok", "server", "scheduler")

# Those with a ServiceAccount muster-<name> in manifests/rbac.
ACCOUNTS = ("server", "scheduler")

_STAGES = REPO / "localcluster" / "kwok" / "stages.yaml"


def in_order(names: Iterable[str]) -> list[str]:
    """The components with these names, in the order in which they start. There is always a control plane."""
    chosen = {"controlplane", *names}
    if unknown := sorted(chosen - set(COMPONENTS)):
        raise ClusterError(f"unknown component {', '.join(unknown)!r}; there are {', '.join(COMPONENTS)}")
    return [name for name in COMPONENTS if name in chosen]


def children(
    layout: Layout, binaries: Path, names: Iterable[str], extra_args: Mapping[str, Sequence[str]]
) -> list[Child]:
    """The processes to run. `extra_args` are appended to the arguments of the component of that name."""
    made = [_child(layout, binaries, name) for name in in_order(names)]
    return [Child(child.name, [*child.argv, *extra_args.get(child.name, ())], child.needs, child.env) for child in made]


def _child(layout: Layout, binaries: Path, name: str) -> Child:
    if name == "controlplane":
        return Child(name, [_binary(binaries, "muster-controlplane"), f"--dir={layout.dir}"])
    if name == "kwok":
        # The administrator's certificate: kwok plays every kubelet at once, which no built-in role covers.
        argv = [
            _binary(binaries, "kwok"),
            f"--kubeconfig={layout.kubeconfig}",
            f"--config={_STAGES}",
            "-v=WARN",
        ]
        return Child(name, argv, needs=[str(layout.kubeconfig)])
    own = layout.kubeconfig_of(name)
    if name == "server":
        argv = [
            sys.executable,
            "-m",
            "muster.server",
            f"--listen=unix://{layout.server_socket}",
            f"--kubeconfig={own}",
            "--log-level=info",
        ]
        # From the source tree, so that an edit needs only a restart of the process.
        path = os.pathsep.join(filter(None, [str(REPO / "server"), os.environ.get("PYTHONPATH")]))
        if importlib.util.find_spec("muster") is None and not (REPO / "server" / "muster").is_dir():
            raise ClusterError("the Python package muster is not installed; build it with `make build`")
        return Child(name, argv, needs=[str(own)], env={"PYTHONPATH": path})
    argv = [
        _binary(binaries, "muster-scheduler"),
        f"--config={layout.scheduler_config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.scheduler_port.read_text().strip()}",
        # Its own port asks the API server who calls, with the rights of its account.
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
    ]
    return Child(name, argv, needs=[str(own), str(layout.scheduler_config)])


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
    context = ssl.create_default_context(cafile=layout.pki / "ca.crt")
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return _get(f"https://127.0.0.1:{layout.apiserver_port.read_text().strip()}/readyz", context)


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
    except (urllib.error.URLError, OSError) as error:
        return f"{url}: {error}"


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
