# SPDX-License-Identifier: Apache-2.0
"""The writer: puts into the Kubernetes API what users must see, outside the decision path and in its own process.

Two rules hold in this package.

1. Only `api.py`, `process.py` and `status/`, which the child runs, know Kubernetes. What the server's process imports
   (`handle.py`, `outbox.py`, `wire.py`) encodes a short line and nothing else.
2. Events are best effort, marks are not: a mark is repeated until it is written or its pod is gone.

Where to look:

    handle.py     Writer: the server's handle on the child process
    outbox.py     what is still to be sent to the child; one entry a pod
    wire.py       the lines between the two processes
    rules.py      when an event is worth writing
    process.py    the child: reads lines, writes to the API, confirms marks
    api.py        the two requests, and what an answer of the API server means
    status/       the status of PodGroups, from a watch of its own
"""

from muster.writer.handle import Counts, Writer

__all__ = ["Counts", "Writer"]
