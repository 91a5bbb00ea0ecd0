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
    share.begin()
    assert share.effort_left == 80
