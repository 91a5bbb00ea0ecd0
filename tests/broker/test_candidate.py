"""One candidate for a home: it runs the home only within a lease, and gives it up when asked."""

from __future__ import annotations

import pytest

from penstock.broker.candidate import (
    Candidate,
    Held,
    LeaseSettings,
    Lost,
    Release,
    Renew,
    Renewed,
    Start,
    Stop,
    Take,
    Taken,
)
from penstock.model.errors import MisuseError

_SETTINGS = LeaseSettings(lease_ms=2_000)


def holder() -> Candidate:
    """A candidate that took epoch 3 at time 0 and runs the home."""
    candidate = Candidate("pb1", _SETTINGS)
    assert candidate.on_deadline(now_ms=0) == [Take()]
    assert candidate.on_answer(Taken(3), now_ms=10) == [Start(3)]
    return candidate


def test_a_candidate_asks_again_after_a_while_where_somebody_holds_the_home() -> None:
    candidate = Candidate("pb2", _SETTINGS)
    assert candidate.on_deadline(now_ms=0) == [Take()]
    assert candidate.next_deadline() is None
    assert candidate.on_answer(Held("pb1", 3, 1_500, ""), now_ms=5) == []
    assert candidate.holder == "pb1"
    assert candidate.next_deadline() == 255
    assert candidate.on_deadline(now_ms=254) == []
    assert candidate.on_deadline(now_ms=255) == [Take()]


def test_the_lease_counts_from_the_question_and_not_from_the_answer() -> None:
    candidate = Candidate("pb1", _SETTINGS)
    candidate.on_deadline(now_ms=100)
    assert candidate.on_answer(Taken(1), now_ms=900) == [Start(1)]
    assert candidate.lease_until_ms == 2_100


def test_an_answer_that_comes_after_the_lease_starts_nothing() -> None:
    candidate = Candidate("pb1", _SETTINGS)
    candidate.on_deadline(now_ms=0)
    assert candidate.on_answer(Taken(1), now_ms=2_000) == []
    assert candidate.epoch == 0
    assert candidate.on_deadline(now_ms=2_250) == [Take()]


def test_a_renewed_lease_counts_from_its_question() -> None:
    candidate = holder()
    assert candidate.next_deadline() == 500
    assert candidate.on_deadline(now_ms=520) == [Renew(3)]
    assert candidate.on_answer(Renewed(""), now_ms=700) == []
    assert candidate.lease_until_ms == 2_520
    assert candidate.next_deadline() == 1_020


def test_a_holder_that_gets_no_answer_stops_at_the_end_of_its_lease() -> None:
    candidate = holder()
    assert candidate.on_deadline(now_ms=500) == [Renew(3)]
    assert candidate.next_deadline() == 2_000
    (stop,) = candidate.on_deadline(now_ms=2_000)
    assert isinstance(stop, Stop)
    assert not stop.is_orderly
    assert candidate.next_deadline() is None
    # The late answer does not bring it back to life, and it takes the home again only in a new epoch.
    assert candidate.on_answer(Renewed(""), now_ms=2_001) == []
    candidate.on_ended(now_ms=2_010)
    assert candidate.on_deadline(now_ms=2_510) == [Take()]


def test_a_holder_that_slept_through_its_lease_stops_before_it_asks() -> None:
    candidate = holder()
    first, *rest = candidate.on_deadline(now_ms=60_000)
    assert first == Stop(is_orderly=False, reason="its lease ran out before it could be renewed")
    assert rest == []


def test_an_answer_that_waited_beyond_the_lease_stops_the_home_which_may_have_fallen_silent() -> None:
    candidate = holder()
    assert candidate.on_deadline(now_ms=500) == [Renew(3)]
    # The process is stopped in between, and hears the answer before its timers.
    (stop,) = candidate.on_answer(Renewed(""), now_ms=2_100, asked_ms=500)
    assert isinstance(stop, Stop)
    assert not stop.is_orderly
    candidate.on_ended(now_ms=2_100)
    # What it holds by the database it may have again at once, in another epoch.
    assert candidate.next_deadline() is not None
    assert candidate.on_deadline(now_ms=2_600) == [Take()]


def test_unanswered_renewals_are_repeated_while_the_lease_lasts() -> None:
    candidate = holder()
    assert candidate.on_deadline(now_ms=500) == [Renew(3)]
    assert candidate.on_answer(None, now_ms=600) == []
    assert candidate.on_deadline(now_ms=850) == [Renew(3)]
    assert candidate.lease_until_ms == 2_000


def test_a_holder_whose_epoch_is_over_stops_at_once() -> None:
    candidate = holder()
    candidate.on_deadline(now_ms=500)
    assert candidate.on_answer(Lost(), now_ms=510) == [Stop(is_orderly=False, reason="somebody else has taken it over")]
    candidate.on_ended(now_ms=520)
    assert candidate.epoch == 0


def test_a_home_moves_in_order_and_is_released_for_the_candidate_that_is_to_have_it() -> None:
    candidate = holder()
    candidate.on_deadline(now_ms=500)
    assert candidate.on_answer(Renewed("pb2"), now_ms=510) == [Stop(is_orderly=True, reason="it moves to pb2")]
    # While it finishes what was begun, its lease is renewed, and the wish is not repeated.
    assert candidate.on_deadline(now_ms=1_000) == [Renew(3)]
    assert candidate.on_answer(Renewed("pb2"), now_ms=1_010) == []
    candidate.on_ended(now_ms=1_020)
    assert candidate.on_deadline(now_ms=1_020) == [Release(3, "pb2")]
    assert candidate.on_answer(Held("", 3, 0, "pb2"), now_ms=1_030) == []
    assert candidate.epoch == 0
    assert candidate.on_deadline(now_ms=1_529) == []
    assert candidate.on_deadline(now_ms=1_530) == [Take()]


def test_a_home_that_is_to_be_where_it_is_stays() -> None:
    candidate = holder()
    candidate.on_deadline(now_ms=500)
    assert candidate.on_answer(Renewed("pb1"), now_ms=510) == []


def test_a_home_that_failed_is_released_and_left_to_the_others_for_a_lease() -> None:
    candidate = holder()
    candidate.on_ended(now_ms=100, has_failed=True)
    assert candidate.on_deadline(now_ms=100) == [Release(3, "")]
    assert candidate.on_answer(Held("", 3, 0, ""), now_ms=110) == []
    assert candidate.on_deadline(now_ms=2_109) == []
    assert candidate.on_deadline(now_ms=2_110) == [Take()]


def test_a_home_that_another_database_gave_to_somebody_else_is_left_alone_for_long() -> None:
    candidate = holder()
    candidate.on_ended(now_ms=100, has_failed=True, was_superseded=True)
    assert candidate.on_deadline(now_ms=100) == [Release(3, "")]
    candidate.on_answer(Held("", 3, 0, ""), now_ms=110)
    assert candidate.next_deadline() == 110 + 30 * 2_000
    # The next time all is well.
    assert candidate.on_deadline(now_ms=70_000) == [Take()]
    assert candidate.on_answer(Taken(4), now_ms=70_010) == [Start(4)]
    candidate.on_ended(now_ms=70_100)
    candidate.on_deadline(now_ms=70_100)
    candidate.on_answer(Held("", 4, 0, ""), now_ms=70_110)
    assert candidate.next_deadline() == 70_110 + 500


def test_a_release_that_is_not_answered_is_repeated_until_the_lease_is_over_anyway() -> None:
    candidate = holder()
    candidate.on_ended(now_ms=100)
    assert candidate.on_deadline(now_ms=100) == [Release(3, "")]
    assert candidate.on_answer(None, now_ms=600) == []
    assert candidate.on_deadline(now_ms=850) == [Release(3, "")]
    assert candidate.on_answer(None, now_ms=2_100) == []
    assert candidate.epoch == 0


def test_a_broker_that_stops_gives_its_home_up_and_asks_for_nothing_more() -> None:
    candidate = holder()
    assert candidate.leave(now_ms=200) == [Stop(is_orderly=True, reason="broker pb1 is stopping")]
    over = [candidate.is_over]
    candidate.on_ended(now_ms=300)
    assert candidate.on_deadline(now_ms=300) == [Release(3, "")]
    candidate.on_answer(Held("", 3, 0, ""), now_ms=310)
    over.append(candidate.is_over)
    assert over == [False, True]
    assert candidate.next_deadline() is None


def test_a_candidate_that_leaves_while_it_takes_the_home_releases_it() -> None:
    candidate = Candidate("pb1", _SETTINGS)
    candidate.on_deadline(now_ms=0)
    assert candidate.leave(now_ms=5) == []
    assert candidate.on_answer(Taken(4), now_ms=10) == []
    assert candidate.on_deadline(now_ms=10) == [Release(4, "")]


def test_news_of_the_home_make_a_candidate_ask_at_once() -> None:
    candidate = Candidate("pb2", _SETTINGS)
    candidate.on_deadline(now_ms=0)
    candidate.on_answer(Held("pb1", 3, 1_500, ""), now_ms=5)
    candidate.hurry(now_ms=20)
    assert candidate.on_deadline(now_ms=20) == [Take()]


def test_a_lease_that_is_too_short_is_refused() -> None:
    with pytest.raises(MisuseError, match="lease_ms 100 of a home is less than 200"):
        LeaseSettings(lease_ms=100)


def test_news_of_the_home_do_not_shorten_the_pause_after_it_could_not_be_run() -> None:
    candidate = Candidate("pb2", _SETTINGS)
    candidate.on_deadline(now_ms=0)
    candidate.on_answer(Taken(4), now_ms=5)
    candidate.on_ended(now_ms=10, has_failed=True)
    assert candidate.on_deadline(now_ms=10) == [Release(4, "")]
    candidate.on_answer(Held("", 4, 0, ""), now_ms=20)
    candidate.hurry(now_ms=30)
    assert candidate.next_deadline() == 20 + _SETTINGS.lease_ms


def test_a_lease_counts_from_when_the_database_was_asked_if_that_was_later() -> None:
    candidate = Candidate("pb1", _SETTINGS)
    candidate.on_deadline(now_ms=0)
    assert candidate.on_answer(Taken(1), now_ms=50, asked_ms=40) == [Start(1)]
    assert candidate.lease_until_ms == 40 + _SETTINGS.lease_ms
