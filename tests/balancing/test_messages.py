"""Letters between brokers, and letters that cannot be right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balancing.estimators import Figures
from penstock.balancing.messages import (
    COVERING_CHARS_MAX,
    Content,
    Done,
    End,
    Letter,
    Moving,
    Refusal,
    Reply,
    Request,
    Watch,
    address_of,
    fitting,
)
from penstock.balancing.metrics import Load
from penstock.balancing.pie import MalformedError
from penstock.model.message import Message

FIGURES = Figures(20.0, 100, 500.0, 1000.0, 0.005, 0.0002, 0.5, 0.25, 0.001)
CONTENTS: list[Content] = [
    Request("input"),
    Reply(FIGURES, "host:1", ("a = 1", "b > 2")),
    Refusal("BUSY", "in a session"),
    Moving(3, {"s1": ("e1", "e2"), "s2": ()}, Load(0.5, 0.25, 0.02)),
    Done(3),
    End("nothing to move"),
    Watch(("c2",)),
]


def moving(trails: dict[str, list[str]]) -> bytes:
    return msgspec.msgpack.encode({"total": 1, "trails": trails})


def test_no_more_of_a_covering_set_is_sent_than_is_taken() -> None:
    covering = fitting(f"x = {number:0100d}" for number in range(10_000))
    reply = Letter("e1", "e2", 1, Reply(FIGURES, "host:1", covering))
    assert len(covering) == COVERING_CHARS_MAX // 104
    assert Letter.read(reply.attributes(), reply.payload()) == reply


@pytest.mark.parametrize("content", CONTENTS)
def test_a_letter_survives_the_way(content: Content) -> None:
    letter = Letter("e1", "e2", 452_000_000_000_001, content, is_global=True)
    Message.system(letter.attributes(), letter.payload())
    assert Letter.read(letter.attributes(), letter.payload()) == letter


@pytest.mark.parametrize(
    ("changes", "payload"),
    [
        ({"$kind": "attack"}, b""),
        ({"$kind": None}, b""),
        ({"$session": "one"}, None),
        ({"$session": -1}, None),
        ({"$session": 1e300}, None),
        ({"$from": ""}, None),
        ({"$to": 5}, None),
        ({}, b""),
        ({}, b"\xc1"),
        ({}, b"\x93" * 5000),
        ({"$kind": "refusal"}, b"\x81\xa6reason\xa1\xff"),
        ({"$kind": "watch"}, msgspec.msgpack.encode({"clusters": ["c" * 201]})),
        ({"$kind": "watch"}, msgspec.msgpack.encode({"clusters": ["\x1b[31m"]})),
        ({"$kind": "watch"}, msgspec.msgpack.encode({"clusters": [""]})),
        ({"$kind": "watch"}, msgspec.msgpack.encode({"clusters": [f"c{number}" for number in range(9)]})),
        ({"$from": "e1\n"}, None),
        ({}, moving({"s" * 201: []})),
        ({}, moving({"s": [f"b{number}" for number in range(33)]})),
        ({}, moving({"s": ["b" * 201]})),
        ({"$kind": "reply"}, msgspec.msgpack.encode(Reply(FIGURES, "", ("x = 1 " * 50_000,)))),
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any], payload: bytes | None) -> None:
    letter = Letter("e1", "e2", 1, Moving(3))
    with pytest.raises(MalformedError):
        Letter.read({**letter.attributes(), **changes}, letter.payload() if payload is None else payload)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 1e18])
def test_figures_that_no_broker_has_are_refused(bad: float) -> None:
    letter = Letter("e1", "e2", 1, Reply(Figures(bad, 1, 1.0, 1.0, 0.0, 0.1)))
    with pytest.raises(MalformedError, match="figures"):
        Letter.read(letter.attributes(), letter.payload())
    moving = Letter("e1", "e2", 1, Moving(1, {}, Load(bad if bad < 1e6 else float("nan"))))
    with pytest.raises(MalformedError, match="invalid load estimate"):
        Letter.read(moving.attributes(), moving.payload())


def test_a_number_that_cannot_move_is_refused() -> None:
    letter = Letter("e1", "e2", 1, Moving(-1))
    with pytest.raises(MalformedError, match="invalid move announcement: -1 subscribers"):
        Letter.read(letter.attributes(), letter.payload())


@pytest.mark.parametrize("name", ["$heads", "", "a\nb"])
def test_what_is_no_cluster_of_edges_cannot_be_watched(name: str) -> None:
    letter = Letter("h1", "e1", 0, Watch(("c2", name)), is_global=True)
    with pytest.raises(MalformedError, match="is no name of a cluster"):
        Letter.read(letter.attributes(), letter.payload())


def test_the_address_of_a_letter_can_be_read_by_itself() -> None:
    attributes = Letter("e1", "e2", 7, Done()).attributes()
    assert address_of({**attributes, "$kind": "attack"}) == ("e1", "e2", 7)
    with pytest.raises(MalformedError):
        address_of({**attributes, "$session": "x"})


@given(st.binary(max_size=200), st.sampled_from([content.kind for content in CONTENTS]))
def test_noise_is_refused_or_read_and_nothing_else(noise: bytes, kind: str) -> None:
    attributes = {**Letter("e1", "e2", 1, Done()).attributes(), "$kind": kind}
    try:
        letter = Letter.read(attributes, noise)
    except MalformedError:
        return
    assert letter.content.kind == kind
    msgspec.msgpack.encode(letter.content)
