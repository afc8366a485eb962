# SPDX-License-Identifier: Apache-2.0
"""The numbers of the table follow from the samples."""

import math

import pytest

from bench.stats import Sample, Shape, Timeline, paired_ratio, percentile, rows

SECOND = 10**9


def sample(contender: str, repeat: int, speed: float, **changes: object) -> Sample:
    given: dict[str, object] = {
        "contender": contender,
        "shape": "10x10",
        "mode": "stream",
        "repeat": repeat,
        "pods": 100,
        "gangs": 10,
        "bound": 100,
        "seconds": 100 / speed,
        "create_seconds": 1.0,
        "gang_p50_ms": 5.0,
        "gang_p99_ms": 9.0,
        "cpu_seconds": {"scheduler": 0.2},
        "round_trips": None,
        "messages": None,
    }
    return Sample(**{**given, **changes})  # type: ignore[arg-type]


def test_shape_is_read_from_text() -> None:
    assert Shape.parse(" 100x20") == Shape(100, 20)
    assert Shape.parse("1x2000").pods == 2000
    assert str(Shape(3, 4)) == "3x4"


@pytest.mark.parametrize("text", ["", "3", "x", "0x3", "3x0", "-1x3", "ax3", "3x4x5"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shape"):
        Shape.parse(text)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)], ids=["p50", "p99", "most", "least"]
)
def test_percentile_is_a_measured_value(share: float, expected: float) -> None:
    assert percentile(range(1, 101), share) == expected


def test_percentile_of_few_is_the_largest() -> None:
    assert percentile([3.0, 1.0], 0.99) == 3.0
    assert math.isnan(percentile([], 0.5))


def test_stream_runs_from_first_create_to_last_bind() -> None:
    line = Timeline(
        size=2, sent=[1 * SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND], bound=[s * SECOND for s in (5, 6, 7, 9)]
    )
    assert line.seconds == 8
    assert line.gang_seconds() == [4, 5]  # from each gang's last create
    assert line.complete


def test_drain_runs_from_the_resume() -> None:
    line = Timeline(2, sent=[0, 0, 0, 0], bound=[s * SECOND for s in (12, 11, 13, 14)], resumed=10 * SECOND)
    assert line.seconds == 4
    assert line.gang_seconds() == [2, 4]


def test_a_bind_seen_before_its_create_was_answered_takes_no_negative_time() -> None:
    assert Timeline(1, sent=[2 * SECOND], bound=[1 * SECOND]).gang_seconds() == [0]


def test_a_gang_that_is_not_whole_has_no_time() -> None:
    line = Timeline(2, sent=[0, 0, 0, 0], bound=[SECOND, -1, SECOND, 2 * SECOND])
    assert line.gang_seconds() == [2]
    assert (line.bound_pods, line.complete) == (3, False)


def test_ratio_is_taken_within_a_repeat() -> None:
    # The machine was four times slower in the second repeat. Medians of the speeds would say something else.
    ours = [sample("muster", 0, 90), sample("muster", 1, 22), sample("muster", 2, 95)]
    theirs = [sample("stock", 0, 100), sample("stock", 1, 25), sample("stock", 2, 100)]
    assert paired_ratio(ours, theirs) == pytest.approx(0.9)


def test_ratio_leaves_out_what_did_not_finish_or_has_no_partner() -> None:
    ours = [sample("muster", 0, 90, bound=50), sample("muster", 1, 80), sample("muster", 5, 10)]
    theirs = [sample("stock", 0, 100), sample("stock", 1, 100)]
    assert paired_ratio(ours, theirs) == pytest.approx(0.8)
    assert math.isnan(paired_ratio(ours[:1], theirs))


def test_row_sums_up_the_repeats() -> None:
    samples = [
        *(sample("stock", repeat, 100) for repeat in range(3)),
        *(sample("muster", repeat, speed, round_trips=10.0) for repeat, speed in enumerate((80, 100, 90))),
    ]
    stock, muster = rows(samples, ["scheduler", "server"])
    assert (stock.contender, stock.to_stock, stock.spread) == ("stock", 1.0, 0.0)
    assert math.isnan(stock.round_trips_per_gang)
    assert muster.pods_per_second == pytest.approx(90)
    assert muster.to_stock == pytest.approx(0.9)
    assert muster.spread == pytest.approx(20 / 90)
    assert muster.round_trips_per_gang == 1.0
    assert muster.total_cpu_ms == pytest.approx(2.0)
    assert muster.cpu_to_stock == pytest.approx(1.0)
    assert muster.cpu_ms == {"scheduler": pytest.approx(2.0), "server": 0.0}
    assert math.isnan(muster.to_coscheduling)
