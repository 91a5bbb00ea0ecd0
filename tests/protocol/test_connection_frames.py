from __future__ import annotations

import msgspec
import pytest

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.connection_frames import Hello, Migrate, Moved, MoveFailed, Welcome
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import PROTOCOL_VERSION


def test_a_client_says_by_which_migration_it_comes_and_whether_it_wants_to_stay() -> None:
    hello = Hello(PROTOCOL_VERSION, "client", "me", "o", migration=9, origin="sb1", pinned=True)
    assert list(FrameReader().feed(encode_frame(hello))) == [hello]


def test_unless_it_says_so_a_client_comes_by_itself_and_may_be_moved() -> None:
    hello = Hello(PROTOCOL_VERSION, "client", "me", "o")
    assert (hello.migration, hello.origin, hello.pinned) == (0, "", False)


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


def test_a_client_is_welcomed_with_the_pubends_of_other_brokers_and_told_whether_these_are_all() -> None:
    places = (("pb.a", "pb", True), ("pb.b", "pb", False))
    welcome = Welcome(PROTOCOL_VERSION, "sb", "o", 1, 2, 3, 4, 5, others=places, is_complete=False)
    assert list(FrameReader().feed(encode_frame(welcome))) == [welcome]
    bare = Welcome(PROTOCOL_VERSION, "sb", "o", 1, 2, 3, 4, 5)
    assert (bare.others, bare.is_complete) == ((), True)
