"""What an application publishes waits for room, and it is written down what became of each message."""

from __future__ import annotations

import pytest

from penstock.protocol.frames import Publish, PublishAck, Refused, Rewind
from penstock.sim.sending import Sending
from sim.scripted import Play


def publish(play: Play, *pubends: str) -> Sending:
    for place, pubend in enumerate(pubends):
        play.client.publish({"a": place}, pubend=pubend)
    play.run(10)
    return play.client.sending


def test_what_was_sent_is_known_with_its_pubend() -> None:
    play = Play(best_effort=("q",))
    sending = publish(play, "p", "q", "")
    assert [(each.pubend, each.is_named) for each in sending.published] == [("p", True), ("q", True), ("p", False)]
    assert [each.is_guaranteed for each in sending.published] == [True, False, True]


def test_acknowledged_and_refused_messages_are_told_apart() -> None:
    play = Play()
    sending = publish(play, "p", "p", "p")
    play.say(Refused("publish", 2, "no", 1, "p"), Rewind(2, 1, "p"))
    play.say(PublishAck(3, 0, "p"))
    assert [each.is_refused for each in sending.published] == [False, True, False]
    assert [each.acked_us is not None for each in sending.published] == [True, False, True]
    assert (sending.acknowledged, play.client.unsettled) == (2, 0)


def test_a_message_that_is_refused_after_it_was_acknowledged_is_a_bug() -> None:
    play = Play()
    sending = publish(play, "p", "p")
    play.say(PublishAck(1, 0, "p"))
    sending.published[1].acked_us = 1
    with pytest.raises(AssertionError, match="message 2 to p was acknowledged before"):
        play.say(Refused("publish", 2, "no", 1, "p"), Rewind(2, 1, "p"), PublishAck(1, 0, "p"))


def test_what_nobody_can_know_is_counted_when_the_client_is_back() -> None:
    play = Play(best_effort=("q",))
    sending = publish(play, "p", "q")
    play.reconnect()
    assert [each.is_unconfirmed for each in sending.published] == [False, True]
    assert (sending.unconfirmed, play.client.unsettled) == (1, 1)
    play.say(PublishAck(1, 0, "p"))
    assert play.client.unsettled == 0
    assert [each.acked_us is not None for each in sending.published] == [True, False]


def test_a_message_is_sent_when_it_leaves_for_the_first_time() -> None:
    play = Play()
    sending = publish(play, "p")
    sent_us = sending.published[0].sent_us
    play.reconnect()
    assert len(play.broker.all(Publish)) == 1
    assert sending.published[0].sent_us == sent_us


def test_an_acknowledgement_of_what_was_never_sent_is_a_bug() -> None:
    play = Play()
    publish(play, "p")
    with pytest.raises(AssertionError, match="acknowledges message 2"):
        play.say(PublishAck(2, 0, "p"))
