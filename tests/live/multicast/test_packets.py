from __future__ import annotations

import pytest

from penstock.ajil.errors import MalformedError
from penstock.live.multicast.packets import PAYLOAD_BYTES_MAX, Packet, decode_packet, encode_packet
from penstock.model.errors import LimitError


def test_a_packet_comes_back_as_it_was() -> None:
    assert decode_packet("g", encode_packet(b"n1", b"hello")) == Packet("g", "n1", b"hello")
    assert decode_packet("g", encode_packet(b"", b"")) == Packet("g", "", b"")


@pytest.mark.parametrize("data", [b"", b"Ad", b"Ad1", b"xyz\x00", b"Ad1\x05abc", b"Ad1\x02\xff\xfe"])
def test_what_is_no_packet_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        decode_packet("g", data)


def test_a_payload_is_bounded() -> None:
    with pytest.raises(LimitError):
        encode_packet(b"n1", bytes(PAYLOAD_BYTES_MAX + 1))
