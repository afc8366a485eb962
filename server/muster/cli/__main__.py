# SPDX-License-Identifier: Apache-2.0
"""`python -m muster.cli` does what `muster` does."""

from muster.cli.app import app

app(prog_name="muster")
