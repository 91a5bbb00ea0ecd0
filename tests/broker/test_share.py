"""The share of recovery: what is spent is gone until the next slice."""

from __future__ import annotations

from penstock.broker.share import Share


def test_a_slice_is_spent_when_little_of_it_is_left() -> None:
    share = Share(80)
    assert not share.is_spent
    share.spend(70)
    assert not share.is_spent
    share.spend(1)
    assert share.is_spent


def test_the_next_slice_owes_nothing_to_a_piece_of_work_that_was_too_large() -> None:
    share = Share(80)
    share.spend(1_000)
    assert share.effort_left == -920
    share.begin(now_ms=0)
    assert share.effort_left == 80


def test_while_a_commit_is_under_way_slices_begin_some_time_apart() -> None:
    share = Share(80)
    share.spend(80)
    share.pause(now_ms=100)
    first_ms = share.resume_ms
    assert first_ms > 100
    share.pause(now_ms=first_ms - 1)
    assert share.resume_ms == first_ms, "more commits do not put it off"
    share.begin(now_ms=first_ms - 1)
    assert share.effort_left == 0
    share.begin(now_ms=first_ms)
    assert share.effort_left == 80
    assert share.resume_ms - first_ms == first_ms - 100


def test_when_no_commit_is_under_way_the_next_slice_begins_at_once() -> None:
    share = Share(80)
    share.spend(80)
    share.pause(now_ms=100)
    share.resume()
    share.begin(now_ms=100)
    assert not share.is_spent
    assert share.resume_ms == 0
