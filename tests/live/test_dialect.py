"""The native dialect of a connection."""

from __future__ import annotations

from penstock.live.dialect import Native, native_farewell
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Frame, Goodbye, Heartbeat


def test_frames_are_encoded_one_after_the_other() -> None:
    frames: list[Frame] = [Heartbeat(1), Heartbeat(2)]
    assert Native().encode(frames) == b"".join(map(encode_frame, frames))
    assert Native().encode(frames[:1]) == encode_frame(frames[0])


def test_a_long_reason_to_end_is_cut() -> None:
    assert Native().farewell("slow", "x" * 600) == native_farewell("slow", "x" * 600)
    assert native_farewell("slow", "x" * 600) == encode_frame(Goodbye("slow", "x" * 500))
