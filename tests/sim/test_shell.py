"""A session in virtual time: its lines go over links, its deadlines over the clock."""

from __future__ import annotations

import pytest

from penstock.protocol.frames import Goodbye, Heartbeat, Hello, Subscribe
from sim.scripted import Play


def test_a_broker_that_is_down_is_called_again_until_it_is_up() -> None:
    play = Play()
    play.broker.is_up = False
    play.link.cut(loud=True)
    play.link.heal()
    play.run(3_000)
    was_connected = play.client.is_connected
    play.broker.is_up = True
    play.run(5_000)
    assert (was_connected, play.client.is_connected) == (False, True)


def test_an_attempt_over_a_broken_cable_succeeds_when_it_is_mended_in_time() -> None:
    play = Play()
    play.link.cut(loud=True)
    play.run(2_000)
    was_connected = play.client.is_connected
    play.link.heal()
    play.run(1_200)
    assert (was_connected, play.client.is_connected) == (False, True)


def test_a_broker_that_falls_silent_is_told_goodbye_and_called_again() -> None:
    play = Play()
    play.link.stall()
    play.run(5_500)
    was_connected = play.client.is_connected
    play.link.heal()
    play.run(2_000)
    assert (was_connected, play.client.is_connected, play.broker.welcomes) == (False, True, 2)


def test_what_a_client_says_arrives_in_that_order() -> None:
    play = Play()
    play.client.publish({"a": 1})
    play.client.subscribe("a = 1")
    play.run(1_100)
    kinds = [type(frame).__name__ for frame in play.broker.heard]
    assert kinds == ["Hello", "Publish", "Subscribe", "Heartbeat"]
    assert play.broker.all(Heartbeat)


def test_for_a_client_that_is_away_no_time_passes() -> None:
    play = Play()
    play.client.subscribe("a = 1")
    play.client.go_away(loud=True)
    play.run(60_000)
    away = play.client.is_connected, play.client.wants("b1")
    play.client.come_to("b1")
    play.run(200)
    assert (away, play.client.is_connected, play.client.wants("b1")) == ((False, False), True, True)
    assert play.broker.all(Subscribe)


def test_a_dead_client_answers_nobody() -> None:
    play = Play()
    play.client.die(loud=False)
    play.run(10_000)
    assert (play.client.is_up, play.broker.welcomes) == (False, 1)
    play.client.come_to("b1")
    play.run()
    assert (play.client.is_connected, play.broker.welcomes) == (True, 2)


def test_who_leaves_says_goodbye() -> None:
    play = Play()
    play.client.leave()
    play.run(10_000)
    assert play.broker.all(Goodbye) == [Goodbye("closed", "the client is done")]
    assert not play.client.is_up


def test_a_session_that_does_not_go_on_is_found_out() -> None:
    play = Play()
    play.client.session.next_deadline = lambda: 0  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="again and again"):
        play.run(2_000)


def test_a_client_has_one_identity_in_all_its_lives() -> None:
    play = Play()
    (first,) = play.broker.all(Hello)
    play.client.die(loud=True)
    play.client.come_to("b1")
    play.run()
    (second,) = play.broker.all(Hello)
    assert isinstance(first, Hello)
    assert isinstance(second, Hello)
    assert first.publisher == second.publisher != bytes(16)
