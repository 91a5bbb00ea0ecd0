"""Measurements call what they measure, leave the garbage collector as it was, and count kept bytes."""

from __future__ import annotations

import gc

from penstock.lab.frame.measuring import best_us, collector_in_leisure, elapsed_s, growth_bytes


def test_every_input_is_used_in_every_repeat_after_a_warm_up() -> None:
    seen: list[int] = []
    assert best_us(seen.append, [1, 2, 3], repeats=2) > 0
    assert seen == [1, 2, 3] * 3


def test_the_collector_rests_while_measuring_and_works_again_after() -> None:
    states: list[bool] = []
    elapsed_s(lambda: states.append(gc.isenabled()))
    assert states == [False]
    assert gc.isenabled()


def test_the_collector_has_leisure_in_a_simulation_and_works_as_before_after() -> None:
    usual = gc.get_threshold()
    with collector_in_leisure():
        assert gc.get_threshold() > usual
        assert gc.isenabled()
    assert gc.get_threshold() == usual


def test_kept_bytes_are_counted_and_dropped_ones_are_not() -> None:
    assert 1_000_000 <= growth_bytes(lambda: bytearray(1_000_000)) < 1_100_000
    assert growth_bytes(lambda: len(bytearray(1_000_000))) < 100_000
