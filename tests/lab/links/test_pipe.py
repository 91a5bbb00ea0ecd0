"""Pipes: everything leaves in order, not early, no faster than the rate, and the buffer is never exceeded."""

from __future__ import annotations

from random import Random

import pytest

from penstock.lab.links.pipe import QUANTUM_BYTES, Pipe, TokenBucket


def pipe(rate: float = 0.0, *, buffer_bytes: int = 10_000, delay_s: float = 0.0, burst: int = 5_000) -> Pipe:
    return Pipe(TokenBucket(rate, burst, now_s=0.0), buffer_bytes=buffer_bytes, delay_s=delay_s)


def test_what_came_in_leaves_in_order_and_in_parts() -> None:
    one = pipe()
    one.put(b"abc", now_s=0.0)
    one.put(b"defg", now_s=0.0)
    assert one.look(now_s=0.0) == b"abcdefg"
    one.passed(5)
    assert (one.look(now_s=0.0), one.held_bytes, one.passed_bytes) == (b"fg", 2, 5)
    one.passed(2)
    assert (one.look(now_s=0.0), one.wait_s(now_s=0.0)) == (b"", None)


def test_looking_takes_nothing() -> None:
    one = pipe(1_000.0)
    one.put(bytes(100), now_s=0.0)
    assert one.look(now_s=0.05) == one.look(now_s=0.05) == bytes(50)


def test_the_rate_bounds_what_leaves() -> None:
    one = pipe(1_000.0)
    one.put(bytes(3_000), now_s=0.0)
    assert one.look(now_s=0.0) == b""
    assert one.wait_s(now_s=0.0) == pytest.approx(QUANTUM_BYTES / 1_000)
    one.passed(len(one.look(now_s=2.0)))
    assert (one.passed_bytes, one.held_bytes) == (2_000, 1_000)
    assert one.wait_s(now_s=2.0) == pytest.approx(1.0), "the last bytes are worth a turn, however few they are"


def test_bytes_leave_late_each_by_the_delay_of_their_time() -> None:
    one = pipe(delay_s=0.5)
    one.put(b"a", now_s=1.0)
    one.delay_s = 0.1
    one.put(b"b", now_s=1.2)
    assert one.look(now_s=1.4) == b""
    assert one.wait_s(now_s=1.4) == pytest.approx(0.1)
    assert one.look(now_s=1.5) == b"ab", "nobody overtakes"


def test_the_buffer_has_an_end_and_so_has_the_stream() -> None:
    one = pipe(buffer_bytes=10)
    one.put(bytes(8), now_s=0.0)
    assert one.room_bytes == 2
    with pytest.raises(AssertionError, match="3 bytes, and room for 2"):
        one.put(bytes(3), now_s=0.0)
    one.has_ended = True
    assert one.room_bytes == 0
    assert one.look(now_s=0.0) == bytes(8)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_limits_all_bytes_arrive_once_and_in_order(seed: int) -> None:
    rng = Random(seed)
    one = pipe(rng.choice((0.0, 500.0, 50_000.0)), buffer_bytes=rng.randrange(1, 4_000), delay_s=rng.choice((0.0, 0.3)))
    sent, got, now_s = rng.randbytes(20_000), b"", 0.0
    rest = sent
    while len(got) < len(sent):
        if rest and one.room_bytes:
            size = min(one.room_bytes, rng.randrange(1, 3_000))
            one.put(rest[:size], now_s=now_s)
            rest = rest[size:]
        ready = one.look(now_s=now_s)
        taken = rng.randrange(len(ready) + 1)
        got += ready[:taken]
        one.passed(taken)
        now_s += rng.choice((0.0, 0.01, 0.5))
    assert got == sent
    assert (one.held_bytes, one.passed_bytes) == (0, len(sent))


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
