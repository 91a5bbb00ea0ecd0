from __future__ import annotations

import msgspec
import pytest

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.migration_frames import Migrate, Moved, MoveFailed


@pytest.mark.parametrize(
    "frame",
    [Migrate(7, 20, "sb2", "penstock://127.0.0.1:7004"), Moved(7), MoveFailed(7, "nobody answers")],
)
def test_each_frame_comes_out_as_it_went_in(frame: Migrate | Moved | MoveFailed) -> None:
    assert list(FrameReader().feed(encode_frame(frame))) == [frame]


@pytest.mark.parametrize("frame", [Moved(-1), Moved(2**63), MoveFailed(1, "x" * 501), Migrate(1, -1, "b", "")])
def test_numbers_and_texts_that_nobody_honest_sends_are_not_believed(frame: Migrate | Moved | MoveFailed) -> None:
    content = msgspec.msgpack.encode(frame)
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(len(content + b"0").to_bytes(4) + b"\0" + content))
