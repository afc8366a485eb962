# SPDX-License-Identifier: Apache-2.0
"""Options shared by all tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the transcripts anew; read the diff")
