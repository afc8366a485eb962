# SPDX-License-Identifier: Apache-2.0
"""docs/reasons.md is made from the table the command line uses; `pytest --rewrite` writes it anew."""

from pathlib import Path

import pytest

from muster.cli.hints import HINTS
from muster.core.reasons import Reason

PAGE = Path(__file__).parent.parent.parent / "docs" / "reasons.md"

HEAD = """\
# Reasons

Why a pod is held. The list is closed: these words are the reasons of events on pods, of `muster get gangs` and of
`muster explain gang`, and no others. The sentence beside each has the numbers.

| reason | what to do |
|---|---|
"""


def page() -> str:
    return HEAD + "".join(f"| `{reason.value}` | {HINTS[reason]} |\n" for reason in Reason)


def test_the_page_of_reasons_is_that_of_the_code(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page()
