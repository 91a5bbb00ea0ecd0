"""What a session tells of what happens to it."""

from __future__ import annotations

import pytest

from penstock.protocol import frames as f
from penstock.session.events import (
    ClientEvent,
    Connected,
    ConnectFailed,
    Disconnected,
    EventsDropped,
    GaveUp,
    HeldBack,
    Moved,
    Refusals,
    Refused,
    Released,
    Unanswered,
)
from penstock.session.inbox import Wanted
from penstock.session.positions import LostTicks
from penstock.session.settings import ClientSettings
from session.moving import ORDER
from session.stage import GUARANTEED, LOOSE, OLD, Stage, subscribed_stage


def told(stage: Stage) -> list[ClientEvent]:
    """What was told since the last time."""
    events = [event for changes in stage.changes for event in changes.events]
    stage.changes.clear()
    return events


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Connected("b", OLD), f"connected to broker b at {OLD}"),
        (Connected("b", OLD, 1_500), f"connected to broker b at {OLD}, back after 1.5 s"),
        (Disconnected("b", OLD, "cut", 50), f"lost the connection to broker b at {OLD}: cut; next try in 0.1 s"),
        (ConnectFailed("x: no", 200), "no broker answers: x: no; next try in 0.2 s"),
        (Moved("a", "b", OLD, "why"), f"moved from broker a to broker b at {OLD}: why"),
        (Refused("subscription", "TRUE", "no"), "the broker refused the subscription to TRUE: no"),
        (Refused("messages", "q", "no"), "a message to pubend q refused: no"),
        (Refused("messages", "q", "no", 1_000), "1,000 messages so far to pubend q refused: no"),
        (HeldBack("q", "disk full"), "messages to pubend q are held back: disk full"),
        (Released("q"), "messages to pubend q are no longer held back"),
        (GaveUp("no broker"), "gave up: no broker"),
        (Unanswered("g", 1), "left group g before it was answered for one message, which may be handed out again"),
        (
            Unanswered("g", 1_200),
            "left group g before it was answered for 1,200 messages, which may be handed out again",
        ),
        (EventsDropped(1_200), "1,200 events were dropped, since nobody read them"),
        (LostTicks("q", 3, 4), "ticks 3 to 4 of pubend q are lost"),
    ],
)
def test_each_event_is_a_sentence(event: ClientEvent, sentence: str) -> None:
    assert str(event) == sentence


def test_connections_are_told_from_the_first_to_the_end() -> None:
    stage = Stage(settings=ClientSettings(give_up_ms=5_000, backoff_first_ms=100, backoff_max_ms=100))
    stage.lose(stage.open(), "Connection refused")
    (failed,) = told(stage)
    assert isinstance(failed, ConnectFailed)
    assert failed.problem == f"{OLD}: Connection refused"
    assert 50 <= failed.retry_ms <= 100
    stage.run(failed.retry_ms)
    stage.welcome(stage.line)
    assert told(stage) == [Connected("old", OLD)]
    stage.lose(stage.line, "cut")
    (lost,) = told(stage)
    assert isinstance(lost, Disconnected)
    assert (lost.broker, lost.address, lost.reason) == ("old", OLD, "cut")
    stage.run(2_000)
    stage.welcome(stage.line, "again")
    assert told(stage) == [Connected("again", OLD, 2_000)]
    stage.tell(stage.line, f.Goodbye("refused", "no more"))
    assert told(stage) == [GaveUp("the broker refused to go on: no more")]


def test_a_move_is_told_with_its_reason() -> None:
    stage, _ = subscribed_stage()
    stage.tell(1, ORDER)
    stage.welcome(2, "new")
    stage.tell(2, f.Subscribed(1, "TRUE"))
    told(stage)
    stage.run(1_000)
    assert told(stage) == [Moved("old", "new", ORDER.address, "the former one asked for it")]


def test_a_client_whose_broker_dies_during_a_move_is_at_the_new_one() -> None:
    stage, _ = subscribed_stage()
    stage.tell(1, ORDER)
    stage.welcome(2, "new")
    stage.tell(2, f.Subscribed(1, "TRUE"))
    told(stage)
    stage.lose(1)
    assert told(stage) == [Moved("old", "new", ORDER.address, "the former one was lost")]


def test_a_client_that_closes_tells_nothing() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    told(stage)
    stage.react(stage.session.close(now_ms=stage.now_ms))
    assert told(stage) == []


def test_a_pubend_that_holds_back_is_told_once_and_so_is_its_end() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    for pubend in (GUARANTEED, LOOSE):
        stage.publish(b"x", pubend)
    told(stage)
    stage.tell(1, f.HeldBack("slow", 100, GUARANTEED))
    stage.tell(1, f.HeldBack("slower", 50, GUARANTEED), f.HeldBack("", 0, LOOSE))
    stage.tell(1, f.HeldBack("", 0, GUARANTEED), f.HeldBack("", 0, GUARANTEED))
    assert told(stage) == [HeldBack(GUARANTEED, "slow"), Released(GUARANTEED)]


def test_a_refused_subscription_is_told() -> None:
    stage = Stage()
    stage.welcome(stage.open())
    stage.session.subscribe(Wanted("volume > 5"))
    stage.pump()
    told(stage)
    stage.tell(1, f.Refused("subscribe", 1, "not for you"))
    assert told(stage) == [Refused("subscription", "volume > 5", "not for you")]


def test_refused_messages_are_told_by_the_first_and_then_counted() -> None:
    stage = Stage(settings=ClientSettings(linger_ms=0))
    stage.welcome(stage.open())
    for _ in range(12):
        stage.publish(b"x")
    stage.pump()
    told(stage)
    for number in range(1, 13):
        stage.tell(1, f.Refused("publish", number, "no", 1, GUARANTEED))
    assert told(stage) == [Refused("messages", GUARANTEED, "no", 1), Refused("messages", GUARANTEED, "no", 10)]


def test_a_broker_with_a_reason_for_each_message_cannot_make_the_client_remember_all() -> None:
    refusals = Refusals()
    events = [event for number in range(10_000) for event in refusals.add("q", f"reason {number}", 1)]
    assert len(refusals._counts) == 101
    assert len(events) == 104
    assert str(events[-1]) == "1,000 messages so far to pubend q refused: reason 1099, and other reasons"


def test_lost_ticks_and_events_do_not_get_lost_when_changes_are_joined() -> None:
    stage, _ = subscribed_stage()
    told(stage)
    stage.tell(1, f.Horizons(0, 5, (1).to_bytes(4), is_only=True, present=6))
    changes = stage.tell(1, f.Lost(0, 5, 7, (1,)))
    assert changes.missing == [LostTicks("quotes", 5, 7)]
