"""The two paces of the story."""

from __future__ import annotations

from dataclasses import fields

from penstock.cli.story.settings import FAST, FULL


def test_fast_shows_the_same_with_less_time() -> None:
    limits = [each.name for each in fields(FULL) if each.name.endswith(("_s", "_ms"))]
    assert len(limits) >= 6
    assert all(getattr(FAST, name) < getattr(FULL, name) for name in limits)
    assert (FAST.subscribers, FAST.traced) == (FULL.subscribers, FULL.traced) == (200, 1_000)
