"""Frames of traces are what they say, and nothing else passes for one."""

from __future__ import annotations

import msgspec
import pytest

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.trace_frames import TraceAnswer, TraceQuestion, TraceReply, TraceRequest

ID = bytes(range(16))


@pytest.mark.parametrize(
    "frame",
    [
        TraceRequest(1, ID),
        TraceReply(1, b"{}"),
        TraceQuestion("b2", "b1", 2, ID, (1, 3), hops=4),
        TraceAnswer("b1", 2, b"answer", hops=255),
    ],
)
def test_frames_come_back_as_they_were(frame: TraceRequest | TraceReply | TraceQuestion | TraceAnswer) -> None:
    assert list(FrameReader().feed(encode_frame(frame))) == [frame]


@pytest.mark.parametrize("size", [0, 15, 17])
def test_an_identifier_has_sixteen_bytes(size: int) -> None:
    with pytest.raises(ProtocolError, match="malformed frame"):
        list(FrameReader().feed(encode_frame(TraceRequest(1, bytes(size)))))


def test_brokers_that_say_nothing_of_hops_are_understood() -> None:
    tagged = msgspec.msgpack.encode(["traceask", "b2", "b1", 2, ID, [1]])
    assert msgspec.msgpack.decode(tagged, type=TraceQuestion).hops == 0
