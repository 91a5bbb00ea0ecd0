from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.model.message_id import MessageIdSource
from penstock.tracking.skew import SkewCheck, measured_skew_ms


def test_the_skew_is_what_brings_the_publisher_to_the_broker_s_clock() -> None:
    assert measured_skew_ms(broker_ms=10_000, publisher_ms=9_400) == 600
    assert measured_skew_ms(broker_ms=10_000, publisher_ms=10_700) == -700


def test_timestamps_within_the_tolerance_are_left_alone() -> None:
    check = SkewCheck(100, 600, now_ms=10_000)
    assert [check.check(each, now_ms=10_500) for each in (10_400, 10_500, 10_600)] == [None, None, None]
    assert check.corrections == 0


@pytest.mark.parametrize("drift_ms", [-101, 101, 5_000])
def test_a_clock_that_drifts_is_told_a_new_skew(drift_ms: int) -> None:
    source = MessageIdSource(1, 1)
    source.adjust(0)
    check = SkewCheck(100, 0, now_ms=10_000)
    publisher_ms = 60_000 + drift_ms
    skew_ms = check.check(source.next(publisher_ms).timestamp_ms, now_ms=60_000)
    assert skew_ms == -drift_ms
    source.adjust(skew_ms)
    newest_ms = source.next(publisher_ms + 20_000).timestamp_ms
    assert newest_ms == 80_000
    assert check.check(newest_ms, now_ms=80_000) is None
    assert (check.skew_ms, check.corrections) == (-drift_ms, 1)


def test_messages_on_their_way_do_not_correct_twice() -> None:
    check = SkewCheck(100, 0, now_ms=0, settle_ms=2_000)
    assert check.check(50_500, now_ms=50_000) == -500
    assert check.check(50_600, now_ms=50_100) is None
    assert check.check(52_500, now_ms=52_000) == -1_000


def test_messages_published_again_are_no_sign_of_skew() -> None:
    check = SkewCheck(100, 0, now_ms=50_000)
    assert check.check(10_000, now_ms=50_010) is None
    assert check.check(49_900, now_ms=50_300) == 400


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(MisuseError, match="-1 ms is negative"):
        SkewCheck(-1, 0, now_ms=0)
