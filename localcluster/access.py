# SPDX-License-Identifier: Apache-2.0
"""What the scheduler and the server get to reach the API server: accounts, tokens, configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml

from localcluster.layout import REPO, ClusterError, Layout, write_private

NAMESPACE = "muster-system"
_MANIFESTS = REPO / "manifests"

# A kubelet would renew the tokens of pods every hour. Nothing does so for plain processes, so these last
# longer than any cluster on a desk.
_TOKEN_LIFE = "8760h"


def apply_manifests(kubectl: Callable[..., str]) -> None:
    """Apply the part of manifests/ that a cluster needs whose Muster runs outside of it."""
    kubectl("apply", "-k", str(_MANIFESTS / "rbac"))
    kubectl("apply", "-k", str(_MANIFESTS / "crds"))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")


def write_account_kubeconfig(layout: Layout, kubectl: Callable[..., str], name: str) -> None:
    """Write a kubeconfig with a token of the ServiceAccount muster-<name>."""
    token = kubectl("-n", NAMESPACE, "create", "token", f"muster-{name}", f"--duration={_TOKEN_LIFE}").strip()
    config = yaml.safe_load(layout.kubeconfig.read_text())
    user = f"muster-{name}"
    config["users"] = [{"name": user, "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = user
    write_private(layout.kubeconfig_of(name), yaml.safe_dump(config))


def write_scheduler_config(layout: Layout) -> None:
    """Derive the scheduler's configuration from the one in manifests/."""
    source = _MANIFESTS / "scheduler-config.yaml"
    config: dict[str, Any] = yaml.safe_load(source.read_text())
    config["clientConnection"]["kubeconfig"] = str(layout.kubeconfig_of("scheduler"))
    # There is one scheduler, and after a kill the next one must not wait for the lease of the last.
    config["leaderElection"]["leaderElect"] = False
    arguments = [
        entry["args"]
        for profile in config["profiles"]
        for entry in profile.get("pluginConfig", [])
        if entry["name"] == "Muster"
    ]
    if not arguments:
        raise ClusterError(f"{source}: no pluginConfig for the plugin Muster in any profile")
    for args in arguments:
        args["server"] = f"unix://{layout.server_socket}"
    # JSON is YAML, and quotes what a YAML writer might leave ambiguous.
    write_private(layout.scheduler_config, json.dumps(config, indent=2))
