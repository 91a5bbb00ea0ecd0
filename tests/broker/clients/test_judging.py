"""What may be published, message by message."""

from __future__ import annotations

from penstock.broker.clients.judging import refused_parts


def test_refusals_are_told_once_for_each_run_of_messages_with_the_same_reason() -> None:
    assert refused_parts(10, {5: "a", 1: "a", 2: "a", 3: "b"}) == [(11, 2, "a"), (13, 1, "b"), (15, 1, "a")]
    assert refused_parts(10, {0: "a", 1: "a"}) == [(10, 2, "a")]
    assert refused_parts(10, {}) == []
