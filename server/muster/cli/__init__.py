# SPDX-License-Identifier: Apache-2.0
"""The command line `muster`, also `kubectl muster`: asks the server what it knows and shows it. It decides nothing.

app.py        the commands and their options
connect.py    where the server is, and what a failed call means to a person
table.py      gangs as a table
detail.py     one gang in full
watch.py      the table again and again
text.py       words from the cluster made safe for a terminal; durations
hints.py      what to do about each reason
"""

import os

# gRPC's C core logs to stderr by itself, and reads this when it is imported. People get one line, and it is ours.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from muster.cli.app import app

__all__ = ["app"]
