"""The pace counts jobs and what was possible where the pubend's broker was there, and only there."""

from __future__ import annotations

import pytest

from penstock.lab.work.pace import Pace, pace_of, quiet_spans

WHOLE = (0.0, 10.0)
EVERY_SECOND = [each + 0.5 for each in range(10)]


def test_without_interruptions_the_share_is_what_was_done_of_what_workers_could_do() -> None:
    found = pace_of(EVERY_SECOND, [WHOLE], down=[], alive=[WHOLE, WHOLE], worker_per_s=1)
    assert found == Pace(10, 10.0, 20.0)
    assert (found.per_s, found.share) == (1.0, 0.5)


def test_nothing_counts_while_the_broker_is_down() -> None:
    found = pace_of(EVERY_SECOND, [WHOLE], down=[(2.0, 5.0)], alive=[WHOLE], worker_per_s=1)
    assert found == Pace(7, 7.0, 7.0)


def test_the_dead_can_do_nothing() -> None:
    found = pace_of(EVERY_SECOND, [WHOLE], down=[], alive=[WHOLE, (0.0, 4.0), (6.0, 10.0)], worker_per_s=1)
    assert found.possible == 18.0


def test_workers_can_do_no_more_than_the_machine() -> None:
    found = pace_of(EVERY_SECOND, [WHOLE], down=[], alive=[WHOLE, (0.0, 5.0)], worker_per_s=4, machine_per_s=5)
    assert found.possible == 5 * 5 + 5 * 4


def test_jobs_before_and_after_do_not_count() -> None:
    found = pace_of(EVERY_SECOND, [(2.0, 3.0), (3.0, 4.0)], down=[], alive=[WHOLE], worker_per_s=1)
    assert found == Pace(2, 2.0, 2.0)


@pytest.mark.parametrize("pace", [Pace(0, 0.0, 0.0), Pace(0, 1.0, 0.0)])
def test_where_nothing_was_possible_the_share_is_nothing(pace: Pace) -> None:
    assert (pace.share, pace.per_s) == (0.0, 0.0)


def test_the_seconds_before_kills_are_quiet() -> None:
    assert quiet_spans([4.0, 9.0], WHOLE, down=[]) == [(2.0, 4.0), (7.0, 9.0)]


def test_it_is_not_quiet_soon_after_the_broker_was_down() -> None:
    assert quiet_spans([4.0, 9.0], WHOLE, down=[(4.0, 6.5)]) == [(2.0, 4.0), (8.5, 9.0)]
    assert quiet_spans([4.0, 9.0], WHOLE, down=[(4.0, 7.5)]) == [(2.0, 4.0)]


def test_kills_outside_of_the_span_are_not_looked_at() -> None:
    assert quiet_spans([1.0, 20.0], (0.0, 10.0), down=[]) == [(0.0, 1.0)]


def test_a_run_in_which_nothing_was_killed_is_not_compared_with_itself() -> None:
    assert quiet_spans([], WHOLE, down=[]) == []
    assert quiet_spans([20.0], WHOLE, down=[]) == []
    assert pace_of(EVERY_SECOND, [WHOLE], down=[], alive=[WHOLE], worker_per_s=1, machine_per_s=0.0).share == 0.0
