"""Mechanisms of one broker: who is told what, and what becomes of their answers."""

from __future__ import annotations

import pytest

from overlay import Overlay
from penstock.broker import BrokerSettings, Mechanism
from penstock.broker.mechanisms.interface import Answer, Select
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.values import Attributes
from penstock.protocol import frames as f
from penstock.selectors import Selector


class Listener:
    """Hears what it selected."""

    def __init__(self, name: str, selector: str | None) -> None:
        self.name = name
        self.selector = None if selector is None else Selector.parse(selector)
        self.heard: list[object] = []

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:
        del now_ms
        self.heard.append((neighbour, up))
        return []

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:
        del now_ms
        self.heard.append((neighbour, payload))
        return []

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        del body, now_ms
        self.heard.append(dict(attributes))
        return []

    def next_deadline(self) -> int | None:
        return None

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        raise AssertionError(now_ms)

    def status(self) -> dict[str, object]:
        return {}


class Sleeper(Listener):
    """Wakes once, at a given time, and fails if it is to."""

    def __init__(self, name: str, due_ms: int, *, fails: bool) -> None:
        super().__init__(name, None)
        self._due_ms: int | None = due_ms
        self._fails = fails

    def next_deadline(self) -> int | None:
        return self._due_ms

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        self._due_ms = None
        self.heard.append(now_ms)
        if self._fails:
            raise ZeroDivisionError(self.name)
        return []


def pair(*mechanisms: Mechanism, best_effort: tuple[str, ...] = ()) -> Overlay:
    overlay = Overlay(
        BrokerSettings("a", number=1, pubends=("p", "q"), best_effort=best_effort, neighbours=("b",)),
        BrokerSettings("b", number=2, neighbours=("a",)),
        mechanisms={"b": list(mechanisms)},
    )
    overlay.link("a", "b")
    return overlay


def test_several_mechanisms_hear_each_what_it_selected() -> None:
    small, large = Listener("small", "x < 5"), Listener("large", "x > 2")
    overlay = pair(small, Listener("deaf", None), large, best_effort=("p", "q"))
    overlay.client("a").publish({"x": 1}, {"x": 3}, {"x": 7})
    assert small.heard[1:] == [{"x": 1}, {"x": 3}]
    assert large.heard[1:] == [{"x": 3}, {"x": 7}]


def test_a_mechanism_hears_of_what_is_published_to_guaranteed_pubends() -> None:
    listener = Listener("listener", "x > 2")
    overlay = pair(listener)
    overlay.wait(1_000)
    overlay.client("a").publish({"x": 1}, {"x": 3})
    overlay.wait(1_000)
    assert listener.heard[1:] == [{"x": 3}]


def test_a_mechanism_hears_nothing_twice_when_clients_want_the_same() -> None:
    listener = Listener("listener", "x > 2")
    overlay = pair(listener)
    client = overlay.client("b")
    client.subscribe(1, "x > 0")
    overlay.wait(1_000)
    overlay.client("a").publish({"x": 1}, {"x": 3})
    overlay.wait(2_000)
    again = overlay.client("b")
    again.subscribe(1, "x > 0", ("p", 1), ("q", 1))
    overlay.wait(3_000)
    assert listener.heard[1:] == [{"x": 3}]


def test_words_of_a_mechanism_that_is_not_here_are_left_alone() -> None:
    listener = Listener("listener", None)
    overlay = pair(listener)
    broker = overlay.brokers["b"]
    link = broker._connections.links["a"]
    frames: list[f.Frame] = [f.MechanismMessage("nobody", b"x"), f.MechanismMessage("listener", b"y")]
    broker.receive(link.connection, frames, now_ms=overlay.now_ms)
    assert listener.heard == [("a", True), ("a", b"y")]
    assert broker.status().links == ["a"]


class Chooser(Listener):
    """Selects something else when it is woken."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__("chooser", before)
        self.after: str | None = after

    def next_deadline(self) -> int | None:
        return 0 if self.after else None

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        del now_ms
        assert self.after is not None
        chosen, self.after = Select(Selector.parse(self.after)), None
        return [chosen]


def test_a_mechanism_may_select_something_else_of_the_reserved_space() -> None:
    chooser = Chooser("$class = 'OLD'", "$class = 'NEW'")
    overlay = pair(chooser)
    overlay.wait(10)
    filters = overlay.brokers["a"].rooms.filters
    assert filters.hosts_wanting({"$class": "NEW"}, "p")
    assert not filters.hosts_wanting({"$class": "OLD"}, "p")
    subscribers = overlay.brokers["b"].rooms.subscribers
    subscribers.check_invariants()
    assert subscribers.deliveries(1, [1], [b""], [{"$class": "NEW"}], system=True)
    assert not subscribers.deliveries(1, [1], [b""], [{"$class": "OLD"}], system=True)


class Stumbler(Listener):
    """Makes a selector of what it hears."""

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        super().on_publication(attributes, body, now_ms=now_ms)
        return [Select(Selector.parse(str(attributes["$text"])))]


def test_a_publication_that_a_mechanism_cannot_make_sense_of_costs_nobody_a_link() -> None:
    stumbler = Stumbler("s", "$class = 'X'")
    overlay = pair(stumbler)
    body = encode_body(MessageIdSource(0, 1).next(overlay.now_ms), Message.system({"$class": "X", "$text": "(("}, b""))
    overlay.lie("b", "a", f.Forward("$a", [overlay.now_ms << 16], [body]))
    assert stumbler.heard[-1] == {"$class": "X", "$text": "(("}
    assert overlay.brokers["b"].status().links == ["a"]
    assert overlay.records[-1].event == "malformed-publication"


def test_a_bug_in_one_mechanism_does_not_keep_the_others_from_their_deadlines() -> None:
    failing, later = Sleeper("failing", 1_005_000, fails=True), Sleeper("later", 1_005_000, fails=False)
    overlay = pair(failing, later)
    with pytest.raises(ZeroDivisionError, match="failing"):
        overlay.wait(10_000)
    assert failing.heard[-1] == later.heard[-1] == 1_005_000
