# SPDX-License-Identifier: Apache-2.0
"""One gang in full: what it is, what holds it and what to do about it, then each member."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.cli.hints import hint
from muster.cli.table import Columns, members
from muster.cli.text import age, duration, safe
from muster.v1.view_pb2 import Gang

MEMBER_HEADER = ("POD", "PHASE", "NODE", "FAILURES", "WHY")


def detail(gang: Gang, now: float) -> RenderableType:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(no_wrap=True, style="bold")
    head.add_column(overflow="fold")
    for title, value in _facts(gang, now):
        head.add_row(Text(title + ":"), Text(value))
    rows = [
        (safe(m.name), safe(m.phase), safe(m.node_name) or "-", str(m.failures), safe(m.sentence)) for m in gang.members
    ]
    return Group(head, Text(""), Columns(MEMBER_HEADER, rows, wrap=True))


def _facts(gang: Gang, now: float) -> list[tuple[str, str]]:
    """Only what there is to say: a line without a value would be read as a problem."""
    others = [name for name in gang.group if name != f"{gang.namespace}/{gang.name}"]
    reason = f" ({gang.reason})" if gang.reason else ""
    facts = [
        ("Gang", safe(f"{gang.namespace}/{gang.name}")),
        ("Phase", safe(gang.phase + reason)),
        ("Why", safe(gang.sentence)),
        ("What to do", hint(gang.reason)),
        ("Last failure", safe(gang.last_failure)),
        ("Members", members(gang)),
        ("Minimum", str(gang.min) if gang.min else ""),
        ("Total", str(gang.total) if gang.total else ""),
        ("Mode", safe(gang.mode)),
        ("Starts with", safe(", ".join(others))),
        ("Cycle", str(gang.cycle)),
        ("Age", age(gang.created_unix_ns, now)),
        ("Deadline", f"waits {duration(gang.deadline_ms / 1000)} more at most" if gang.deadline_ms >= 0 else ""),
        ("Next try", f"in {duration(gang.retry_ms / 1000)}" if gang.retry_ms >= 0 else ""),
    ]
    return [(title, value) for title, value in facts if value]
