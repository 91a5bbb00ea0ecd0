"""What a commit may change."""

from __future__ import annotations

from penstock.broker.durable import Append, Trim
from penstock.model.tick import Tick


def test_an_append_needs_no_more_than_a_pubend() -> None:
    assert Append("p") == Append("p", (), None, {})


def test_a_trim_is_bounded() -> None:
    assert Trim("p", Tick(1)).batches_max > 0
