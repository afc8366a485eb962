# SPDX-License-Identifier: Apache-2.0
"""muster-server that kills itself at the event that the file named by MUSTER_FAILPOINT names, once.

"before-Permit": the core never hears of the Permit. "after-Permit": it has decided, and nobody hears of that.
"""

import os
import signal
from pathlib import Path

from muster.core import events
from muster.core.decision import Decision
from muster.server.engine import Engine
from muster.server.main import main

_handle = Engine.handle


def die(point: str) -> None:
    path = Path(os.environ["MUSTER_FAILPOINT"])
    try:
        if path.read_text().strip() != point:
            return
        path.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def handle(self: Engine, event: events.Event) -> Decision:
    die(f"before-{type(event).__name__}")
    decision = _handle(self, event)
    die(f"after-{type(event).__name__}")
    return decision


Engine.handle = handle  # type: ignore[method-assign]
main()
