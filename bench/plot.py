# SPDX-License-Identifier: Apache-2.0
"""The picture of a run. Needs matplotlib, which only this uses: pip install 'muster[bench]'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.contenders import CONTENDERS, PROCESSES
from bench.stats import Row, Sample, rows

_COLORS = {"stock": "#8a8f98", "coscheduling": "#d98c3f", "muster": "#2f6fb3", "muster-plain": "#8fb8de"}


def plot(path: Path, samples: Sequence[Sample]) -> str | None:
    """Draw pods per second and the time of a gang; return None, or why there is no picture."""
    try:
        # By name, so that type checks do not depend on what is installed.
        import_module("matplotlib").use("Agg")  # no display is needed
    except ModuleNotFoundError:
        return "no plot: matplotlib is not installed (pip install 'muster[bench]')"
    pyplot = import_module("matplotlib.pyplot")
    found = rows(samples, PROCESSES)
    modes = list(dict.fromkeys(row.mode for row in found))
    figure, axes = pyplot.subplots(1, len(modes) + 1, figsize=(5.5 * (len(modes) + 1), 4), squeeze=False)
    for axis, mode in zip(axes[0], modes, strict=False):
        of_mode = [row for row in found if row.mode == mode]
        _bars(axis, of_mode, [row.pods_per_second for row in of_mode])
        axis.set_title(f"pods/s, {mode} (higher is better)")
    stream = [row for row in found if row.mode == modes[0]]
    _bars(axes[0][-1], stream, [row.gang_p99_ms for row in stream])
    axes[0][-1].set_title(f"ms from a gang's last create to its last bind, p99, {modes[0]}", fontsize=9)
    axes[0][-1].set_yscale("log")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return None


def _bars(axis: Any, shown: Sequence[Row], values: Sequence[float]) -> None:
    shapes = list(dict.fromkeys(row.shape for row in shown))
    names = [contender.name for contender in CONTENDERS if any(row.contender == contender.name for row in shown)]
    height = {(row.shape, row.contender): value for row, value in zip(shown, values, strict=True)}
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        across = [index + (place - (len(names) - 1) / 2) * width for index in range(len(shapes))]
        up = [height.get((shape, name), math.nan) for shape in shapes]
        axis.bar(across, up, width, label=name, color=_COLORS.get(name))
    axis.set_xticks(range(len(shapes)), shapes)
    axis.spines[["top", "right"]].set_visible(False)
