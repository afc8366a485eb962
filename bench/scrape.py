# SPDX-License-Identifier: Apache-2.0
"""Counters of a scheduler, from its /metrics."""

from __future__ import annotations

import re
import ssl
import urllib.request
from collections.abc import Mapping

from localcluster.layout import Layout

Labels = tuple[tuple[str, str], ...]
Metrics = Mapping[tuple[str, Labels], float]

_LINE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parse(text: str) -> dict[tuple[str, Labels], float]:
    """The Prometheus text format, as far as counters and sums go."""
    found: dict[tuple[str, Labels], float] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            labels = tuple(sorted(_LABEL.findall(match["labels"] or "")))
            found[match["name"], labels] = float(match["value"])
    return found


def total(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum over all series of this name that carry these labels."""
    wanted = set(labels.items())
    return sum(value for (key, have), value in metrics.items() if key == name and wanted <= set(have))


def by_label(metrics: Metrics, name: str, label: str) -> dict[str, float]:
    """The sum over all series of this name, for each value of a label."""
    sums: dict[str, float] = {}
    for (key, have), value in metrics.items():
        if key == name and (of := dict(have).get(label)) is not None:
            sums[of] = sums.get(of, 0.0) + value
    return sums


def scrape(layout: Layout) -> dict[tuple[str, Labels], float]:
    """The metrics of the scheduler that runs now, read as administrator."""
    # The scheduler makes itself a certificate at each start, so there is nothing to check it against.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(f"https://127.0.0.1:{layout.scheduler_port.read_text().strip()}/metrics", timeout=10) as answer:
        return parse(answer.read().decode())
