"""How mechanisms plug in: a plain object hears what it asked for, and its answers are carried out."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from overlay import Overlay
from penstock.broker import BrokerSettings
from penstock.broker.effects import Operate, Record
from penstock.broker.mechanisms.interface import Answer, Mechanism, PublishSystem, Select, Tell
from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.selectors.selector import Selector


class Gossip:
    """Greets every neighbour, says so in the reserved space, and keeps what it hears."""

    name = "gossip"

    def __init__(self, broker: str, selector: str | None = None) -> None:
        self.broker = broker
        self.selector = None if selector is None else Selector.parse(selector)
        self.heard: list[tuple[object, ...]] = []
        self.due_ms: int | None = None

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:
        self.heard.append(("neighbour", neighbour, up))
        return [Tell(neighbour, b"hello from " + self.broker.encode())] if up else []

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:
        self.heard.append(("message", neighbour, payload))
        return [Record("greeted", (("neighbour", neighbour),))]

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        self.heard.append(("publication", dict(attributes)))
        return []

    def next_deadline(self) -> int | None:
        return self.due_ms

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        self.heard.append(("deadline", now_ms))
        self.due_ms = None
        return [PublishSystem(Message.system({"$gossip": self.broker}))]

    def status(self) -> dict[str, object]:
        return {"heard": len(self.heard)}


def pair(selector: str | None = None) -> tuple[Overlay, Gossip, Gossip]:
    one, other = Gossip("a"), Gossip("b", selector)
    mechanisms: dict[str, list[Mechanism]] = {"a": [one], "b": [other]}
    overlay = Overlay(
        BrokerSettings("a", number=1, pubends=("p",), best_effort=("p",), neighbours=("b",)),
        BrokerSettings("b", number=2, neighbours=("a",)),
        mechanisms=mechanisms,
    )
    overlay.link("a", "b")
    return overlay, one, other


def test_a_mechanism_hears_of_neighbours_and_of_what_it_says_at_the_neighbour() -> None:
    overlay, one, other = pair()
    assert one.heard == [("neighbour", "b", True), ("message", "b", b"hello from b")]
    assert sorted(other.heard, key=str) == [("message", "a", b"hello from a"), ("neighbour", "a", True)]
    overlay.cut("a", "b")
    assert one.heard[-1] == ("neighbour", "b", False)


def test_what_a_mechanism_records_is_an_effect() -> None:
    overlay, _, _ = pair()
    assert Record("greeted", (("neighbour", "a"),)) in overlay.records
    assert Record("greeted", (("neighbour", "b"),)) in overlay.records


def test_a_mechanism_is_woken_at_its_deadline_and_its_publication_reaches_who_selects_it() -> None:
    overlay, one, other = pair("$gossip IS NOT NULL")
    client = overlay.client("b")
    client.subscribe(1, "$gossip = 'a'")
    stranger = overlay.client("b")
    stranger.subscribe(1, "TRUE")
    one.due_ms = overlay.now_ms + 123
    assert overlay.brokers["a"].next_deadline() == one.due_ms
    overlay.wait(122)
    assert ("deadline", overlay.now_ms) not in one.heard
    overlay.wait(1)
    assert one.heard[-1] == ("deadline", overlay.now_ms)
    assert other.heard[-1] == ("publication", {"$gossip": "a"})
    assert client.messages() == [{"$gossip": "a"}]
    assert stranger.messages() == []


def test_a_mechanism_hears_of_the_publications_that_it_selected_from_anywhere() -> None:
    overlay, one, other = pair("x > 5")
    client = overlay.client("a")
    client.publish({"x": 5}, {"x": 6})
    assert [each for each in other.heard if each[0] == "publication"] == [("publication", {"x": 6})]
    assert [each for each in one.heard if each[0] == "publication"] == []


def test_the_figures_of_a_mechanism_are_in_the_status_of_its_broker() -> None:
    overlay, one, _ = pair()
    assert overlay.brokers["a"].status().mechanisms == {"gossip": {"heard": len(one.heard)}}


def test_answers_are_values() -> None:
    examples: list[Answer] = [
        Tell("b", b"x"),
        PublishSystem(Message({"a": 1})),
        Record("greeted"),
        Operate("1/a/1", 5),
        Select(Selector.parse("$class = 'PIE'")),
    ]
    assert {type(each) for each in examples} == set(get_args(Answer))
    for each in examples:
        assert dataclasses.replace(each) == each
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(each, dataclasses.fields(each)[0].name, None)
