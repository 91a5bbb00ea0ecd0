"""Claims to durable names have ever higher numbers, each different from those of all other brokers."""

from __future__ import annotations

from penstock.broker.claims import Claims


def test_numbers_of_claims_rise_and_are_different_from_those_of_other_brokers() -> None:
    one, other = Claims(1), Claims(2)
    numbers = [each for now_ms in (1, 1, 5, 3) for each in (one.next(now_ms=now_ms), other.next(now_ms=now_ms))]
    assert len(set(numbers)) == len(numbers)
    assert numbers[::2] == sorted(numbers[::2])
    assert one.next(above=max(numbers) + 2**30, now_ms=1) > max(numbers) + 2**30
    assert one.next(now_ms=7) > max(numbers) + 2**30
