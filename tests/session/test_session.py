"""A session as its shell sees it: stimuli in, effects and news out, and when to wake it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from client.scripted import deliver
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Acknowledge,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    PublishAck,
    StatusRequest,
    Subscribed,
)
from penstock.session.inbox import Wanted
from penstock.session.settings import ClientSettings
from session.moving import horizon
from session.stage import GUARANTEED, OLD, Stage, subscribed_stage


def test_heartbeats_are_sent_when_nothing_else_is() -> None:
    stage = Stage()
    stage.welcome(stage.open(), heartbeat_ms=300)
    stage.run(1_000)
    assert len(stage.of(1, Heartbeat)) == 3


def test_a_silent_broker_is_given_up_after_five_heartbeats() -> None:
    stage = Stage()
    stage.welcome(stage.open(), heartbeat_ms=20)
    stage.run(99)
    assert stage.session.is_up
    stage.run(1)
    assert stage.of(1, Goodbye) == [Goodbye("silent", "the broker was silent for too long")]
    assert not stage.session.is_up


def test_silence_that_is_the_shells_own_doing_does_not_count() -> None:
    stage = Stage()
    stage.welcome(stage.open(), heartbeat_ms=20)
    stage.run(99)
    stage.session.on_reading(1, now_ms=stage.now_ms)
    stage.run(99)
    assert stage.session.is_up


def test_a_broker_that_breaks_the_protocol_is_told_so_and_asked_again() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    changes = stage.tell(1, Hello(1, "broker", "b", "o"))
    assert changes.lost
    assert stage.of(1, Goodbye) == [Goodbye("protocol", "a broker does not send Hello to a client")]
    stage.run(100)
    assert stage.line == 2


def test_frames_that_turn_out_to_be_none_are_a_broken_protocol() -> None:
    stage, inbox = subscribed_stage()

    def decoded() -> Iterator[Frame]:
        yield deliver(1)
        raise ProtocolError("no frame")

    stage.react(stage.session.on_frames(1, decoded(), now_ms=stage.now_ms, wall_ms=0))
    assert stage.of(1, Goodbye) == [Goodbye("protocol", "no frame")]
    assert len(inbox.queue) == 1
    assert stage.changes[-2].inboxes == {1: inbox}, "who got something before is woken"


def test_what_comes_on_a_line_that_has_ended_is_ignored() -> None:
    stage, inbox = subscribed_stage()
    stage.is_slow = True
    stage.tell(1, Goodbye("shutdown", "bye"))
    stage.tell(1, deliver(1))
    stage.session.on_connected(1, now_ms=stage.now_ms)
    stage.session.on_writable(1, is_writable=True)
    stage.session.on_reading(1, now_ms=stage.now_ms)
    assert not inbox.queue
    assert stage.session.take_frames(1, now_ms=stage.now_ms) == []
    stage.lose(1)
    assert stage.session.on_lost(1, "again", now_ms=stage.now_ms).effects == []


def test_who_does_not_take_the_last_words_is_cut_off() -> None:
    stage, _ = subscribed_stage(ClientSettings(close_ms=40))
    stage.is_slow = True
    stage.react(stage.session.close(now_ms=stage.now_ms))
    assert stage.of(1, Goodbye) == [Goodbye("closed", "the client is done")]
    stage.run(39)
    assert 1 not in stage.gone
    stage.run(1)
    assert 1 in stage.gone


def test_a_session_that_is_closed_does_not_come_back() -> None:
    stage, _ = subscribed_stage()
    stage.react(stage.session.close(now_ms=stage.now_ms))
    stage.run(100_000)
    assert len(stage.dialled) == 1
    assert stage.end is None


def test_a_session_that_is_closed_while_it_connects_gives_that_up() -> None:
    stage = Stage()
    stage.open()
    stage.react(stage.session.close(now_ms=stage.now_ms))
    assert 1 in stage.gone
    assert stage.session.next_deadline() is None


def test_a_session_that_is_cut_waits_for_nobody() -> None:
    stage, _ = subscribed_stage()
    stage.is_slow = True
    stage.react(stage.session.close(now_ms=stage.now_ms))
    stage.react(stage.session.abort(now_ms=stage.now_ms))
    assert 1 in stage.gone


def test_last_words_acknowledge_what_was_read() -> None:
    stage, inbox = subscribed_stage(durable="app")
    stage.tell(1, Subscribed(1, "TRUE", (), (("quotes", 5),)), horizon(5), deliver(6))
    inbox.pop()
    stage.session.say_last_words(is_done=True)
    stage.pump()
    assert stage.of(1, Acknowledge)[-1] == Acknowledge(((0, 7),), 1)


def test_nothing_is_taken_while_the_transport_has_enough() -> None:
    stage = Stage(settings=ClientSettings(linger_ms=0))
    stage.welcome(stage.open())
    stage.session.on_writable(1, is_writable=False)
    stage.session.ask(StatusRequest, now_ms=stage.now_ms)
    stage.pump()
    assert stage.of(1, StatusRequest) == []
    stage.session.on_writable(1, is_writable=True)
    stage.pump()
    assert stage.of(1, StatusRequest) == [StatusRequest(1)]


def test_a_message_waits_for_others_as_long_as_it_may() -> None:
    stage = Stage(settings=ClientSettings(linger_ms=7))
    stage.welcome(stage.open())
    stage.publish(b"x", GUARANTEED)
    assert stage.session.next_deadline() == stage.now_ms + 7
    stage.run(7)
    assert stage.tell(1, PublishAck(1, 1, GUARANTEED)).publishing


def test_a_fork_leaves_the_lines_to_the_parent_and_has_dice_of_its_own() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, deliver(1))
    dice = Random(2)
    stage.session.on_forked(dice)
    stage.session.forget_connection()
    assert (stage.session.line, stage.session.next_deadline(), len(inbox.queue)) == (0, None, 0)
    stage.session.become("child", b"p" * 16)
    stage.open()
    stage.connect(stage.line)
    assert [(hello.name, hello.publisher) for hello in stage.of(2, Hello)] == [("child", b"p" * 16)]


def test_a_session_can_be_asked_how_it_is() -> None:
    stage = Stage()
    session = stage.session
    assert (session.line, session.address, session.is_up, session.welcome) == (0, None, False, None)
    stage.welcome(stage.open())
    assert (session.line, str(session.address), session.is_up, session.held_back) == (1, OLD, True, "")
    assert (session.received, session.repeated, session.reconnects, session.moves) == (0, 0, 0, 0)
    assert session.reading
    assert session.lag(session.subscribe(Wanted("TRUE"))) == {}


@pytest.mark.parametrize("turns", [1, 3])
def test_a_withdrawn_subscription_is_asked_for_no_more(turns: int) -> None:
    stage, inbox = subscribed_stage()
    for _ in range(turns):
        stage.session.unsubscribe(inbox)
    stage.lose(1)
    stage.run(100)
    stage.welcome(stage.line)
    assert [type(frame) for frame in stage.said[2]] == [Hello]
