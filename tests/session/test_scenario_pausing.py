"""A paused subscription gets nothing, blocks nobody, and goes on where it was."""

from __future__ import annotations

import pytest

from client.scripted import body_of
from penstock.protocol import frames as f
from penstock.session.inbox import Inbox, Wanted
from penstock.session.settings import ClientSettings
from session.moving import ORDER
from session.stage import Stage, subscribed_stage


def message(tick: int, *numbers: int, pubend: int = 0) -> f.Deliver:
    return f.Deliver(pubend, [tick], [b"".join(each.to_bytes(4) for each in numbers)], [body_of(tick)])


def begun(number: int, tick: int) -> f.Horizons:
    return f.Horizons(0, tick, number.to_bytes(4), is_only=True, present=tick)


def ticks(inbox: Inbox) -> list[int]:
    return [each.tick for each in inbox.pop_many()]


def state(inbox: Inbox) -> str:
    return inbox.state


def pause(stage: Stage, inbox: Inbox) -> None:
    stage.session.pause(inbox)
    stage.pump()


def resume(stage: Stage, inbox: Inbox) -> None:
    stage.session.resume(inbox)
    stage.pump()


def test_what_was_queued_may_be_read_and_the_rest_comes_from_the_position() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, begun(1, 3), message(3, 1), message(4, 1))
    pause(stage, inbox)
    assert state(inbox) == "paused"
    assert stage.of(1, f.Unsubscribe) == [f.Unsubscribe(1)]
    # On its way, and told to the old number.
    stage.tell(1, message(5, 1), f.Horizons(0, 9, present=9), f.Lost(0, 6, 7, (1,)), f.Unsubscribed(1), message(8, 1))
    assert ticks(inbox) == [3, 4]
    assert inbox.positions.known() == {"quotes": 5}
    resume(stage, inbox)
    (asked,) = stage.of(1, f.Subscribe)[1:]
    assert (asked.number, asked.positions, asked.resumes) == (2, (("quotes", 5),), True)
    # Overtaken by the confirmation, and still not what comes next.
    stage.tell(1, f.Subscribed(2, "TRUE"), message(9, 1), f.Horizons(0, 12, present=12))
    assert ticks(inbox) == []
    stage.tell(1, begun(2, 5), message(5, 2), message(8, 2))
    assert ticks(inbox) == [5, 8]
    assert state(inbox) == "ready"


def test_pausing_and_resuming_twice_is_the_same_as_once() -> None:
    stage, inbox = subscribed_stage()
    for _ in range(2):
        pause(stage, inbox)
    for _ in range(2):
        resume(stage, inbox)
    assert len(stage.of(1, f.Unsubscribe)) == 1
    assert len(stage.of(1, f.Subscribe)) == 2


def test_a_paused_subscription_does_not_block_the_others_however_full_it_is() -> None:
    stage, inbox = subscribed_stage(ClientSettings(queue_messages=2))
    other = stage.session.subscribe(Wanted("TRUE"))
    stage.pump()
    stage.tell(1, f.Subscribed(2, "TRUE"), begun(1, 1), begun(2, 1), message(1, 1), message(2, 1))
    readings = [stage.session.reading, stage.session.pause(inbox), stage.session.reading]
    stage.tell(1, message(3, 1, 2))
    assert ticks(other) == [3]
    readings.append(stage.session.reading)
    resume(stage, inbox)
    readings.append(stage.session.reading)
    assert readings == [False, True, True, True, False]
    assert ticks(inbox) == [1, 2]
    assert stage.session.on_taken(inbox)


def test_a_reconnect_leaves_it_paused() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, begun(1, 3), message(3, 1))
    pause(stage, inbox)
    stage.lose(1)
    stage.run(1_000)
    stage.welcome(stage.line, "other")
    assert inbox.state == "paused"
    assert stage.of(stage.line, f.Subscribe) == []
    resume(stage, inbox)
    (asked,) = stage.of(stage.line, f.Subscribe)
    assert asked.positions == (("quotes", 4),)


def test_one_that_is_paused_and_resumed_without_a_connection_is_asked_for_once() -> None:
    stage, inbox = subscribed_stage()
    stage.lose(1)
    pause(stage, inbox)
    resume(stage, inbox)
    stage.run(1_000)
    stage.welcome(stage.line, "other")
    assert [each.number for each in stage.of(stage.line, f.Subscribe)] == [2]


def test_a_move_leaves_it_paused_and_does_not_wait_for_it() -> None:
    stage, inbox = subscribed_stage()
    pause(stage, inbox)
    stage.tell(1, ORDER)
    stage.welcome(2, "new")
    stage.run(1_000)
    assert stage.session.moves == 1
    assert stage.of(2, f.Subscribe) == []
    assert inbox.state == "paused"
    resume(stage, inbox)
    assert [each.number for each in stage.of(2, f.Subscribe)] == [2]


def test_one_that_is_paused_during_a_move_is_withdrawn_from_both_brokers() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, ORDER)
    stage.welcome(2, "new")
    assert stage.of(2, f.Subscribe)
    pause(stage, inbox)
    assert stage.of(1, f.Unsubscribe) == stage.of(2, f.Unsubscribe) == [f.Unsubscribe(1)]
    stage.run(1_000)
    assert stage.session.moves == 1
    stage.tell(2, message(5, 1))
    assert ticks(inbox) == []


def test_a_durable_one_acknowledges_what_was_read_and_claims_its_name_again() -> None:
    stage, inbox = subscribed_stage(ClientSettings(acknowledge_ms=10**6), durable="bill")
    stage.tell(1, begun(1, 3), message(3, 1), message(4, 1))
    stage.run(1)
    inbox.pop()
    inbox.pop()
    pause(stage, inbox)
    # The second one is still in hand.
    acknowledged = stage.of(1, f.Acknowledge)
    assert acknowledged[-1] == f.Acknowledge(((0, 4),), 1)
    assert inbox.receipts is not None
    inbox.receipts.settle()
    stage.session.on_moved(inbox)
    stage.run(5_000)
    assert stage.of(1, f.Acknowledge) == acknowledged
    resume(stage, inbox)
    assert stage.of(1, f.Subscribe)[-1].durable == "bill"
    stage.tell(1, f.Subscribed(2, "TRUE"))
    stage.session.say_last_words(is_done=False)
    stage.pump()
    assert stage.of(1, f.Acknowledge)[-1] == f.Acknowledge(((0, 5),), 2)


@pytest.mark.parametrize("is_up", [True, False])
def test_a_paused_one_may_be_closed(is_up: bool) -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, begun(1, 3), message(3, 1))
    pause(stage, inbox)
    if not is_up:
        stage.lose(1)
    stage.session.unsubscribe(inbox)
    stage.pump()
    assert inbox.state == "closed"
    assert len(stage.of(1, f.Unsubscribe)) == 1
    resume(stage, inbox)
    assert inbox.state == "closed"
    assert inbox.read_positions() == {"quotes": 3}


def test_what_waits_in_a_paused_one_belongs_to_the_parent_of_a_fork() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, begun(1, 3), message(3, 1))
    pause(stage, inbox)
    stage.session.forget_connection()
    assert not inbox.queue
