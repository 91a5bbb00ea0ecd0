from __future__ import annotations

import pytest

from penstock.client.wanted import wanted
from penstock.protocol.frames import PubendNames, Subscribed
from penstock.session.inbox import Inbox
from penstock.session.inboxes import Inboxes
from penstock.session.newcomer import Newcomer
from penstock.session.overlap import Overlap
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings
from session.moving import ORDER, connected, horizon, message, moving, numbers, told

CONFIRMED = Subscribed(1, "TRUE", (), (("quotes", 10),))


def ready() -> tuple[Resident, Inbox, Newcomer]:
    resident, inbox = connected()
    newcomer = moving(resident)
    told(newcomer, CONFIRMED, horizon(10, 2))
    return resident, inbox, newcomer


def test_of_a_stream_with_positions_whoever_brings_the_next_message_is_believed() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, message(11, 2), message(12, 2))
    told(resident, message(11), message(12), message(13))
    told(newcomer, message(13, 2), message(14, 2))
    assert numbers(inbox) == [9, 11, 12, 13, 14]
    assert resident.repeated == 3


def test_what_has_no_positions_waits_for_the_end_of_the_old_connection_and_comes_once() -> None:
    resident, inbox, newcomer = ready()
    told(resident, message(1, 1))
    told(newcomer, message(2, 3), message(3, 3), message(4, 3))
    told(resident, message(2, 1))
    leaver, _ = resident.take_over()
    told(resident, message(5, 3))
    assert leaver is not None
    leaver.on_frames([], now_ms=0, wall_ms=0)
    assert numbers(inbox, "loose") == [1, 2]
    resident.end_overlap()
    assert numbers(inbox, "loose") == [1, 2, 3, 4, 5]
    told(resident, message(2, 3), message(6, 3))
    assert numbers(inbox, "loose") == [1, 2, 3, 4, 5, 6]
    resident.moves.finish()
    told(resident, message(7, 3))
    assert numbers(inbox, "loose") == [1, 2, 3, 4, 5, 6, 7]


def test_who_is_asked_to_move_again_at_once_still_knows_what_came_before() -> None:
    resident, inbox, _ = ready()
    told(resident, message(1, 1), message(2, 1))
    resident.take_over()
    resident.end_overlap()
    resident.begin_move(ORDER)
    told(resident, message(2, 3), message(3, 3))
    assert numbers(inbox, "loose") == [1, 2, 3], "the second one took longer over this connection"


def test_who_is_asked_to_move_again_at_once_and_stays_still_knows_what_came_before() -> None:
    resident, inbox, _ = ready()
    told(resident, message(1, 1), message(2, 1))
    resident.take_over()
    resident.end_overlap()
    told(resident, message(1, 3))
    moving(resident)
    resident.give_up_move()
    told(resident, message(2, 3), message(5, 3), message(3, 3))
    assert numbers(inbox, "loose") == [1, 2, 5], "the second one took longer over this connection"
    resident.moves.finish()
    told(resident, message(4, 3))
    assert numbers(inbox, "loose") == [1, 2, 5, 4], "after a while its pubend may have begun anew"


def test_a_pubend_that_turns_out_to_have_positions_gives_up_what_waits_of_it_in_order() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), message(31, 4))
    assert numbers(inbox, "trades") == []
    told(newcomer, horizon(30, 4), message(32, 4))
    assert numbers(inbox, "trades") == []
    _, changes = resident.take_over()
    assert numbers(inbox, "trades") == [31, 32]
    assert inbox.number in changes.inboxes
    told(resident, PubendNames(((6, "late"),)), message(41, 6), horizon(40, 6), horizon(45, 6), message(46, 6))
    assert numbers(inbox, "late") == [41, 46]


def test_where_the_old_broker_begins_a_stream_counts_while_it_is_there() -> None:
    """The new one had begun it before: believing that, and the old one's horizons, would leave a hole."""
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(30, 4), message(31, 4), message(41, 4))
    told(resident, PubendNames(((6, "trades"),)), horizon(40, 6))
    assert (inbox.starts["trades"], numbers(inbox, "trades")) == (40, [41])
    told(newcomer, message(42, 4))
    told(resident, message(41, 6), message(42, 6), message(43, 6))
    assert numbers(inbox, "trades") == [41, 42, 43]
    assert newcomer.problem == ""


def test_a_stream_that_the_old_broker_begins_earlier_is_a_reason_to_stay() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(40, 4), message(41, 4))
    told(resident, PubendNames(((6, "trades"),)), horizon(30, 6), message(31, 6), message(41, 6))
    assert newcomer.problem == "its stream of trades starts past this client's position"
    resident.give_up_move()
    assert numbers(inbox, "trades") == [31, 41]


def test_a_stream_that_the_old_broker_has_brought_but_not_named_is_waited_for() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(40, 4))
    told(resident, PubendNames(((6, "trades"),)))
    states = []
    for tick in (31, 39):
        states.append((newcomer.is_ready, newcomer.can_rescue))
        told(resident, message(tick, 6))
    states.append((newcomer.is_ready, newcomer.can_rescue))
    assert states == [(True, True), (False, False), (True, True)]
    resident.take_over()
    told(resident, message(41, 4))
    assert numbers(inbox, "trades") == [31, 39, 41]


def test_a_stream_that_only_the_new_broker_has_begun_comes_from_there_alone_when_it_takes_over() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(30, 4), message(31, 4))
    leaver, _ = resident.take_over()
    assert leaver is not None
    # The old broker begins it now, further on, and is quicker.
    leaver.on_frames([PubendNames(((6, "trades"),)), horizon(40, 6), message(41, 6)], now_ms=0, wall_ms=0)
    told(resident, message(32, 4), message(41, 4))
    assert numbers(inbox, "trades") == [31, 32, 41]
    assert resident.repeated == 0


def test_a_stream_begins_where_the_new_broker_said_first_however_often_it_says_how_far_it_is() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(30, 4), message(31, 4), horizon(36, 4), message(37, 4))
    resident.take_over()
    told(resident, message(38, 4))
    assert numbers(inbox, "trades") == [31, 37, 38]
    assert (inbox.starts["trades"], resident.repeated) == (30, 0)


def test_an_old_broker_that_begins_between_two_words_of_the_new_one_is_no_reason_to_stay() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(30, 4), message(36, 4), horizon(40, 4))
    told(resident, PubendNames(((6, "trades"),)), horizon(35, 6))
    assert newcomer.problem == ""
    assert numbers(inbox, "trades") == [36]


def test_what_waits_of_a_subscription_that_is_over_begins_nowhere() -> None:
    resident, inbox, newcomer = ready()
    told(newcomer, PubendNames(((4, "trades"),)), horizon(30, 4), message(31, 4))
    newcomer.withdraw(inbox)
    resident.take_over()
    assert numbers(inbox, "trades") == []


def test_too_much_that_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.session.overlap._HELD_BYTES_MAX", 600)
    _, _, newcomer = ready()
    told(newcomer, message(1, 3), message(2, 3))
    assert newcomer.is_ready
    told(newcomer, message(3, 3))
    assert "too far ahead" in newcomer.problem


def test_what_came_before_the_move_does_not_come_again_over_a_slower_way() -> None:
    """Of a pubend without positions, the new broker may get late what the old one had sent before the order to move."""
    resident, inbox = connected()
    told(resident, message(1, 1), message(2, 1))
    newcomer = moving(resident)
    told(newcomer, CONFIRMED, horizon(10, 2), message(2, 3), message(3, 3))
    resident.take_over()
    resident.end_overlap()
    told(resident, message(4, 3))
    assert numbers(inbox, "loose") == [1, 2, 3, 4]


def test_a_subscription_that_is_over_is_not_waited_for() -> None:
    inboxes = Inboxes(ClientSettings())
    overlap, inbox = Overlap(inboxes), inboxes.add(wanted("TRUE", start={"quotes": 3}))
    assert not overlap.covers(inbox)
    overlap.opens(inbox)
    assert overlap.covers(inbox)
    overlap.drop(inbox)
    assert not overlap.covers(inbox)
