from __future__ import annotations

from math import inf

from penstock.ajil.allowance import Allowance


def sent(allowance: Allowance, size: int, tries: int = 100, *, part: float = 1.0) -> int:
    return sum(allowance.take(size, part=part) for _ in range(tries))


def test_without_a_quota_everything_may_be_sent() -> None:
    assert sent(Allowance(), 1000) == 100


def test_a_quota_is_spread_over_the_epoch() -> None:
    allowance = Allowance()
    allowance.start(1000, inf)
    assert sent(allowance, 100, part=0.5) == 5
    assert sent(allowance, 100) == 5
    assert not allowance.fits(100)


def test_packets_are_limited_too() -> None:
    allowance = Allowance()
    allowance.start(inf, 3)
    assert sent(allowance, 100) == 3


def test_what_is_left_up_to_one_packet_counts_in_the_next_epoch() -> None:
    allowance = Allowance()
    total = 0
    for _ in range(100):
        allowance.start(130, inf)
        total += sent(allowance, 100)
    assert total in (129, 130), "thirteen packets in ten epochs"


def test_a_quota_below_one_packet_lets_one_through_now_and_then() -> None:
    allowance = Allowance()
    total = 0
    for _ in range(50):
        allowance.start(20, inf)
        total += sent(allowance, 100)
    assert total in (9, 10)


def test_nothing_is_saved_up_for_a_burst() -> None:
    allowance = Allowance()
    for _ in range(50):
        allowance.start(1000, inf)
        allowance.take(100)
    allowance.start(1000, inf)
    assert sent(allowance, 100) == 11


def test_under_a_hard_limit_nothing_is_carried_over() -> None:
    allowance = Allowance()
    for _ in range(10):
        allowance.start(130, inf, carries=False)
        assert sent(allowance, 100) == 1


def test_a_quota_that_changes_within_an_epoch_counts_what_was_used() -> None:
    allowance = Allowance()
    assert sent(allowance, 100, 4) == 4
    allowance.change(600, inf)
    assert sent(allowance, 100) == 2


def test_rounding_makes_every_epoch_look_like_the_average() -> None:
    allowance = Allowance()
    seen = []
    for _ in range(20):
        allowance.start(130, inf)
        taken = sent(allowance, 100)
        seen.append(100 * taken + allowance.rounding[0])
    assert seen[2:] == [130] * 18


def test_rounding_adds_nothing_for_who_is_not_slowed_down_and_forgives_no_debt() -> None:
    allowance = Allowance()
    allowance.start(inf, inf)
    assert sent(allowance, 100, 4) == 4
    assert list(allowance.rounding) == [0, 0]
    allowance.change(250, inf)
    assert list(allowance.rounding) == [0, 0], "400 bytes were sent, whatever was allowed"
