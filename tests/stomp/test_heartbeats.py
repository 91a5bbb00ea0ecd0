"""What both sides agree on, and when either is late."""

from __future__ import annotations

import pytest

from penstock.protocol.stomp import StompError
from penstock.stomp.heartbeats import SEND_MS, HeartBeats


def agreed(header: str, wanted_ms: int = 10_000) -> tuple[int, int]:
    beats = HeartBeats(header, wanted_ms=wanted_ms)
    return beats.send_ms, beats.hear_ms


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("0,0", (0, 0)),
        ("0,4000", (4_000, 0)),
        ("0,1", (SEND_MS, 0)),
        ("20000,0", (0, 20_000)),
        ("1,0", (0, 10_000)),
        (" 20000 , 4000 ", (4_000, 20_000)),
        ("99999999999,99999999999", (24 * 3_600_000, 24 * 3_600_000)),
    ],
)
def test_the_greater_of_offer_and_wish_is_agreed_on_unless_either_is_zero(
    header: str, expected: tuple[int, int]
) -> None:
    assert agreed(header) == expected


@pytest.mark.parametrize("header", ["", "1", "1,2,3", "a,b", "-1,0", "1.5,0", "\u0663,0", "1" * 12 + ",0", ","])
def test_a_header_that_is_not_two_numbers_is_told(header: str) -> None:
    with pytest.raises(StompError) as caught:
        HeartBeats(header, wanted_ms=10_000)
    assert caught.value.header == "heart-beat"


def test_the_answer_says_what_the_broker_offers_and_wants() -> None:
    assert HeartBeats("0,0", wanted_ms=7_000).header == f"{SEND_MS},7000"


def test_it_beats_in_time_after_what_was_sent_last() -> None:
    beats = HeartBeats("0,1000", wanted_ms=10_000)
    beats.begin(now_ms=100)
    due_ms = beats.next_deadline(has_output=False)
    assert due_ms is not None
    assert 100 < due_ms < 1_100
    assert not beats.must_beat(now_ms=due_ms - 1)
    assert beats.must_beat(now_ms=due_ms)
    beats.on_sent(now_ms=due_ms)
    assert not beats.must_beat(now_ms=due_ms)


def test_it_need_not_beat_while_something_waits_to_be_written() -> None:
    beats = HeartBeats("0,1000", wanted_ms=10_000)
    assert beats.next_deadline(has_output=True) is None


def test_a_client_is_silent_after_twice_what_was_agreed_on() -> None:
    beats = HeartBeats("10000,0", wanted_ms=10_000)
    beats.begin(now_ms=0)
    assert not beats.is_silent(now_ms=20_000)
    due_ms = beats.next_deadline(has_output=True)
    assert due_ms is not None
    assert not beats.is_silent(now_ms=due_ms - 1)
    assert beats.is_silent(now_ms=due_ms)
    beats.on_heard(now_ms=due_ms - 1)
    assert not beats.is_silent(now_ms=due_ms)


def test_who_promised_nothing_is_never_silent() -> None:
    beats = HeartBeats("0,0", wanted_ms=10_000)
    beats.begin(now_ms=0)
    assert not beats.is_silent(now_ms=10**9)
    assert beats.next_deadline(has_output=False) is None
