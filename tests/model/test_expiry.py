"""How long messages live, and when that is over."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.body import decode_attributes, encode_body
from penstock.model.errors import InvalidMessageError
from penstock.model.expiry import (
    EXPIRES,
    LIFETIME_MS_MAX,
    expired_places,
    expires_at_ms,
    is_lifetime,
    lifetime_ms,
)
from penstock.model.message import Message
from penstock.model.message_id import MessageId


@pytest.mark.parametrize("expires", [0, -1, math.nan, math.inf, 1e300, True, "30", None])
def test_what_is_no_lifetime_is_refused(expires: object) -> None:
    with pytest.raises(InvalidMessageError, match="expires"):
        lifetime_ms(expires)


@given(st.integers(1, LIFETIME_MS_MAX))
def test_a_lifetime_in_milliseconds_survives_that_it_is_told_in_seconds(ms: int) -> None:
    assert lifetime_ms(ms / 1_000) == ms
    assert is_lifetime(ms)


@pytest.mark.parametrize("value", [0, -1, LIFETIME_MS_MAX + 1, True, 1.5, "1", None])
def test_only_positive_integers_are_lifetimes(value: int | float | str | bool | None) -> None:
    assert not is_lifetime(value)


def made(ms: int, expires: float | None) -> bytes:
    return encode_body(MessageId(1, 2, ms, 3), Message({"a": 1}, expires=expires))


def test_a_message_expires_that_long_after_the_time_in_its_identifier() -> None:
    bodies = [made(5_000, None), made(5_000, 2.0), made(6_000, 2.0), made(5_000, 0.5)]
    attributes = [decode_attributes(body) for body in bodies]
    assert [expires_at_ms(*each) for each in zip(bodies, attributes, strict=True)] == [None, 7_000, 8_000, 5_500]
    assert attributes[1] == attributes[2], "so that brokers match them once"
    found = {ms: expired_places(bodies, attributes, now_ms=ms) for ms in (5_499, 5_500, 6_999, 7_000, 9_000)}
    assert found == {5_499: [], 5_500: [3], 6_999: [3], 7_000: [1, 3], 9_000: [1, 2, 3]}
    assert expired_places(bodies[:1], attributes[:1], now_ms=2**60) == []
    assert expired_places([], [], now_ms=0) == []


def test_a_forged_lifetime_means_none() -> None:
    assert expires_at_ms(made(5_000, None), {EXPIRES: "soon"}) is None
