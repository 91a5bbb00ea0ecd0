"""What balancing answers with are values."""

from __future__ import annotations

from penstock.balancing.ports import Note, Publish


def test_commands_are_compared_by_value() -> None:
    assert Publish({"$class": "PIE"}) == Publish({"$class": "PIE"}, b"")
    assert Note("x", (("a", 1),)) != Note("x")
