"""A client publishes again what was not acknowledged, in order and unchanged, and only where that is safe."""

from __future__ import annotations

import pytest

from penstock.model import Message
from penstock.protocol.frames import Publish, PublishAck, RefusedAck, Welcome
from penstock.sim.clock import Clock
from penstock.sim.publishing import Publishing


def welcome(
    number: int = 1,
    *,
    broker: str = "b1",
    best_effort: tuple[str, ...] = (),
    credit: int = 1_000_000,
    now_ms: int = 100,
) -> Welcome:
    return Welcome(2, broker, "o", number, 1, now_ms, 1_000, credit, ("p", "q"), best_effort)


def publishing(*pubends: str) -> Publishing:
    made = Publishing("c", Clock(), backlog_max=1_000)
    for place, pubend in enumerate(pubends):
        made.add(Message({"a": place}), pubend)
    return made


def frames(client: Publishing) -> list[Publish]:
    made = []
    while (frame := client.next_frame()) is not None:
        made.append(frame)
    return made


def shape(sent: list[Publish]) -> list[tuple[int, int, str]]:
    return [(frame.first, len(frame.bodies), frame.pubend) for frame in sent]


def test_a_publisher_is_the_same_over_all_its_connections() -> None:
    assert publishing().publisher == publishing().publisher != Publishing("d", Clock(), backlog_max=1).publisher


def test_each_frame_is_for_one_pubend() -> None:
    client = publishing("p", "p", "q", "", "")
    assert client.next_frame() is None
    client.connect(welcome())
    assert shape(frames(client)) == [(1, 2, "p"), (3, 1, "q"), (4, 2, "")]
    assert [each.candidates for each in client.published[2:4]] == [("q",), ("p", "q")]


def test_what_was_not_acknowledged_is_sent_again_unchanged_before_anything_new() -> None:
    client = publishing("p", "p", "p")
    client.connect(welcome(1))
    first = frames(client)
    client.on_ack(PublishAck(1, 0))
    client.disconnect()
    assert (client.unsettled, client.unconfirmed) == (2, 0)
    client.add(Message({"a": 9}), "p")
    client.connect(welcome(2))
    again = frames(client)
    assert shape(again) == [(2, 3, "p")]
    assert again[0].bodies[:2] == first[0].bodies[1:]
    client.on_ack(PublishAck(4, 0))
    assert (client.acknowledged, client.unsettled, len(client.published)) == (4, 0, 4)
    assert [each.sends for each in client.published] == [1, 2, 2, 1]
    assert all(each.acked_us is not None for each in client.published)


def test_what_was_not_even_sent_again_waits_for_the_next_connection() -> None:
    client = publishing("p", "p", "p")
    client.connect(welcome())
    frames(client)
    client.disconnect()
    client.connect(welcome(credit=40))
    assert shape(frames(client)) == [(1, 1, "p")]
    client.disconnect()
    client.disconnect()
    client.connect(welcome())
    assert shape(frames(client)) == [(1, 3, "p")]


def test_best_effort_is_settled_at_once_and_leaves_a_gap() -> None:
    client = publishing("p", "q", "p")
    client.connect(welcome(best_effort=("q",)))
    frames(client)
    client.disconnect()
    assert (client.unsettled, client.unconfirmed, client.published[1].is_unconfirmed) == (2, 1, True)
    client.connect(welcome(best_effort=("q",)))
    assert shape(frames(client)) == [(1, 1, "p"), (3, 1, "p")]


@pytest.mark.parametrize(("best_effort", "kept"), [((), 1), (("p",), 1), (("p", "q"), 0)])
def test_the_brokers_choice_is_guaranteed_if_any_pubend_is(best_effort: tuple[str, ...], kept: int) -> None:
    client = publishing("")
    client.connect(welcome(best_effort=best_effort))
    frames(client)
    client.disconnect()
    assert (client.unsettled, client.unconfirmed) == (kept, 1 - kept)


def test_nothing_is_sent_again_to_another_broker() -> None:
    client = publishing("p")
    client.connect(welcome())
    frames(client)
    client.disconnect()
    client.connect(welcome(broker="b2"))
    assert (frames(client), client.unconfirmed) == ([], 1)


def test_what_was_refused_is_not_sent_again() -> None:
    client = publishing("p", "q")
    client.connect(welcome())
    frames(client)
    assert client.on_refused(1, 1) == RefusedAck(1)
    client.disconnect()
    client.connect(welcome())
    assert shape(frames(client)) == [(2, 1, "q")]
    client.on_ack(PublishAck(2, 0))
    assert [(each.is_refused, each.acked_us) for each in client.published] == [(True, None), (False, 0)]


def test_identifiers_rise_over_connections_whatever_the_brokers_clock_does() -> None:
    client = publishing("p")
    client.connect(welcome(5, now_ms=1_000))
    frames(client)
    client.disconnect()
    client.connect(welcome(3, now_ms=10))
    client.add(Message({"a": 1}), "p")
    frames(client)
    ids = [each.message_id for each in client.published]
    assert (ids[1].timestamp_ms, ids[1].counter) > (ids[0].timestamp_ms, ids[0].counter)


def test_an_acknowledgement_of_what_was_not_sent_on_this_connection_is_a_bug() -> None:
    client = publishing("p")
    client.connect(welcome())
    frames(client)
    client.disconnect()
    client.connect(welcome())
    with pytest.raises(AssertionError, match="acknowledged 1 of 0"):
        client.on_ack(PublishAck(1, 0))


def test_a_narrow_window_bounds_what_is_unacknowledged_and_lets_one_message_go_at_least() -> None:
    client = publishing("p", "p", "p")
    client.connect(welcome())
    client.window_bytes = 1
    assert shape(frames(client)) == [(1, 1, "p")]
    client.on_ack(PublishAck(1, 0))
    assert shape(frames(client)) == [(2, 1, "p")]
    client.window_bytes = 0
    assert shape(frames(client)) == [(3, 1, "p")]


def test_a_new_connection_has_all_of_its_credit() -> None:
    client = publishing("p", "p", "p")
    client.connect(welcome())
    client.window_bytes = 1
    client.disconnect()
    client.connect(welcome(2))
    assert shape(frames(client)) == [(1, 3, "p")]
