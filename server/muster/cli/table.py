# SPDX-License-Identifier: Apache-2.0
"""Gangs as a table. On a terminal it fits the width; in a pipe nothing is ever cut."""

import sys
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from muster.cli.text import age, safe
from muster.v1.view_pb2 import Gang

HEADER = ("NAMESPACE", "GANG", "PHASE", "MEMBERS", "CYCLE", "AGE", "WHY")
AGE = HEADER.index("AGE")
GONE = "Gone"
GAP = 2
LEAST_LAST = 10

_PIPE_WIDTH = 100_000
_STYLES = {
    "Satisfied": "green",
    "Bound": "green",
    "Invalid": "red",
    "TimedOut": "red",
    "BackingOff": "yellow",
    "Waiting": "cyan",
    "Trying": "cyan",
    GONE: "dim",
}

Row = tuple[str, ...]


def console(*, stderr: bool = False) -> Console:
    """Colours and the width of the terminal if there is one. Never any markup: the words are not ours."""
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = _PIPE_WIDTH
    return made


def row(gang: Gang, now: float) -> Row:
    return (
        safe(gang.namespace),
        safe(gang.name),
        safe(gang.phase),
        members(gang),
        str(gang.cycle),
        age(gang.created_unix_ns, now),
        safe(gang.sentence),
    )


def members(gang: Gang) -> str:
    """Placed or bound of the minimum, and how many are known if that is another number."""
    placed = sum(member.phase != "Pending" for member in gang.members)
    known = len(gang.members)
    return f"{placed}/{gang.min or '-'}" + (f" ({known} known)" if known != gang.min else "")


def in_order(gangs: Iterable[Gang]) -> list[Gang]:
    return sorted(gangs, key=lambda gang: (gang.namespace, gang.name))


def gangs_table(gangs: Iterable[Gang], now: float, *, wide: bool) -> RenderableType:
    return Columns(HEADER, [row(gang, now) for gang in in_order(gangs)], wrap=wide)


class Columns:
    """A table whose last column takes what is left of the width: wrapped, or cut with an ellipsis. The others are
    what people search for, and are shown in full."""

    def __init__(self, header: Row, rows: Sequence[Row], *, wrap: bool) -> None:
        self._header = header
        self._rows = rows
        self._wrap = wrap

    def __rich_console__(self, to: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for title in self._header[:-1]:
            table.add_column(title, no_wrap=True)
        table.add_column(self._header[-1], overflow="fold")
        left = max(LEAST_LAST, options.max_width - self._taken())
        phase = self._header.index("PHASE")
        for cells in self._rows:
            last = Text(cells[-1])
            if not self._wrap:
                last.truncate(left, overflow="ellipsis")
            table.add_row(*(_styled(cell, at == phase) for at, cell in enumerate(cells[:-1])), last)
        yield table

    def _taken(self) -> int:
        """The width of all columns but the last."""
        lines = [self._header, *self._rows]
        return sum(max(cell_len(line[at]) for line in lines) + GAP for at in range(len(self._header) - 1))


def _styled(cell: str, is_phase: bool) -> Text:
    return Text(cell, style=_STYLES.get(cell, "") if is_phase else "")


def show(what: RenderableType, to: Console | None = None) -> None:
    """Print it; in a pipe without the spaces that fill up the last column."""
    to = to or console()
    if to.is_terminal:
        to.print(what)
        return
    with to.capture() as captured:
        to.print(what)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
    sys.stdout.flush()
