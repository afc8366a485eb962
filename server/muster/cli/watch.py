# SPDX-License-Identifier: Apache-2.0
"""The list again after every change: drawn over itself on a terminal, a line per changed gang in a pipe."""

import time
from collections.abc import Iterable

from rich.console import Console
from rich.live import Live

from muster.cli.table import AGE, GONE, HEADER, Row, gangs_table, in_order, row
from muster.cli.text import to_json
from muster.v1.view_pb2 import ListGangsResponse


def redraw(lists: Iterable[ListGangsResponse], to: Console, *, wide: bool) -> None:
    """Between two lists too, so that ages go on."""
    latest = ListGangsResponse()
    with Live(
        get_renderable=lambda: gangs_table(latest.gangs, time.time(), wide=wide), console=to, refresh_per_second=2
    ) as live:
        for latest in lists:  # noqa: B007 - the function above reads it
            live.refresh()


def as_lines(lists: Iterable[ListGangsResponse]) -> None:
    """A gang is printed when something that its line shows has changed; its age alone is no change."""
    shown: dict[tuple[str, str], Row] = {}
    widths: list[int] = []
    for latest in lists:
        rows = {(gang.namespace, gang.name): row(gang, time.time()) for gang in in_order(latest.gangs)}
        changed = [cells for key, cells in rows.items() if key not in shown or _told(shown[key]) != _told(cells)]
        gone = [(*cells[:2], GONE, *cells[3:-1], "") for key, cells in shown.items() if key not in rows]
        if not widths and changed:
            widths = [max(map(len, column)) for column in zip(HEADER, *changed, strict=True)]
            _print_line(HEADER, widths)
        for cells in (*changed, *gone):
            _print_line(cells, widths)
        shown = rows


def as_json(lists: Iterable[ListGangsResponse]) -> None:
    for latest in lists:
        print(to_json(latest, one_line=True), flush=True)


def _told(cells: Row) -> Row:
    return cells[:AGE] + cells[AGE + 1 :]


def _print_line(cells: Row, widths: list[int]) -> None:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    print("  ".join(padded).rstrip(), flush=True)
