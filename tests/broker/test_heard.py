"""Knowledge as it is heard: cut to what was asked for, with the silence behind it."""

from __future__ import annotations

from penstock.broker.heard import Heard
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.frames import KnowledgeKind

BODIES = [encode_body(MessageId(1, 2, 3, number), Message({"number": number})) for number in range(3)]


def heard() -> Heard:
    return Heard("p", 10, 99, [20, 30, 40], BODIES, {"sb": (1, 2)}, KnowledgeKind.ANSWER)


def test_attributes_are_taken_out_of_the_bodies_once() -> None:
    each = heard()
    assert [found["number"] for found in each.attributes] == [0, 1, 2]
    assert each.attributes is each.attributes


def test_a_part_speaks_of_its_range_and_of_the_silence_behind_it() -> None:
    part = heard().within(25, 30)
    assert (part.first, part.last, part.ticks, part.bodies) == (25, 39, [30], BODIES[1:2])
    assert (part.pubend, part.versions, part.kind) == ("p", {"sb": (1, 2)}, KnowledgeKind.ANSWER)


def test_the_last_part_ends_where_the_whole_ends_and_none_begins_before_it() -> None:
    part = heard().within(0, 40)
    assert (part.first, part.last, len(part.ticks)) == (10, 99, 3)


def test_a_part_has_the_attributes_that_were_taken_out_before() -> None:
    each = heard()
    attributes = each.attributes
    assert each.within(30, 40).attributes == attributes[1:]
