"""Data frames: what they hold, and that a new one has not been encoded."""

from __future__ import annotations

import pytest

from penstock.protocol.data_frames import (
    Carry,
    Deliver,
    Forward,
    Horizons,
    KnowledgeKind,
    KnowledgeMessage,
    LogAnswer,
    Publish,
)

FRAMES = [
    Publish(1, [b"body"], "p"),
    Carry("p", "sb", b"me", "feed", (1, 1, 2), [b"body"], is_first=True, asks=True),
    Forward("p", [1], [b"body"]),
    Deliver(0, [1], [bytes(4)], [b"body"]),
    KnowledgeMessage("p", 1, 9, [5], [b"body"], versions=(("sb", 1, 2),)),
    Horizons(0, 1, bytes(8), is_only=True),
    LogAnswer("p", "sb", 3, (1, 9), [5], [b"body"], ((1, 2),)),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_new_frame_has_a_size_and_no_encoding_and_no_room_for_more(
    frame: Publish | Carry | Forward | Deliver | KnowledgeMessage | Horizons | LogAnswer,
) -> None:
    assert frame.size > 0
    assert frame.encoded is None
    with pytest.raises(AttributeError):
        frame.another = 1  # type: ignore[union-attr]


def test_kinds_of_knowledge_keep_their_numbers_on_the_wire() -> None:
    assert [(each.name, each.value) for each in KnowledgeKind] == [("LIVE", 0), ("ANSWER", 1), ("LOST", 2)]


def test_a_carried_batch_without_messages_has_a_size_too_since_it_is_a_question() -> None:
    question = Carry("p", "sb", b"me", "feed", (1, 1, 2), [], asks=True)
    assert question.size > 0
    assert Carry("p", "sb", b"me", "feed", (1, 1, 2), [bytes(1_000)]).size >= question.size + 1_000
