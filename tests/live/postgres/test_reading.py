"""Reading a log from a database."""

from __future__ import annotations

import pytest

from live.postgres.opening import Opener
from penstock.broker.durable import Append
from penstock.lab.databases import DatabaseServer
from penstock.live.postgres.reading import _PAGE
from penstock.live.postgres.store import DatabaseStore
from penstock.live.store.errors import CorruptRecordError
from penstock.model.tick import TICK_MAX, Tick


def filled(store: DatabaseStore, *ticks: int) -> None:
    """Store one message in each batch."""
    for tick in ticks:
        store.commit([Append("p", [(Tick(tick), b"x")])])


@pytest.mark.parametrize("count", [_PAGE - 1, _PAGE, _PAGE + 1])
def test_all_pages_are_read(server: DatabaseServer, opener: Opener, count: int) -> None:
    store = opener.open(server)
    filled(store, *range(1, count + 1))
    part = store.read_part("p", Tick(1), TICK_MAX, bytes_max=1_000)
    assert ([tick for tick, _ in part.messages], part.last) == ([*range(1, count + 1)], TICK_MAX)


def test_a_damaged_batch_is_named_and_what_is_before_and_after_can_be_read(
    server: DatabaseServer, opener: Opener
) -> None:
    store = opener.open(server)
    filled(store, 3, 5, 7)
    opener.damage(server, 5)
    part = store.read_part("p", Tick(1), Tick(9), bytes_max=100)
    assert isinstance(part.damaged, CorruptRecordError)
    assert ([tick for tick, _ in part.messages], part.last, part.damaged.ticks.last) == ([3], 4, 5)
    assert [tick for tick, _ in store.read_part("p", Tick(6), Tick(9), bytes_max=100).messages] == [7]
