from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.session.positions import LostTicks, Positions, first_unread
from penstock.session.received import Received


def test_a_position_begins_with_the_start_and_the_first_word_counts() -> None:
    positions = Positions({"p": 5})
    positions.on_start("p", 9)
    positions.on_start("q", 7)
    positions.on_start("q", 8)
    assert positions.known() == {"p": 5, "q": 7}
    assert positions.get("r") is None


def test_a_horizon_raises_a_position_and_never_lowers_it() -> None:
    positions = Positions({"p": 5})
    positions.on_horizon("p", 9)
    positions.on_horizon("p", 7)
    assert positions.get("p") == 9
    positions.next_ticks["p"] = 12
    assert positions.get("p") == 12
    positions.on_horizon("p", 11)
    assert positions.get("p") == 12


def test_a_subscription_begins_on_a_pubend_when_it_is_named_and_on_each_connection_anew() -> None:
    positions = Positions({"p": 5})
    assert not positions.has_begun("p"), "a start is what the client wants, not what the broker says"
    positions.begin("p")
    assert (positions.has_begun("p"), positions.has_begun("q")) == (True, False)
    positions.on_disconnected()
    assert not positions.has_begun("p")


def test_after_a_loss_everything_below_the_position_is_a_repetition() -> None:
    positions = Positions({"p": 5})
    positions.on_horizon("p", 9)
    assert positions.next_ticks == {"p": 9}
    positions.on_disconnected()
    assert positions.next_ticks == positions.known() == {"p": 9}


def test_a_pubend_has_no_position_before_a_broker_has_told_of_its_start() -> None:
    positions = Positions()
    positions.next_ticks["p"] = 12
    assert positions.known() == {}
    positions.on_start("p", 3)
    assert positions.known() == {"p": 12}, "messages came before the confirmation"


@pytest.mark.parametrize(
    ("lost", "is_missing", "position"),
    [((3, 4), False, 5), ((3, 5), True, 6), ((5, 9), True, 10), ((6, 9), True, 5)],
)
def test_lost_ticks_are_missing_where_they_have_not_been_passed(
    lost: tuple[int, int], is_missing: bool, position: int
) -> None:
    positions = Positions({"p": 5})
    assert positions.on_lost(LostTicks("p", *lost)) is is_missing
    assert positions.get("p") == position, "what lies in front of them is still to come"
    assert not positions.on_lost(LostTicks("other", 1, 10**6))


def test_what_waits_is_not_read() -> None:
    waiting = [Received("p", 3, b""), Received("q", 4, b""), Received("p", 5, b""), Received("best-effort", 1, b"")]
    arrived = {"p": 6, "q": 5, "r": 9}
    assert first_unread(arrived, waiting) == {"p": 3, "q": 4, "r": 9}
    assert arrived == {"p": 6, "q": 5, "r": 9}
    assert first_unread(arrived, []) == arrived


@given(st.lists(st.tuples(st.sampled_from("pq"), st.booleans(), st.integers(1, 5))), st.data())
def test_positions_are_those_of_a_stream_that_is_counted_tick_by_tick(
    stream: list[tuple[str, bool, int]], data: st.DataObject
) -> None:
    """Each pubend's stream is messages and silence; the oracle counts the ticks that have gone by."""
    positions, counted, arrived = Positions({"p": 0, "q": 0}), {"p": 0, "q": 0}, list[Received]()
    for pubend, is_message, ticks in stream:
        counted[pubend] += ticks
        if is_message:
            arrived.append(Received(pubend, counted[pubend], b""))
            counted[pubend] += 1
            positions.next_ticks[pubend] = counted[pubend]
        else:
            positions.on_horizon(pubend, counted[pubend])
        assert positions.known() == counted
    read = data.draw(st.integers(0, len(arrived)))
    unread = first_unread(positions.known(), arrived[read:])
    for pubend, position in unread.items():
        assert all(each.tick < position for each in arrived[:read] if each.pubend == pubend)
        assert all(each.tick >= position for each in arrived[read:] if each.pubend == pubend)
