"""What a store's thread counts."""

from __future__ import annotations

from live.store.support import numbered
from penstock.broker.durable import Append, SetValue
from penstock.broker.effects import Commit
from penstock.live.store_figures import StoreFigures


def test_groups_are_counted_with_their_messages() -> None:
    figures = StoreFigures()
    assert figures.as_dict()["messages_per_sync"] == 0
    figures.count([Commit(1, (Append("p", numbered(1, 3)), SetValue("v", b""))), Commit(2, ())], sync_ms=2.5)
    figures.count([Commit(3, (Append("p", numbered(4, 4)),))], sync_ms=1.5)
    assert (figures.commits, figures.syncs, figures.messages, figures.last_sync_ms) == (3, 2, 4, 1.5)
    assert (figures.as_dict()["messages_per_sync"], figures.as_dict()["full"]) == (2, 0)
    figures.full_reason = "no space"
    assert figures.as_dict()["full"] == 1
