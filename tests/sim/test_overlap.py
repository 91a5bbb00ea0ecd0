from __future__ import annotations

from penstock.protocol.frames import Deliver, Subscribed
from penstock.sim.client import SimClient
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.overlap import Overlap
from penstock.sim.trace import Trace


def subscribed() -> tuple[SimClient, Overlap]:
    clock = Clock(0)
    client = SimClient("c", clock=clock, trace=Trace(start_us=0), host=Host(clock))
    client.subscribe("TRUE")
    client.subscribing.on_subscribed(Subscribed(1, "TRUE", (), (("quotes", 5),)))
    return client, Overlap(client)


def message(tick: int) -> Deliver:
    return Deliver(0, tick, (1).to_bytes(4), tick.to_bytes(16))


def ticks(client: SimClient, pubend: str) -> list[int]:
    return [each.tick for each in client.deliveries if each.pubend == pubend]


def test_where_there_are_positions_each_message_is_taken_from_whoever_brings_it_first() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    overlap.deliver_new(1, "quotes", message(6))
    for tick in (6, 7):
        overlap.deliver_old(1, "quotes", message(tick))
    overlap.is_final = True
    overlap.finish()
    for tick in (7, 8):
        overlap.deliver_new(1, "quotes", message(tick))
    assert ticks(client, "quotes") == [6, 7, 8]


def test_who_moves_again_at_once_may_still_be_brought_what_the_first_connection_had_brought() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    for tick in (6, 7, 8):
        overlap.deliver_old(1, "quotes", message(tick))
    overlap.deliver_old(1, "loose", message(1))
    overlap.deliver_new(1, "quotes", message(6))
    overlap.is_final = True
    overlap.finish()
    again = Overlap(client, overlap)
    for tick in (7, 8, 9, 9):
        again.deliver_old(1, "quotes", message(tick))
    for tick in (1, 2):
        again.deliver_old(1, "loose", message(tick))
    assert ticks(client, "quotes") == [6, 7, 8, 9, 9], "what it repeats by itself is not helped"
    assert ticks(client, "loose") == [1, 2]


def test_who_stayed_and_moves_at_once_may_still_be_brought_what_the_given_up_connection_had_brought() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    overlap.deliver_old(1, "quotes", message(6))
    for tick in (6, 7, 8):
        overlap.deliver_new(1, "quotes", message(tick))
    overlap.stay()
    again = Overlap(client, overlap)
    for tick in (7, 8, 9, 9):
        again.deliver_old(1, "quotes", message(tick))
    assert ticks(client, "quotes") == [6, 7, 8, 9, 9], "what it repeats by itself is not helped"


def test_who_moves_again_at_once_and_stays_may_still_be_brought_what_the_first_connection_had_brought() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    for tick in (6, 7, 8):
        overlap.deliver_old(1, "quotes", message(tick))
    overlap.deliver_old(1, "late", message(1))
    overlap.is_final = True
    overlap.finish()
    again = Overlap(client, overlap)
    again.deliver_old(1, "quotes", message(6))
    again.stay()
    for tick in (7, 8, 9, 9):
        again.deliver_old(1, "quotes", message(tick))
    for tick in (1, 2, 2):
        again.deliver_old(1, "late", message(tick))
    assert ticks(client, "quotes") == [6, 7, 8, 9, 9], "what it repeats by itself is not helped"
    assert ticks(client, "late") == [1, 2, 2], "what it repeats by itself is not helped"
    was_over = [again.is_over]
    client.clock.run_for(5_000_000)
    assert [*was_over, again.is_over] == [False, True]


def test_what_waited_comes_again_if_the_new_connection_is_lost_unless_its_stream_has_begun() -> None:
    client, overlap = subscribed()
    overlap.is_final = True
    for pubend in ("late", "later"):
        overlap.deliver_new(1, pubend, message(6))
    assert client.deliveries == []
    client.subscribing.on_subscribed(Subscribed(1, "TRUE", (), (("late", 5),)))
    overlap.lose()
    overlap.finish()
    assert (ticks(client, "late"), ticks(client, "later")) == ([6], [])


def test_a_connection_that_repeats_itself_is_not_helped() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    for tick in (6, 6):
        overlap.deliver_old(1, "quotes", message(tick))
    for tick in (7, 7):
        overlap.deliver_new(1, "quotes", message(tick))
    assert ticks(client, "quotes") == [6, 6, 7, 7]


def test_where_there_are_none_what_is_new_waits_for_the_end_of_the_old_connection() -> None:
    client, overlap = subscribed()
    overlap.deliver_old(1, "loose", message(1))
    for tick in (1, 2, 3):
        overlap.deliver_new(1, "loose", message(tick))
    overlap.deliver_old(1, "loose", message(2))
    overlap.finish()
    overlap.deliver_new(1, "loose", message(2))
    overlap.deliver_new(1, "loose", message(4))
    assert ticks(client, "loose") == [1, 2, 3, 4]


def test_a_client_that_stays_is_brought_again_what_the_new_connection_brought() -> None:
    client, overlap = subscribed()
    overlap.opens((1, "quotes"))
    overlap.deliver_new(1, "quotes", message(6))
    overlap.stay()
    was_over: list[bool] = [overlap.is_over]
    for tick in (6, 7):
        overlap.deliver_old(1, "quotes", message(tick))
    assert [*was_over, overlap.is_over] == [False, True]
    assert ticks(client, "quotes") == [6, 7]
