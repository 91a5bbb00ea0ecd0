"""Token buckets: never more than the rate allows, and never less than was saved."""

from __future__ import annotations

from random import Random

import pytest

from penstock.lab.links.bucket import TokenBucket


def test_bytes_become_available_with_time_up_to_the_burst() -> None:
    bucket = TokenBucket(100.0, 50, now_s=10.0)
    assert [bucket.available(now_s=at_s) for at_s in (10.0, 10.125, 10.25, 10.5, 99.0)] == [0, 12, 25, 50, 50]


def test_what_passed_is_not_available_any_more() -> None:
    bucket = TokenBucket(100.0, 50, now_s=0.0)
    assert bucket.available(now_s=1.0) == 50
    bucket.take(30)
    assert bucket.available(now_s=1.0) == 20
    assert bucket.wait_s(25, now_s=1.0) == pytest.approx(0.05)
    assert bucket.wait_s(20, now_s=1.0) == 0.0
    with pytest.raises(AssertionError, match="30 bytes pass, but only 20 may"):
        bucket.take(30)


def test_more_than_a_burst_is_not_waited_for() -> None:
    assert TokenBucket(100.0, 50, now_s=0.0).wait_s(5_000, now_s=0.0) == pytest.approx(0.5)


def test_without_a_rate_everything_may_pass_at_once() -> None:
    bucket = TokenBucket(0.0, 50, now_s=0.0)
    bucket.take(bucket.available(now_s=0.0))
    assert bucket.available(now_s=0.0) > 10**12
    assert bucket.wait_s(10**9, now_s=0.0) == 0.0


def test_another_rate_counts_from_the_change_on() -> None:
    bucket = TokenBucket(100.0, 50, now_s=0.0)
    bucket.change(10.0, 20, now_s=0.1)
    assert bucket.rate_bytes_s == 10.0
    assert [bucket.available(now_s=at_s) for at_s in (0.1, 0.6, 9.0)] == [10, 15, 20]
    bucket.change(100.0, 5, now_s=9.0)
    assert bucket.available(now_s=9.0) == 5, "what was saved counts up to the new limit"


def test_a_clock_that_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(100.0, 50, now_s=5.0)
    assert [bucket.available(now_s=at_s) for at_s in (4.0, 4.2)] == [0, 20]


@pytest.mark.parametrize("seed", range(20))
def test_over_any_time_no_more_passes_than_rate_and_burst_allow(seed: int) -> None:
    rng = Random(seed)
    rate, burst = rng.uniform(10, 1e6), rng.randrange(1, 10_000)
    bucket = TokenBucket(rate, burst, now_s=0.0)
    now_s, passed = 0.0, 0
    for _ in range(500):
        now_s += rng.choice((0.0, 0.0001, 0.01, 1.0))
        size = min(bucket.available(now_s=now_s), rng.randrange(1, 5_000))
        bucket.take(size)
        passed += size
        assert passed <= rate * now_s + 1e-6
        assert bucket.available(now_s=now_s) <= burst
