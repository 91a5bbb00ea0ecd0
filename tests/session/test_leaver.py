from __future__ import annotations

import pytest

from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame, Goodbye, PubendNames, Subscribed
from penstock.session.inbox import Inbox
from penstock.session.leaver import Leaver
from session.moving import connected, message, moving, numbers, told


def leaving() -> tuple[Leaver, Inbox]:
    resident, inbox = connected()
    told(moving(resident), Subscribed(1, "TRUE"))
    leaver, _ = resident.take_over()
    assert leaver is not None
    return leaver, inbox


def test_what_is_left_is_taken_until_the_broker_says_goodbye() -> None:
    leaver, inbox = leaving()
    frames: tuple[Frame, ...] = (
        message(1, 1),
        PubendNames(((2, "more"),)),
        message(4, 2),
        message(11),
        Goodbye("moved", "goes on"),
    )
    changes = leaver.on_frames(frames, now_ms=0, wall_ms=0)
    assert (numbers(inbox, "loose"), numbers(inbox, "more"), numbers(inbox)) == ([1], [4], [9, 11])
    assert changes.goodbye == Goodbye("moved", "goes on")
    assert list(changes.inboxes) == [1]


def test_it_has_nothing_to_say_but_its_last_words_and_does_not_watch_the_time() -> None:
    leaver, _ = leaving()
    assert len(leaver.take_frames(now_ms=0)) == 1
    assert leaver.take_frames(now_ms=99_999) == []
    assert leaver.next_deadline() is None
    assert not leaver.is_silent(now_ms=99_999)
    assert leaver.reading
    leaver.on_reading(now_ms=0)
    assert not leaver.on_disconnected().lost
    with pytest.raises(AssertionError):
        leaver.on_connected(now_ms=0)
    with pytest.raises(ProtocolError, match="number 9"):
        leaver.on_frames([message(1, 9)], now_ms=0, wall_ms=0)
