"""The law about last values finds what is missing or old, and nothing else."""

from __future__ import annotations

from random import Random
from typing import cast

from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.sim.client import SimClient
from penstock.sim.delivery_plan import draw_plan
from penstock.sim.last_values import Views, broken, draw_views

VIEWS = Views("symbol", ("p", "q"))


def body(symbol: str | None, lifetime_s: float | None = None) -> bytes:
    return encode_body(MessageId(1, 1, 1_000, 1), Message({"symbol": symbol}, expires=lifetime_s))


class Delivered:
    def __init__(self, pubend: str, tick: int, content: bytes, subscription: int = 1) -> None:
        self.pubend, self.tick, self.subscription = pubend, tick, subscription
        self.attributes = decode_attributes(content)


class Lost:
    def __init__(self, pubend: str, first: int, last: int) -> None:
        self.pubend, self.first, self.last, self.numbers = pubend, first, last, (1,)


class Reader:
    name = "reader"

    def __init__(self, *deliveries: tuple[str, int, bytes], lost: tuple[tuple[str, int, int], ...] = ()) -> None:
        self.deliveries = [Delivered(*each) for each in deliveries]
        self.lost = [Lost(*each) for each in lost]


JOURNAL = [("p", 1, body("A")), ("q", 2, body("A")), ("p", 3, body("B")), ("x", 9, body("A")), ("p", 8, body(None))]


def complaints(reader: Reader, *, at_rest: bool = True, excused: tuple[bytes, ...] = ()) -> list[str]:
    return broken(VIEWS, cast("SimClient", reader), 1, JOURNAL, excused, is_at_rest=at_rest)


def test_the_newest_of_each_key_is_right() -> None:
    assert complaints(Reader(("q", 2, body("A")), ("p", 3, body("B")))) == []


def test_what_is_missing_old_or_too_much_is_found() -> None:
    assert "lacks its last value p" in complaints(Reader(("q", 2, body("A"))))[0]
    assert "is newer" in complaints(Reader(("p", 1, body("A")), ("p", 3, body("B"))))[0]
    assert "has 2 last values" in complaints(Reader(*JOURNAL[:3]))[0]


def test_in_the_midst_of_all_the_newest_must_come_and_others_may() -> None:
    assert complaints(Reader(*JOURNAL[:3]), at_rest=False) == []
    assert len(complaints(Reader(("p", 1, body("A")), ("p", 3, body("B"))), at_rest=False)) == 1


def test_what_was_told_to_be_lost_may_be_missing() -> None:
    assert complaints(Reader(("q", 2, body("A")), lost=(("p", 0, 3),)), at_rest=False) == []
    assert len(complaints(Reader(("q", 2, body("A")), lost=(("q", 0, 3),)), at_rest=False)) == 1


def test_messages_with_a_lifetime_may_come_and_need_not() -> None:
    journal = [*JOURNAL, ("p", 5, body("B", 2.0)), ("p", 6, body("C", 2.0))]
    first = ("q", 2, body("A"))
    for rest in ([3], [5], [5, 6], [3, 6]):
        reader = Reader(first, *(each for each in journal if each[1] in rest))
        assert broken(VIEWS, cast("SimClient", reader), 1, journal, (), is_at_rest=True) == []


def test_a_damaged_message_may_be_missing() -> None:
    journal = [*JOURNAL, ("p", 5, body("B", 10**7))]
    for tick in (3, 5):
        reader = Reader(("q", 2, body("A")), ("p", tick, body("B")))
        assert broken(VIEWS, cast("SimClient", reader), 1, journal, [journal[-1][2]], is_at_rest=True) == []


def test_some_overlays_have_pubends_that_keep_last_values_and_all_brokers_know_them() -> None:
    found = 0
    for seed in range(40):
        plan, views = draw_views(draw_plan(Random(seed)), Random(seed))
        found += bool(views.pubends)
        for broker in plan.brokers:
            assert {pubend for pubend, _ in broker.all_last_values} == set(views.pubends)
            assert {pubend for pubend, _ in broker.last_values} == set(views.pubends) & set(broker.pubends)
        assert bool(views.described()) == bool(views.pubends)
    assert 10 < found < 30
