from __future__ import annotations

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import PROTOCOL_VERSION
from penstock.protocol.greetings import Hello


def test_a_client_says_by_which_migration_it_comes_and_whether_it_wants_to_stay() -> None:
    hello = Hello(PROTOCOL_VERSION, "client", "me", "o", migration=9, origin="sb1", pinned=True)
    assert list(FrameReader().feed(encode_frame(hello))) == [hello]


def test_unless_it_says_so_a_client_comes_by_itself_and_may_be_moved() -> None:
    hello = Hello(PROTOCOL_VERSION, "client", "me", "o")
    assert (hello.migration, hello.origin, hello.pinned) == (0, "", False)
