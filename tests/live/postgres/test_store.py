"""The store in a database as a whole; what it shares with others is tested with the law of stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

import penstock
from live.postgres.opening import Opener
from live.support import lone, run
from penstock.broker.durable import Append, KeepRecord, SetValue
from penstock.lab.databases import DatabaseServer
from penstock.live.errors import ConfigError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Database
from penstock.live.store import ChangeRefusedError
from penstock.model.tick import Tick


def stored_as(server: DatabaseServer, opener: Opener, table: str, name: str) -> None:
    """Damage the stored bytes under a name."""
    number = server.execute(f"SELECT number FROM penstock.stores WHERE overlay = '{opener.overlay}'")
    server.execute(f"UPDATE penstock.{table} SET stored = 'damaged' WHERE store = {number} AND name = '{name}'")


def test_a_damaged_value_is_named_and_empty(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([SetValue("v", b"1"), SetValue("w", b"2")])
    stored_as(server, opener, "named", "v")
    assert store.damaged_values() == ["v"]
    assert store.recovered().values == {"v": b"", "w": b"2"}


def test_a_damaged_record_is_named_and_empty(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([KeepRecord("k", b"1"), KeepRecord("m", b"2")])
    stored_as(server, opener, "kept", "k")
    assert store.recovered().kept == {"k": b"", "m": b"2"}
    assert store.kept_found.damaged == ["k"]
    part = store.read_kept(["k", "m"], bytes_max=100)
    assert (part.values, part.damaged) == ({"k": None, "m": b"2"}, ["k"])


def test_a_refused_commit_leaves_the_store_as_it_was(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([Append("p", [(Tick(5), b"x")], lease=Tick(9))])
    for _ in range(2):
        with pytest.raises(ChangeRefusedError, match="lease 3 is below the earlier 9"):
            store.commit([Append("p", lease=Tick(3))])
    # Nothing is tried again, though a busy database may take long.
    assert opener.said.keys() <= {"the database takes long to answer"}


def test_stores_of_several_brokers_in_one_database_do_not_mix(server: DatabaseServer, opener: Opener) -> None:
    store = opener.open(server)
    store.commit([Append("p", [(Tick(5), b"x")]), SetValue("v", b"1"), KeepRecord("k", b"1")])
    other = Opener(opener.overlay + "-2", opener.stack).open(server)
    assert other.recovered().values == {}
    other.commit([Append("p", [(Tick(3), b"y")])])
    assert store.read_part("p", Tick(1), Tick(9), bytes_max=100).messages == [(5, b"x")]


def test_a_broker_that_cannot_listen_takes_no_store_away(server: DatabaseServer, opener: Opener) -> None:
    overlay = replace(lone(), name=opener.overlay)
    place = replace(overlay.brokers["b1"], port=0, best_effort=(), database=Database(server.url))

    async def story() -> None:
        async with BrokerNode(replace(overlay, brokers={"b1": place}), "b1") as first:
            taken = replace(place, port=first.address[1])
            with pytest.raises(ConfigError, match="Address already in use"):
                await BrokerNode(replace(overlay, brokers={"b1": taken}), "b1").start()
            async with penstock.connect("penstock://{}:{}".format(*first.address)) as client:
                await client.publish({"n": 1})
                await client.flush()
            assert first.failure is None

    run(story())
