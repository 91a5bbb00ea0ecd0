from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ajil.aup import Aup
from penstock.ajil.errors import MalformedError
from penstock.ajil.messages import MESSAGE_BYTES_MAX, ControlMessage, Demand, Entry, Policy, Report, decode, encode

REPORT = Report("n1", 3, (Entry("g", 1000.0, 10.0, 2, (("n1", 600.0, 6.0), ("n2", 400.0, 4.0))),))
AUP = Aup(limit_bytes_s=600_000, priorities={"cards": 0.0}, version=4, author="ann")


@pytest.mark.parametrize(
    "message", [REPORT, Report("n1", 0, ()), Demand("n1", 3, 17, 5000.0, 50.0), Policy.of("n", AUP)]
)
def test_messages_come_back_as_they_were(message: ControlMessage) -> None:
    assert decode(encode(message)) == message


def test_a_policy_comes_back_whole() -> None:
    message = decode(encode(Policy.of("n1", AUP)))
    assert isinstance(message, Policy)
    assert message.aup == AUP


def test_a_report_is_compact() -> None:
    assert len(encode(REPORT)) < 80


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"not a message",
        msgspec.msgpack.encode(["x", "n1", 0]),
        msgspec.msgpack.encode(["r", "n1", -1, []]),
        msgspec.msgpack.encode(["r", "n1", 0, [["g", -5.0, 1.0]]]),
        msgspec.msgpack.encode(["r", "n1", 0, [["g", float("nan"), 1.0]]]),
        msgspec.msgpack.encode(["r", "n1", 0, [["g", float("inf"), 1.0]]]),
        msgspec.msgpack.encode(["r", "n" * 300, 0, []]),
        msgspec.msgpack.encode(["r", "n1", 0, [["g", 1.0, 1.0, 9, [["s", 1.0, 1.0]] * 9]]]),
        msgspec.msgpack.encode(["d", "n1", 0, 1, "much", 1.0]),
        msgspec.msgpack.encode(["d", "n1", 0, 1, float("nan"), 1.0]),
        msgspec.msgpack.encode(["p", "n1", {"alpha": 7}]),
        msgspec.msgpack.encode(["p", "n1", {"colour": "red"}]),
        msgspec.msgpack.encode(["p", "n1", {"limit_bytes_s": "lots"}]),
        msgspec.msgpack.encode(["p", "n1", {"version": 2**52 + 1}]),
        msgspec.msgpack.encode(["p", "n1", {"priorities": {f"{number:060}": 1.0 for number in range(900)}}]),
        msgspec.msgpack.encode(["p", "n1", {"limit_bytes_s": 2**64 - 1}]),
        bytes(MESSAGE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_message_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(data)


@given(st.binary(max_size=200))
def test_noise_is_a_message_or_malformed_and_nothing_else(data: bytes) -> None:
    with suppress(MalformedError):
        assert isinstance(decode(data), ControlMessage)


@given(st.integers(0, len(encode(REPORT)) - 1), st.integers(0, 255))
def test_a_damaged_message_is_a_message_or_malformed(place: int, value: int) -> None:
    data = bytearray(encode(REPORT))
    data[place] = value
    with suppress(MalformedError):
        assert isinstance(decode(bytes(data)), ControlMessage)
