# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m bench."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from bench import cache, gangs, unschedulable
from bench.gangs import Options
from bench.stats import Shape
from localcluster import ClusterError
from localcluster.layout import REPO

SHAPES = "1000x3,100x20,10x200,1x2000"
SHORT_SHAPES = "100x3,20x20,1x400"

SCENARIOS: dict[str, Callable[[Options], None]] = {
    "gangs": gangs.run,
    "unschedulable": unschedulable.run,
    "cache": cache.run,
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def _shapes(text: str) -> list[Shape]:
    try:
        return [Shape.parse(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _scenario(name: str) -> str:
    if name not in SCENARIOS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(SCENARIOS)}")
    return name


@app.command(help="Measure Muster beside stock kube-scheduler and coscheduling; see the text of the package bench.")
def bench(
    scenario: Annotated[str, typer.Option(callback=_scenario, help=", ".join(SCENARIOS))] = "gangs",
    short: Annotated[bool, typer.Option("--short", help="One repeat of small shapes on 200 nodes.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Default 3; 1 with --short.")] = None,
    shapes: Annotated[str | None, typer.Option(help=f"Default {SHAPES}.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, max=20000, help="Default 1000; 200 with --short.")] = None,
    modes: Annotated[str, typer.Option(help="How pods arrive.")] = "stream,drain",
    only: Annotated[str, typer.Option(help="Contenders, separated by commas; all by default.")] = "",
    patience: Annotated[
        float | None, typer.Option(help="Seconds to wait for other load to end. Default 30; 3 with --short.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a run is given up.")] = 180,
    out: Annotated[Path, typer.Option(help="Directory of latest.json and latest.png.")] = REPO / "docs" / "bench",
    dir: Annotated[Path, typer.Option(help="Directory of the cluster while it runs.")] = REPO / ".muster" / "bench",
) -> None:
    began = time.monotonic()

    def say(text: str) -> None:
        typer.echo(f"{time.monotonic() - began:7.1f}s  {text}")

    options = Options(
        shapes=_shapes(shapes or (SHORT_SHAPES if short else SHAPES)),
        repeats=repeats or (1 if short else 3),
        nodes=nodes or (200 if short else 1000),
        modes=modes.split(","),
        only=[name for name in only.split(",") if name],
        timeout=timeout,
        out=out,
        dir=dir,
        say=say,
        short=short,
        patience=(3.0 if short else 30.0) if patience is None else patience,
    )
    SCENARIOS[scenario](options)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    # Ended from outside it must clean up as after a Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except ClusterError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; everything was stopped", err=True)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
