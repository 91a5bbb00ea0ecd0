"""Identifiers of messages: golden vectors, order, text as people copy it, and ids that increase under any clock."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.model.message_id import (
    MESSAGE_ID_BYTES,
    MESSAGE_ID_CHARS,
    InvalidMessageIdError,
    MessageId,
    MessageIdSource,
)

U16_MAX, U32_MAX, U48_MAX, U64_MAX = 2**16 - 1, 2**32 - 1, 2**48 - 1, 2**64 - 1

# Confirmed apart from the code, with the standard library's base32hex of the bytes behind four zero bytes, less its
# first six characters, in Crockford's alphabet. They must never change: filters, lakes and logs are full of them.
GOLDEN = [
    ((0, 0, 0, 0), "00000000000000000000000000000000", "00000000000000000000000000"),
    ((0, 0, 0, 1), "00000000000000000000000000000001", "00000000000000000000000001"),
    ((0, 0, 1, 0), "00000000000000000000000000010000", "00000000000000000000002000"),
    ((0, 1, 0, 0), "00000000000000010000000000000000", "0000000000000G000000000000"),
    ((1, 0, 0, 0), "00000001000000000000000000000000", "00000020000000000000000000"),
    ((U32_MAX, U32_MAX, U48_MAX, U16_MAX), "ff" * 16, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ((7, 8, 1_763_200_000_000, 3), "0000000700000008019a86e8e0000003", "000000E000004036M6X3G00003"),
    (
        (0x01234567, 0x89ABCDEF, 0x0123456789AB, 0xCDEF),
        "0123456789abcdef0123456789abcdef",
        "014D2PF2DBSQQG28T5CY4TQKFF",
    ),
]

ids = st.builds(
    MessageId, st.integers(0, U32_MAX), st.integers(0, U32_MAX), st.integers(0, U48_MAX), st.integers(0, U16_MAX)
)


@pytest.mark.parametrize(("parts", "data", "text"), GOLDEN)
def test_bytes_and_text_are_the_golden_ones_and_read_back(parts: tuple[int, ...], data: str, text: str) -> None:
    message_id = MessageId(*parts)
    assert message_id.to_bytes().hex() == data
    assert str(message_id) == text
    assert MessageId.from_bytes(bytes.fromhex(data)) == message_id
    assert MessageId.parse(text) == message_id


@given(ids)
def test_every_form_reads_back_to_the_same_id(message_id: MessageId) -> None:
    assert MessageId.from_bytes(message_id.to_bytes()) == message_id
    assert MessageId.parse(str(message_id)) == message_id
    assert MessageId.parse(str(message_id).lower()) == message_id
    assert MessageId.from_halves(*message_id.halves()) == message_id
    assert len(message_id.to_bytes()) == MESSAGE_ID_BYTES
    assert len(str(message_id)) == MESSAGE_ID_CHARS


@given(ids, ids)
def test_ids_bytes_texts_and_halves_are_all_in_the_same_order(one: MessageId, other: MessageId) -> None:
    order = one < other
    assert (one.to_bytes() < other.to_bytes()) == order
    assert (str(one) < str(other)) == order
    assert (one.halves() < other.halves()) == order
    assert (one == other) == (str(one) == str(other))


def test_the_halves_are_who_and_when_as_unsigned_numbers() -> None:
    assert MessageId(1, 2, 3, 4).halves() == (1 << 32 | 2, 3 << 16 | 4)
    assert MessageId(U32_MAX, U32_MAX, U48_MAX, U16_MAX).halves() == (U64_MAX, U64_MAX)


def test_an_id_can_be_a_key_and_cannot_be_changed() -> None:
    assert len({MessageId(1, 2, 3, 4), MessageId(1, 2, 3, 4), MessageId(1, 2, 3, 5)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        MessageId(1, 2, 3, 4).counter = 5  # type: ignore[misc]


def test_letters_that_people_confuse_with_digits_are_read_as_the_digits() -> None:
    assert MessageId.parse("OoIiLl00000000000000000000") == MessageId.parse("00111100000000000000000000")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((-1, 0, 0, 0), r"publisher of a message id is -1, outside 0 to 4294967295 \(32 bits\)"),
        ((0, 2**32, 0, 0), "broker of a message id is 4294967296"),
        ((0, 0, 2**48, 0), r"timestamp_ms of a message id is 281474976710656, .* \(48 bits\)"),
        ((0, 0, 0, 2**16), r"counter of a message id is 65536, .* \(16 bits\)"),
        ((0, 0, 1.5e12, 0), "timestamp_ms of a message id must be an int, not float"),
        ((True, 0, 0, 0), "publisher of a message id must be an int, not bool"),
        ((np.uint32(3), 0, 0, 0), "publisher of a message id must be an int, not uint32"),
    ],
)
def test_a_part_that_does_not_fit_is_refused_by_name(parts: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InvalidMessageIdError, match=words):
        MessageId(*parts)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_bytes_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(InvalidMessageIdError, match=f"has 16 bytes, not {size}"):
        MessageId.from_bytes(bytes(size))


def test_halves_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidMessageIdError, match="high half of a message id is -1"):
        MessageId.from_halves(-1, 0)
    with pytest.raises(InvalidMessageIdError, match=r"low half of a message id is .* \(64 bits\)"):
        MessageId.from_halves(0, 2**64)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has 26 characters, not 0"),
        ("0" * 25, "has 26 characters, not 25"),
        ("0" * 27, "has 26 characters, not 27"),
        (" " + "0" * 25, "character 1 of message id .* is ' '"),
        ("0" * 9 + "U" + "0" * 16, "character 10 of message id .* is 'U'; only 0-9 and A-Z without U are used"),
        ("0" * 25 + "-", "character 26 of message id .* is '-'"),
        ("٣" * 26, "character 1 of message id"),
        ("8" + "0" * 25, "begins with '8'; the first character is 0 to 7"),
        ("z" * 26, "begins with 'z'"),
    ],
)
def test_a_text_that_is_no_id_is_refused_with_the_place_and_the_rule(text: str, words: str) -> None:
    with pytest.raises(InvalidMessageIdError, match=words):
        MessageId.parse(text)


def test_an_error_does_not_repeat_a_very_long_text() -> None:
    with pytest.raises(InvalidMessageIdError) as caught:
        MessageId.parse("x" * 100_000)
    assert len(str(caught.value)) < 200
    assert isinstance(caught.value, MisuseError)


@given(st.text(max_size=40))
def test_any_text_is_either_an_id_or_refused(text: str) -> None:
    try:
        message_id = MessageId.parse(text)
    except InvalidMessageIdError:
        return
    assert len(str(message_id)) == len(text)


def test_a_source_stamps_ids_with_the_clock_and_counts_within_a_millisecond() -> None:
    source = MessageIdSource(7, 8)
    made = [source.next(now_ms) for now_ms in (1000, 1000, 1000, 1001)]
    assert made == [
        MessageId(7, 8, 1000, 0),
        MessageId(7, 8, 1000, 1),
        MessageId(7, 8, 1000, 2),
        MessageId(7, 8, 1001, 0),
    ]


def test_a_clock_set_back_keeps_the_timestamp_and_counts_on() -> None:
    source = MessageIdSource(7, 8)
    made = [source.next(now_ms) for now_ms in (1000, 400, 999, 1000, 1001)]
    assert [(one.timestamp_ms, one.counter) for one in made] == [(1000, 0), (1000, 1), (1000, 2), (1000, 3), (1001, 0)]


def test_a_full_counter_moves_the_timestamp_on() -> None:
    source = MessageIdSource(7, 8, after=MessageId(7, 8, 1000, U16_MAX - 1))
    made = [source.next(now_ms) for now_ms in (1000, 1000, 1000, 1001, 1002)]
    assert [(one.timestamp_ms, one.counter) for one in made] == [
        (1000, U16_MAX),
        (1001, 0),
        (1001, 1),
        (1001, 2),
        (1002, 0),
    ]


def test_the_skew_is_added_to_the_clock_and_never_turns_ids_back() -> None:
    source = MessageIdSource(7, 8)
    assert source.skew_ms == 0
    source.adjust(250)
    assert source.skew_ms == 250
    assert source.next(1000) == MessageId(7, 8, 1250, 0)
    source.adjust(-250)
    assert source.next(1001) == MessageId(7, 8, 1250, 1)
    assert source.next(1501) == MessageId(7, 8, 1251, 0)


def test_a_skew_below_the_beginning_of_time_gives_the_first_timestamp() -> None:
    source = MessageIdSource(7, 8)
    source.adjust(-500)
    assert [source.next(now_ms) for now_ms in (0, 499, 501)] == [
        MessageId(7, 8, 0, 0),
        MessageId(7, 8, 0, 1),
        MessageId(7, 8, 1, 0),
    ]


def test_a_publisher_that_moved_continues_above_its_last_id() -> None:
    source = MessageIdSource(7, 3, after=MessageId(7, 8, 5000, 2))
    assert source.next(4000) == MessageId(7, 3, 5000, 3)
    with pytest.raises(InvalidMessageIdError, match="publisher 9 cannot continue after publisher 7"):
        MessageIdSource(9, 3, after=MessageId(7, 8, 5000, 2))


def test_the_end_of_time_is_refused_and_leaves_the_source_as_it_was() -> None:
    source = MessageIdSource(7, 8)
    with pytest.raises(InvalidMessageIdError, match="timestamp_ms"):
        source.next(2**48)
    assert source.next(5) == MessageId(7, 8, 5, 0)


def test_a_source_refuses_a_publisher_or_broker_that_cannot_be() -> None:
    with pytest.raises(InvalidMessageIdError, match="publisher"):
        MessageIdSource(-1, 0)
    with pytest.raises(InvalidMessageIdError, match="broker"):
        MessageIdSource(0, 2**32)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-30, 30)), max_size=80))
def test_ids_increase_strictly_whatever_the_clock_and_the_skew_do(turns: list[tuple[int, int]]) -> None:
    source = MessageIdSource(1, 2)
    made = []
    for now_ms, skew_ms in turns:
        source.adjust(skew_ms)
        made.append(source.next(now_ms))
        assert made[-1].timestamp_ms >= now_ms + skew_ms
    assert all(earlier < later for earlier, later in pairwise(made))
