"""Commits to a database, where the law of stores leaves more to be said."""

from __future__ import annotations

from live.postgres.opening import Opener
from penstock.broker.durable import Append, SetValue, Trim
from penstock.lab.databases import DatabaseServer
from penstock.live.store.gathered import BATCH_BYTES_MAX
from penstock.model.tick import Tick


def test_appends_are_cut_into_batches(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([Append("p", [(Tick(tick), b"." * (BATCH_BYTES_MAX // 2)) for tick in range(1, 6)])])
    number = server.execute(f"SELECT number FROM penstock.stores WHERE overlay = '{opener.overlay}'")
    found = server.execute(f"SELECT messages FROM penstock.batches WHERE store = {number} ORDER BY first")
    assert found.split() == ["2", "2", "1"]


def test_a_damaged_batch_in_which_a_trim_ends_stays_damaged(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([Append("p", [(Tick(5), b"x"), (Tick(9), b"y")])])
    opener.damage(server, 5)
    store.commit([Trim("p", Tick(7))])
    part = store.read_part("p", Tick(7), Tick(20), bytes_max=100)
    assert part.damaged is not None
    assert (part.damaged.ticks.first, part.damaged.ticks.last) == (7, 9)


def test_names_and_values_of_any_kind_are_stored(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    values = {"a/ü%'\"\\": bytes(range(256)), "": b""}
    store.commit([SetValue(name, value) for name, value in values.items()])
    assert opener.open(server).recovered().values == values
