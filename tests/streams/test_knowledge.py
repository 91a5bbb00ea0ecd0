"""Knowledge: whole, in parts, narrowed for somebody, and never about a tick out of its range."""

from __future__ import annotations

import pytest

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.frames import KnowledgeKind
from penstock.streams import Knowledge

BODIES = [encode_body(MessageId(1, 2, 3, number), Message({"number": number})) for number in range(3)]


def answer() -> Knowledge:
    return Knowledge("p", 10, 99, [20, 30, 40], BODIES, {"sb": (1, 2)}, KnowledgeKind.ANSWER)


@pytest.mark.parametrize("ticks", [(9,), (21,), (9, 15), (15, 21)])
def test_data_that_begins_or_ends_out_of_range_is_a_broken_invariant(ticks: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="out of range"):
        Knowledge("p", 10, 20, ticks, [b""] * len(ticks))


def test_a_range_that_ends_before_it_begins_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="are no range"):
        Knowledge("p", 5, 4)


def test_a_tick_without_a_body_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="1 ticks have 0 bodies"):
        Knowledge("p", 5, 9, (7,))


def test_attributes_are_taken_out_of_the_bodies_once() -> None:
    each = answer()
    assert [found["number"] for found in each.attributes] == [0, 1, 2]
    assert each.attributes is each.attributes


def test_a_part_speaks_of_its_range_and_of_the_silence_behind_it() -> None:
    assert answer().within(25, 30) == Knowledge("p", 25, 39, [30], BODIES[1:2], {"sb": (1, 2)}, KnowledgeKind.ANSWER)


def test_the_last_part_ends_where_the_whole_ends_and_none_begins_before_it() -> None:
    part = answer().within(0, 40)
    assert (part.first, part.last, len(part.ticks)) == (10, 99, 3)


def test_a_part_has_the_attributes_that_were_taken_out_before() -> None:
    each = answer()
    attributes = each.attributes
    assert each.within(30, 40).decoded == attributes[1:]


def test_it_is_said_in_pieces_that_cover_it_without_a_gap() -> None:
    whole = Knowledge("p", 10, 99, [20, 30, 31, 40], [b"a" * 5, b"b" * 5, b"c" * 20, b"d"], {"sb": (1, 2)})
    parts = list(whole.parts(10))
    assert [(each.first, each.last, each.ticks) for each in parts] == [
        (10, 30, [20, 30]),
        (31, 39, [31]),
        (40, 99, [40]),
    ]
    assert b"".join(body for each in parts for body in each.bodies) == b"".join(whole.bodies)
    assert all(each.versions == whole.versions and each.kind is whole.kind for each in parts)


def test_what_fits_is_one_piece_and_so_is_silence() -> None:
    silence = Knowledge("p", 10, 99)
    assert next(silence.parts(1)) is silence
    whole = answer()
    assert list(whole.parts(1_000_000)) == [whole]


def test_narrowed_it_keeps_its_range_and_loses_what_nobody_wants() -> None:
    versions = {"other": (3, 4)}
    assert answer().narrowed([0, 2], versions, KnowledgeKind.LIVE) == Knowledge(
        "p", 10, 99, [20, 40], [BODIES[0], BODIES[2]], versions, KnowledgeKind.LIVE
    )
