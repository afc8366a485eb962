# SPDX-License-Identifier: Apache-2.0
"""The order of members inside a gang: priority, then the number at the end of the name, then age."""

import re

from muster.core.model import Pod

_INDEX = re.compile(r"([0-9]{1,9})$")


def inner_order(pod: Pod) -> tuple[int, int, tuple[int, str, str]]:
    """Smaller goes first: worker-2 before worker-10."""
    index = _INDEX.search(pod.name)
    return (-pod.priority, int(index[1]) if index else 0, pod.age_order)
