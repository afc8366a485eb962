# SPDX-License-Identifier: Apache-2.0
"""What comes out of a run can be read by people and by programs."""

import json
import math
from pathlib import Path

from pytest import approx

from bench.contenders import CONTENDERS
from bench.gangs import turns
from bench.report import document, remarks, save, table
from bench.scrape import by_label, parse, total
from bench.stats import Shape
from bench.unschedulable import ALONE, CROWDED, ratios
from tests.bench.test_stats import sample

METRICS = """
# HELP muster_calls_total Messages.
# TYPE muster_calls_total counter
muster_calls_total{point="Permit",result="quiet"} 19
muster_calls_total{point="Permit",result="pass"} 1
muster_calls_total{point="PreFilter",result="pass"} 2
text_with_escapes{of="a \\"b\\" {c}"} 1.5e+01
process_cpu_seconds_total 3.25
"""


def test_metrics_are_read() -> None:
    metrics = parse(METRICS)
    assert total(metrics, "muster_calls_total") == 22
    assert total(metrics, "muster_calls_total", point="Permit") == 20
    assert by_label(metrics, "muster_calls_total", "result") == {"quiet": 19, "pass": 3}
    assert total(metrics, "text_with_escapes") == 15
    assert total(metrics, "process_cpu_seconds_total") == 3.25
    assert total(metrics, "unknown") == 0


def test_table_names_what_is_not_known_and_what_was_not_placed() -> None:
    text = table([sample("stock", 0, 100), sample("muster", 0, 50, bound=60, round_trips=10.0)])
    stock, muster = text.splitlines()[2:]
    assert stock.split()[:7] == ["10x10", "stream", "stock", "100", "-", "1.00", "-"]
    assert "muster (40 pods not placed)" in muster


def test_remarks_say_what_was_left_out_and_disturbed() -> None:
    said = remarks(
        [sample("muster", 0, 50, bound=60), sample("stock", 0, 50, foreign_cpu=0.4)], {"coscheduling": "no Go"}
    )
    assert said[0] == "not run: coscheduling: no Go"
    assert "placed 60 of 100 pods" in said[1]
    assert said[2].startswith("1 of 2 samples ran while other processes used more than 15%")


def test_json_has_null_for_what_is_not_known(tmp_path: Path) -> None:
    content = document({"cores": 2}, [sample("muster", 0, 50, gang_p50_ms=math.nan)], {})
    save(tmp_path / "deep" / "latest.json", content)
    read = json.loads((tmp_path / "deep" / "latest.json").read_text())
    assert read["samples"][0]["gang_p50_ms"] is None
    assert read["samples"][0]["pods_per_second"] == 50
    assert read["rows"][0]["to_stock"] is None
    assert read["facts"] == {"cores": 2}


def test_contenders_take_turns_and_another_begins_in_each_repeat() -> None:
    order = [(repeat, contender.name) for repeat, _, contender in turns(CONTENDERS[:3], [Shape(1, 1)], 2)]
    assert order == [
        (0, "stock"),
        (0, "coscheduling"),
        (0, "muster"),
        (1, "coscheduling"),
        (1, "muster"),
        (1, "stock"),
    ]


def test_stuck_gangs_are_compared_with_none() -> None:
    samples = [
        sample("muster", 0, 100, note=ALONE),
        sample("muster", 0, 80, note=CROWDED, gang_p50_ms=10.0, cpu_seconds={"scheduler": 0.3}),
    ]
    found = ratios(samples, "10x10")
    assert found == {"pods_per_second": approx(0.8), "gang_p50": approx(2.0), "cpu": approx(1.5)}
