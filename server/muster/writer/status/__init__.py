# SPDX-License-Identifier: Apache-2.0
"""The status of PodGroups: phase, counts and the condition Scheduled, recomputed from the pods.

The writer has a view of its own here because the scheduler's informer drops pods that have finished. Nothing of it goes
back to the core: decisions have one input.

    model.py       what is kept of pods and PodGroups, and how it is read
    table.py       the status as a pure function: start here
    rest.py        plain requests to the API server
    reflector.py   list and watch of one collection
    shelves.py     what is known, by gang
    sources.py     which resources the cluster has
    keeper.py      the loop: look, compare, patch
"""

from muster.writer.status.keeper import Keeper

__all__ = ["Keeper"]
