# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m localcluster up | down | status."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from localcluster.api import Api
from localcluster.cluster import Cluster
from localcluster.components import COMPONENTS
from localcluster.layout import BIN, ClusterError
from localcluster.nodes import NodeShape, ready

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)

Dir = Annotated[Path, typer.Option("--dir", help="Directory of the cluster.")]
DEFAULT_DIR = Path(".muster")

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")


def _quantity(value: str) -> str:
    if not _QUANTITY.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not a Kubernetes quantity such as 8, 500m or 32Gi")
    return value


@app.command()
def up(
    dir: Dir = DEFAULT_DIR,
    nodes: Annotated[
        int | None,
        typer.Option(min=0, max=20000, help="How many nodes. A new cluster gets 4.", show_default=False),
    ] = None,
    node_cpu: Annotated[
        str, typer.Option(callback=_quantity, help="CPUs of a node; on a running cluster give --nodes too.")
    ] = "8",
    node_memory: Annotated[str, typer.Option(callback=_quantity, help="Memory of a node; likewise.")] = "32Gi",
    parts: Annotated[str, typer.Option(help="What to run.")] = ",".join(COMPONENTS),
) -> None:
    """Start a cluster, or adjust the nodes of the one that runs."""
    cluster = Cluster(dir, parts=parts.split(","), progress=typer.echo)
    cluster.start(nodes=nodes, shape=NodeShape(cpu=node_cpu, memory=node_memory))
    typer.echo(
        f"\nThe cluster is up. Its administrator's kubeconfig is {cluster.kubeconfig}. Try:\n\n"
        f"  export KUBECONFIG={cluster.kubeconfig} PATH={BIN}:$PATH\n"
        "  kubectl get nodes\n"
        "  kubectl apply -f manifests/example-gang.yaml\n"
        "  kubectl get pods -o wide"
    )


@app.command()
def down(
    dir: Dir = DEFAULT_DIR,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the cluster's data for the next up.")] = False,
) -> None:
    """Stop the cluster and remove its data. Logs stay."""
    cluster = Cluster(dir)
    was_running = cluster.running()
    cluster.stop(purge=not keep)
    typer.echo("stopped" if was_running else f"nothing was running in {cluster.layout.dir}")


@app.command()
def status(dir: Dir = DEFAULT_DIR) -> None:
    """Show what runs. Exit code 1 if the cluster does not."""
    cluster = Cluster(dir)
    if not cluster.running():
        typer.echo(f"no cluster runs in {cluster.layout.dir}")
        raise typer.Exit(1)
    for name, state in cluster.states().items():
        pid = f"pid {state['pid']}" if state["pid"] else "not running"
        last = f", last time it {state['last_exit']}" if state["last_exit"] else ""
        typer.echo(f"{name:<13} {pid:<12} starts {state['starts']}{last}")
    with Api(cluster.layout) as api:
        usable, total = ready(api)
    typer.echo(f"{'nodes':<13} {usable} of {total} ready")
    typer.echo(f"{'kubeconfig':<13} {cluster.kubeconfig}")


def main() -> None:
    try:
        app()
    except ClusterError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
