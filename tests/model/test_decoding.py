"""Bytes that are not what they should be: one error, whatever the decoder thinks of them."""

from __future__ import annotations

import msgspec
import pytest

from penstock.model.decoding import UnreadableError, decoded

DECODE = msgspec.msgpack.Decoder(dict[str, list[str]]).decode


def test_what_can_be_read_is_read() -> None:
    assert decoded(DECODE, msgspec.msgpack.encode({"a": ["b"]})) == {"a": ["b"]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "truncated"),
        (b"\xc1", "invalid"),
        (b"\x81\xa1a\x91\x05", "Expected `str`"),
        (b"\x81\xa1\xff\x90", "not UTF-8"),
        (b"\x81\xa1a\x91\xa1\xff", "not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_one_kind_of_error(data: bytes, problem: str) -> None:
    with pytest.raises(UnreadableError, match=problem):
        decoded(DECODE, data)


def test_what_is_nested_too_deeply_is_the_same_kind_of_error() -> None:
    with pytest.raises(UnreadableError, match="nested too deeply"):
        decoded(msgspec.msgpack.Decoder().decode, b"\x91" * 100_000)
