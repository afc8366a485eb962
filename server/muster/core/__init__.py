# SPDX-License-Identifier: Apache-2.0
"""The core: every rule of Muster, and nothing else.

Two rules hold in this package.

1. Every change of state happens here, inside `Core.handle(event, now)`.
2. Nothing here knows the time, the network, the log or protobuf. `now` is an argument; the same events give
   the same decisions. An import contract in pyproject.toml enforces it.

Where to look:

    model.py      what a pod and a gang's settings are; the phases of a member
    spec.py       annotations, labels and PodGroups -> settings, or what is wrong with them
    events.py     all that can happen
    decision.py   all that can be answered
    reasons.py    the closed list of reasons a pod is held, and their sentences
    gang.py       members of one gang: phases, counts, whose settings hold
    standing.py   what is true of a group of gangs that start together
    steps.py      admit, hold, give back, back off: what its decisions are made of
    group.py      what follows from what happens to it: cycles, quorum, commits
    standoff.py   gangs that hold room each other need: who steps back
    agenda.py     which group wants to be looked at when
    roster.py     who belongs where: pods and objects to gangs, gangs to groups
    core.py       Core: finds the group an event is about and hands it over
    view.py       the state as people see it
"""

from muster.core.core import Core, Policy

__all__ = ["Core", "Policy"]
