# SPDX-License-Identifier: Apache-2.0
"""Every scenario, as a story a reviewer can read."""

from pathlib import Path

import pytest

from tests.core.transcript import play

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_is_decided_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    played = play(text)
    if request.config.getoption("--rewrite"):
        path.write_text(played)
    assert played == path.read_text()
