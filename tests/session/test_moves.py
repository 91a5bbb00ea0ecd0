from __future__ import annotations

from penstock.client.wanted import wanted
from penstock.protocol.frames import (
    Acknowledge,
    Horizons,
    Moved,
    MoveFailed,
    PubendNames,
    Refused,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
    SurveyReply,
    SurveyRequest,
)
from penstock.session.changes import Changes
from penstock.session.inbox import Wanted
from penstock.session.inboxes import Inboxes
from penstock.session.moves import Moves, Subscribing
from penstock.session.settings import ClientSettings
from session.moving import ORDER, connected, horizon, message, moving, numbers, said, told, welcome

CONFIRMED = Subscribed(1, "TRUE", (), (("quotes", 10),))
TAKEN = Refused("subscribe", 1, "durable subscription 'bill' was taken over or forgotten")


def test_the_new_connection_takes_over_and_both_brokers_are_told() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    said(newcomer)
    told(newcomer, CONFIRMED, horizon(10, 2))
    leaver, changes = resident.take_over()
    assert leaver is not None
    assert leaver.take_frames(now_ms=0) == [Moved(7)]
    assert said(resident) == [Moved(7)]
    assert (resident.welcome.broker if resident.welcome else "", inbox.state, resident.moves.count) == (
        "new",
        "ready",
        1,
    )
    assert (changes.lost, resident.is_up) == (False, True)
    told(resident, message(12, 2))
    assert numbers(inbox) == [9, 12]
    resident.check_invariants()


def test_streams_that_had_begun_there_go_on_moving_with_silence() -> None:
    resident, inbox = connected()
    told(moving(resident), CONFIRMED, horizon(10, 2))
    resident.take_over()
    told(resident, Horizons(2, 20, b"", present=20))
    assert inbox.positions.known() == {"quotes": 20}


def test_what_the_application_waits_for_is_asked_again_there() -> None:
    resident, _ = connected()
    number = resident.ask(StatusRequest, now_ms=0)
    answered = resident.ask(StatusRequest, now_ms=0)
    told(resident, StatusReply(answered, b"{}"))
    told(moving(resident), CONFIRMED)
    resident.take_over()
    assert said(resident)[-1] == StatusRequest(number)


def test_if_the_old_broker_is_lost_the_new_one_takes_over_as_it_is() -> None:
    resident, inbox = connected()
    moving(resident)
    resident.on_disconnected()
    late = resident.subscribe(wanted("n > 3"))
    leaver, _ = resident.take_over()
    assert leaver is None
    states: list[str] = [inbox.state]
    asked = [frame for frame in said(resident) if isinstance(frame, Subscribe)]
    assert [frame.number for frame in asked] == [1, late.number]
    told(resident, CONFIRMED)
    assert [*states, inbox.state] == ["asked", "ready"]


def test_a_durable_name_that_went_ahead_is_no_take_over_and_is_claimed_back_if_the_client_stays() -> None:
    for is_told_late in (False, True):
        resident, inbox = connected(durable="bill")
        newcomer = moving(resident)
        if not is_told_late:
            told(resident, TAKEN)
            assert inbox.state == "ready"
        told(newcomer, message(12, 2))
        must_come_back = resident.give_up_move()
        resident.refuse_move(ORDER, "nobody there")
        if is_told_late:
            assert not must_come_back
            must_come_back = told(resident, TAKEN).must_come_back
        assert must_come_back
        assert said(resident) == [MoveFailed(7, "nobody there")]
        resident.on_disconnected()
        resident.on_connected(now_ms=200)
        told(resident, welcome("old"))
        again = [frame for frame in said(resident) if isinstance(frame, Subscribe)]
        assert again == [Subscribe(1, "TRUE", (("quotes", 13),), resumes=True, durable="bill")]
        told(resident, Subscribed(1, "TRUE"))
        told(resident, TAKEN)
        assert inbox.is_taken_over, "the next time it is somebody else"


def test_what_was_read_is_acknowledged_to_the_new_broker() -> None:
    resident, inbox = connected(durable="bill")
    newcomer = moving(resident)
    told(newcomer, CONFIRMED, horizon(10, 2))
    resident.take_over()
    said(resident)
    inbox.pop()
    assert inbox.receipts is not None
    inbox.receipts.settle()
    resident.on_moved(inbox)
    assert said(resident) == [Acknowledge(((2, 10),), 1)]


def test_a_client_that_stays_drops_what_came_only_over_the_new_connection_and_goes_on() -> None:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, message(3, 3), message(11, 2))
    resident.give_up_move()
    told(resident, message(11), message(12), message(3, 1))
    assert numbers(inbox) == [9, 11, 12]
    assert numbers(inbox, "loose") == [3]
    resident.check_invariants()


def test_a_subscription_comes_into_force_and_is_refused_later() -> None:
    inboxes = Inboxes(ClientSettings())
    subscribing = Subscribing(inboxes, Moves(inboxes))
    inbox = inboxes.add(wanted("TRUE"))
    changes = Changes()
    subscribing.on_subscribed(Subscribed(inbox.number, "a = 1"), changes)
    assert (inbox.state, inbox.granted, changes.inboxes) == ("ready", "a = 1", {inbox.number: inbox})
    subscribing.on_refused(Refused("subscribe", inbox.number, "not any more"), changes)
    assert (inbox.state, inbox.reason) == ("refused", "not any more")
    assert inboxes.get(inbox.number) is None


def test_answers_about_what_is_not_there_change_nothing() -> None:
    inboxes = Inboxes(ClientSettings())
    subscribing = Subscribing(inboxes, Moves(inboxes))
    changes = Changes()
    subscribing.on_subscribed(Subscribed(7, "TRUE"), changes)
    subscribing.on_refused(Refused("subscribe", 7, "no"), changes)
    subscribing.end(7, changes)
    assert changes == Changes()


def test_what_waited_for_a_subscription_to_be_named_wakes_it_and_nobody_else_gets_theirs() -> None:
    resident, one = connected()
    two = resident.subscribe(wanted("TRUE"))
    told(resident, Subscribed(2, "TRUE"))
    newcomer = moving(resident)
    told(newcomer, Subscribed(1, "TRUE", (), (("quotes", 10),)), Subscribed(2, "TRUE"))
    resident.take_over()
    told(resident, PubendNames(((4, "trades"),)), message(20, 4, 1, 2))
    assert numbers(one, "trades") == numbers(two, "trades") == []
    changes = told(resident, horizon(20, 4, 1))
    assert (numbers(one, "trades"), [*changes.inboxes]) == ([20], [1])
    assert numbers(two, "trades") == [], "the old broker may still have something before that"
    assert [*told(resident, horizon(20, 4, 2)).inboxes] == [2]


def test_a_scan_for_last_values_goes_on_at_the_broker_that_rescues_the_client() -> None:
    resident, _ = connected()
    moving(resident)
    inbox = resident.subscribe(Wanted("TRUE", otherwise=0, last_by="n"))
    assert said(resident)[-1] == SurveyRequest(1, "n")
    resident.on_disconnected()
    resident.take_over()
    frames = said(resident)
    assert SurveyRequest(2, "n") in frames
    assert not [each for each in frames if isinstance(each, Subscribe) and each.number == inbox.number]


def test_a_scan_for_last_values_goes_on_at_the_new_broker() -> None:
    resident, _ = connected()
    moving(resident)
    inbox = resident.subscribe(Wanted("TRUE", otherwise=0, last_by="n"))
    said(resident)
    resident.take_over()
    frames = said(resident)
    assert SurveyRequest(1, "n") in frames
    assert not [each for each in frames if isinstance(each, Subscribe) and each.number == inbox.number]
    told(resident, SurveyReply(1))
    assert Subscribe(inbox.number, "TRUE", otherwise=0) in said(resident)
