# SPDX-License-Identifier: Apache-2.0
"""The server of these tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.server import Canned, serving


@pytest.fixture
async def view(tmp_path: Path) -> AsyncIterator[Canned]:
    async with serving(tmp_path / "s.sock") as canned:
        yield canned
