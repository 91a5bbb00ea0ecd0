from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.system.seal import SENDERS_MAX, ForgedError, ReplayedError, Seal, SealError

KEY = b"a shared key"


class Clock:
    """A clock that is set by hand."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def pair(key: bytes = KEY, other: bytes = KEY) -> tuple[Seal, Seal, Clock]:
    clock = Clock()
    return Seal(key, 1, now_ms=clock), Seal(other, 2, now_ms=clock), clock


def test_who_has_the_key_reads_what_was_sealed() -> None:
    one, other, _ = pair()
    assert other.open(one.seal(b"hello")) == b"hello"
    assert other.open(one.seal(b"again")) == b"again"


def test_who_has_another_key_does_not() -> None:
    one, other, _ = pair(other=b"another key")
    with pytest.raises(ForgedError):
        other.open(one.seal(b"hello"))


def test_a_datagram_counts_once() -> None:
    one, other, _ = pair()
    first, second = one.seal(b"1"), one.seal(b"2")
    other.open(first)
    other.open(second)
    for old in (first, second):
        with pytest.raises(ReplayedError):
            other.open(old)


def test_an_old_datagram_is_refused_by_who_never_heard_it() -> None:
    one, _, clock = pair()
    old = one.seal(b"hello")
    clock.now_ms += 61_000
    with pytest.raises(ReplayedError):
        Seal(KEY, 3, now_ms=clock).open(old)


def test_a_step_back_of_the_clock_does_not_stop_a_sender() -> None:
    one, other, clock = pair()
    other.open(one.seal(b"1"))
    clock.now_ms -= 10_000
    assert other.open(one.seal(b"2")) == b"2"


def test_who_is_known_stays_known_when_a_clock_is_set() -> None:
    clocks = Clock(), Clock()
    one, other = (Seal(KEY, number, now_ms=clock) for number, clock in enumerate(clocks))
    first = one.seal(b"0")
    other.open(first)
    hour_ms = 3_600_000
    for clock, step_ms in ((0, hour_ms), (0, -2 * hour_ms), (1, 3 * hour_ms), (1, -5 * hour_ms)):
        clocks[clock].now_ms += step_ms
        data = one.seal(b"on")
        assert other.open(data) == b"on"
        for old in (first, data):
            with pytest.raises(ReplayedError):
                other.open(old)


def test_who_was_forgotten_for_others_is_not_played_back() -> None:
    clock = Clock()
    receiver, first = Seal(KEY, 0, now_ms=clock), Seal(KEY, 1, now_ms=clock)
    old = first.seal(b"old")
    receiver.open(old)
    clock.now_ms += 1
    for number in range(2, SENDERS_MAX + 2):
        receiver.open(Seal(KEY, number, now_ms=clock).seal(b"x"))
    with pytest.raises(ReplayedError):
        receiver.open(old)
    assert receiver.open(first.seal(b"new")) == b"new"
    clock.now_ms += 1
    assert receiver.open(Seal(KEY, SENDERS_MAX + 2, now_ms=clock).seal(b"unheard of")) == b"unheard of"


@given(st.integers(0, 60), st.integers(1, 255))
def test_damage_is_found(place: int, change: int) -> None:
    one, other, _ = pair()
    data = bytearray(one.seal(b"some message of some length, to be damaged"))
    data[place % len(data)] ^= change
    with pytest.raises(SealError):
        other.open(bytes(data))


@given(st.binary(max_size=80))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(SealError):
        pair()[0].open(data)


def test_without_a_key_the_seal_still_finds_damage_and_repetition() -> None:
    one, other, _ = pair(b"", b"")
    data = one.seal(b"hello")
    assert other.open(data) == b"hello"
    with pytest.raises(ReplayedError):
        other.open(data)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(MisuseError, match="must have at least 8"):
        Seal(b"short", 1, now_ms=Clock())
