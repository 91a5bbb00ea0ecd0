from __future__ import annotations

import pytest
from bench.ratios import Better, Comparison, Figures, better_of, compare, not_compared


def run(**figures: float) -> Figures:
    return {"live": figures}


def comparison(figure: str, *ratios: float) -> Comparison:
    (found,) = compare([(run(**{figure: 100.0}), run(**{figure: 100.0 * each})) for each in ratios])
    return found


@pytest.mark.parametrize(
    ("figure", "better"),
    [
        ("fan_out_1_messages_per_s", Better.HIGHER),
        ("hops_per_s_small", Better.HIGHER),
        ("topics_cpu_us", Better.LOWER),
        ("topics_p99_ms", Better.LOWER),
        ("add_ns_k4", Better.LOWER),
        ("topics_busy", Better.UNJUDGED),
        ("window_1_against_bare", Better.UNJUDGED),
        ("status_bytes", Better.UNJUDGED),
    ],
)
def test_the_unit_in_a_name_says_what_is_better(figure: str, better: Better) -> None:
    assert better_of(figure) is better


def test_ratios_are_of_the_pairs_and_not_of_the_medians() -> None:
    pairs = [
        (run(a_per_s=100.0), run(a_per_s=110.0)),
        (run(a_per_s=200.0), run(a_per_s=100.0)),
        (run(a_per_s=50.0), run(a_per_s=60.0)),
    ]
    assert compare(pairs) == [Comparison("live", "a_per_s", 100.0, 100.0, 1.1, 0.5, 1.2)]


def test_a_rate_that_falls_by_more_than_a_tenth_in_every_round_is_a_regression() -> None:
    assert comparison("a_per_s", 0.8, 0.85, 0.95).is_regression
    assert comparison("a_per_s", 0.8, 0.85, 0.95).verdict == "WORSE"


def test_one_round_that_was_not_worse_acquits() -> None:
    found = comparison("a_per_s", 0.5, 0.6, 1.01)
    assert not found.is_regression
    assert found.verdict == "same"


def test_a_little_worse_in_every_round_is_within_the_tolerance() -> None:
    assert not comparison("a_per_s", 0.91, 0.95, 0.99).is_regression
    assert not comparison("a_cpu_us", 1.01, 1.05, 1.09).is_regression


def test_a_time_that_grows_is_a_regression_and_one_that_shrinks_is_better() -> None:
    assert comparison("a_p99_ms", 1.2, 1.3, 1.05).is_regression
    assert comparison("a_cpu_us", 0.7, 0.9, 0.8).verdict == "better"
    assert comparison("a_per_s", 1.7, 1.9, 1.8).verdict == "better"


def test_a_little_better_is_the_same() -> None:
    assert comparison("a_per_s", 1.05, 1.09, 1.02).verdict == "same"


def test_a_figure_that_is_neither_rate_nor_time_is_shown_and_not_judged() -> None:
    found = comparison("a_busy", 0.1, 0.1)
    assert not found.is_regression
    assert found.verdict == ""


def test_a_figure_that_a_run_lacks_or_that_is_zero_is_named_and_not_compared() -> None:
    pairs = [
        (run(a_per_s=1.0, b_per_s=1.0), run(a_per_s=1.0)),
        (run(a_per_s=1.0, b_per_s=1.0, c_ms=0.0), run(a_per_s=1.0, b_per_s=1.0, c_ms=0.0)),
    ]
    assert [each.figure for each in compare(pairs)] == ["a_per_s"]
    assert not_compared(pairs) == ["live b_per_s", "live c_ms"]
