"""Pipes: everything leaves in order, not early, and the buffer is never exceeded."""

from __future__ import annotations

from random import Random

import pytest

from penstock.lab.links.bucket import TokenBucket
from penstock.lab.links.pipe import QUANTUM_BYTES, Pipe


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
