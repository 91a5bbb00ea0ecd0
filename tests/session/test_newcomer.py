from __future__ import annotations

import pytest

from penstock.client.wanted import wanted
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Horizons,
    Lost,
    Migrate,
    MoveFailed,
    PublishAck,
    Refused,
    Settled,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from penstock.session.newcomer import Newcomer
from session.moving import ORDER, connected, horizon, message, moving, numbers, said, told, welcome

CONFIRMED = Subscribed(1, "TRUE", (), (("quotes", 10),))


def can_take_over(newcomer: Newcomer) -> bool:
    return newcomer.is_ready


def test_it_says_where_it_comes_from_and_asks_for_subscriptions_with_their_positions() -> None:
    resident, _ = connected()
    newcomer = moving(resident)
    hello, subscribe = said(newcomer)
    assert isinstance(hello, Hello)
    assert (hello.migration, hello.origin) == (7, "old")
    assert subscribe == Subscribe(1, "TRUE", (("quotes", 10),), resumes=True)


def test_it_is_ready_when_everything_is_in_force_and_every_stream_goes_on() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    newcomer.has_news = False
    assert not can_take_over(newcomer)
    told(newcomer, CONFIRMED)
    assert can_take_over(newcomer)
    assert newcomer.has_news
    inbox.positions.on_start("trades", 3)
    assert not can_take_over(newcomer)


def test_a_pubend_that_only_the_new_broker_cannot_reach_makes_it_wait() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, Subscribed(1, "TRUE", ("loose",), ()))
    assert not can_take_over(newcomer)
    inbox.pending = ("loose",)
    assert can_take_over(newcomer)
    told(newcomer, Subscribed(1, "TRUE", ("quotes",), ()))
    assert can_take_over(newcomer), "where there is a position it goes on from there"


def test_it_rescues_whatever_it_was_asked_for_with_all_positions() -> None:
    resident, inbox = connected()
    assert not resident.begin_move(ORDER).can_rescue, "nobody has welcomed the client there"
    newcomer = moving(resident)
    assert newcomer.can_rescue
    late = resident.subscribe(wanted("n > 3"))
    late.positions.on_start("trades", 3)
    assert newcomer.can_rescue, "what was not asked for yet will be, with its positions"
    told(resident, Subscribed(1, "TRUE", (), (("trades", 3),)))
    assert inbox.positions.known() == {"quotes": 10, "trades": 3}
    assert not newcomer.can_rescue


def test_a_subscription_made_meanwhile_is_asked_for_when_the_old_broker_has_it() -> None:
    resident, _ = connected()
    newcomer = moving(resident)
    told(newcomer, CONFIRMED)
    late = resident.subscribe(wanted("n > 3"))
    said(newcomer)
    assert not can_take_over(newcomer)
    told(resident, Subscribed(2, "n > 3", (), (("quotes", 12),)))
    assert said(newcomer) == [Subscribe(2, "n > 3", (("quotes", 12),), resumes=True)]
    told(newcomer, Subscribed(2, "n > 3"))
    assert can_take_over(newcomer)
    resident.unsubscribe(late)
    assert said(newcomer) == [Unsubscribe(2)]
    assert can_take_over(newcomer)


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ((Goodbye("full", "no room"),), "no room"),
        ((Refused("subscribe", 1, "has its limit"),), "it refuses a subscription: has its limit"),
        ((Subscribed(1, "n > 3"),), "subscription 1 is granted only n > 3"),
        ((Lost(1, 10, 12, (1,)),), "it cannot go on from the positions of this client"),
    ],
)
def test_whatever_does_not_fit_is_a_reason_to_stay(frames: tuple[Frame, ...], problem: str) -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, *frames)
    assert newcomer.problem == problem
    assert not newcomer.is_up
    assert inbox.state == "ready"


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        (welcome("another"), "broker another of overlay o answers there"),
        (welcome("new", overlay="x"), "broker new of overlay x answers there"),
        (welcome("new"), ""),
    ],
)
def test_not_every_broker_will_do_but_it_needs_no_pubends_of_its_own(greeting: Frame, problem: str) -> None:
    resident, _ = connected(pubends=("old.a",))
    newcomer = resident.begin_move(ORDER)
    newcomer.on_connected(now_ms=0)
    told(newcomer, greeting)
    assert newcomer.problem == problem


def test_a_stream_that_begins_ahead_is_a_reason_to_stay_and_one_that_is_new_is_not() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, CONFIRMED, horizon(10, 2), horizon(30, 3))
    assert can_take_over(newcomer)
    assert inbox.positions.known() == {"quotes": 10}, "the old broker may still begin it elsewhere"
    resident.take_over()
    assert inbox.positions.known() == {"quotes": 10, "loose": 30}
    resident, inbox = connected()
    newcomer = moving(resident)
    told(resident, Subscribed(1, "TRUE", (), (("loose", 20),)))
    told(newcomer, horizon(21, 3))
    assert newcomer.problem == "its stream of loose starts past this client's position"


def test_horizons_move_what_has_been_named_there() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, horizon(10, 2), message(12, 2), horizon(20, 2))
    assert inbox.positions.known() == {"quotes": 20}
    assert numbers(inbox) == [9, 12]


def test_horizons_of_what_has_not_begun_there_move_nothing() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    # Of all subscriptions that the new broker serves already: this one is not among them.
    told(newcomer, Horizons(2, 20, b"", present=20))
    assert inbox.positions.known() == {"quotes": 10}
    told(newcomer, horizon(10, 2), Horizons(2, 20, b"", present=20))
    assert inbox.positions.known() == {"quotes": 20}


def test_who_takes_a_durable_name_over_later_ends_the_subscription() -> None:
    resident, inbox = connected(durable="bill")
    newcomer = moving(resident)
    changes = told(newcomer, Refused("subscribe", 1, "durable subscription 'bill' was taken over or forgotten"))
    assert (inbox.is_taken_over, newcomer.problem, changes.inboxes) == (True, "", {1: inbox})
    assert [str(event) for event in changes.events] == [
        "the broker refused the subscription to TRUE: durable subscription 'bill' was taken over or forgotten"
    ]
    assert can_take_over(newcomer)


def test_an_order_to_go_on_at_once_is_refused_and_nonsense_is_a_protocol_error() -> None:
    newcomer = moving(connected()[0])
    told(newcomer, Heartbeat(), Migrate(8, 1, "third", ""))
    assert said(newcomer)[-1] == MoveFailed(8, "the client is just coming")
    with pytest.raises(ProtocolError, match="does not send PublishAck"):
        told(newcomer, PublishAck(1, 1))
    with pytest.raises(ProtocolError, match="pubend number 9"):
        told(newcomer, message(1, 9))
    fresh = connected()[0].begin_move(ORDER)
    with pytest.raises(ProtocolError, match="not a welcome"):
        told(fresh, Heartbeat())


def test_it_beats_and_notices_silence() -> None:
    newcomer = moving(connected()[0])
    said(newcomer)
    assert newcomer.next_deadline() == 1_100
    assert newcomer.take_frames(now_ms=1_100) == [Heartbeat(1_100)]
    assert not newcomer.is_silent(now_ms=5_099)
    assert newcomer.is_silent(now_ms=5_100)
    newcomer.on_reading(now_ms=5_100)
    assert not newcomer.is_silent(now_ms=5_100)
    newcomer.writable = False
    assert newcomer.take_frames(now_ms=9_000) == []
    newcomer.on_disconnected()
    assert newcomer.problem == "the connection was lost"


def test_nothing_counts_that_comes_behind_ticks_that_are_lost_there() -> None:
    """The old broker may still have them: if a later message counted, they would pass for repetitions."""
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, CONFIRMED, horizon(10, 2), Lost(2, 12, 14, (1,)), message(15, 2), message(16, 2))
    assert newcomer.problem
    assert inbox.positions.known() == {"quotes": 10}
    resident.give_up_move()
    told(resident, message(12), message(15), message(16))
    assert numbers(inbox) == [9, 12, 15, 16]


def test_what_was_acknowledged_before_does_not_come_by_either_line() -> None:
    resident, inbox = connected(durable="bill")
    newcomer = moving(resident)
    told(newcomer, Settled(1, 2, 0, (12, 14)), Settled(9, 2, 0, (13,)), CONFIRMED, horizon(10, 2))
    for tick in (11, 12, 13):
        told(newcomer, message(tick, 2))
    assert [each.tick for each in inbox.queue] == [9, 11, 13]
    resident.on_frames([message(14)], now_ms=0, wall_ms=0)
    assert [each.tick for each in inbox.queue] == [9, 11, 13]
    assert inbox.positions.known()["quotes"] == 15
    assert newcomer.problem == ""
