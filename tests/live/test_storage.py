"""A node with a store: effects become durable, and what is wrong with a store is said clearly."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from live.store.support import break_table, everything, numbered, tamper, ticks_of
from live.support import FakeBroker, FramePeer, guaranteed, lone, run, until, with_port
from penstock.broker.durable import Append, KeepRecord, Recovered, RecoveredPubend, SetValue, Trim
from penstock.broker.effects import Commit, Effect, ReadKept, ReadLog
from penstock.live.errors import ConfigError, NodeFailedError, StorageError
from penstock.live.keeper import Keeper
from penstock.live.node import BrokerNode
from penstock.live.overlay import Database, Overlay
from penstock.live.serving import serve
from penstock.live.storage import Stimulus, Storage, check_served
from penstock.live.store import LogStore
from penstock.live.store.database import FILE_NAME
from penstock.live.store.place import FolderPlace
from penstock.live.stores import OnWait, Store
from penstock.live.turns import Turns
from penstock.model.tick import TICK_MAX, Tick
from penstock.protocol.frames import Goodbye, Hello

HELLO = Hello(1, "client", "c", "test")
FOUND = Recovered({"b1.a": RecoveredPubend(last_tick=7, first_tick=5, parts=((7, 1_234),))})


def append(number: int, first: int, last: int, *, size: int = 10) -> Commit:
    return Commit(number, (Append("b1.a", numbered(first, last, size=size)),))


class Ending(FakeBroker):
    """Has something to keep at its very end."""

    def shutdown(self, *, now_ms: int) -> Sequence[Effect]:
        return [*super().shutdown(now_ms=now_ms), append(9, 90, 90)]


def test_a_brokers_effects_are_carried_out_and_it_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = Ending()
        async with BrokerNode(guaranteed(tmp_path), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            await until(lambda: broker.count("connect") == 1)
            broker.answers = [append(1, 1, 5), Commit(2, (*append(2, 6, 7).changes, KeepRecord("mark", b"m")))]
            peer.send(HELLO)
            await until(lambda: ("committed", 2) in broker.asked)
            broker.answers = [ReadLog(1, "b1.a", 4, 9, 1_000)]
            peer.send(HELLO)
            await until(lambda: broker.count("read") == 1)
            assert broker.asked[-1] == ("read", 1, numbered(4, 7), TICK_MAX, None)
            broker.answers = [ReadKept(2, ("mark", "gap"))]
            peer.send(HELLO)
            await until(lambda: broker.count("kept") == 1)
            assert ("kept", 2, {"mark": b"m", "gap": None}) in broker.asked
            store = node.status().store
            assert (store["commits"], store["messages"], store["waiting_commits"], store["full"]) == (2, 7, 0, 0)
            await peer.close()

    run(scenario())
    with closing(LogStore.open(tmp_path, overlay="test", broker="b1")) as store:
        assert ticks_of(everything(store, "b1.a")) == [1, 2, 3, 4, 5, 6, 7, 90]


def test_a_full_store_is_told_and_then_that_it_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(guaranteed(tmp_path, data_bytes_max=1 << 20), "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            await until(lambda: broker.count("connect") == 1)
            broker.answers = [append(1, 1, 1, size=600_000), append(2, 2, 2, size=600_000)]
            peer.send(HELLO)
            await until(lambda: broker.count("full") == 1)
            assert "is full" in node.status().store["full_reason"]
            broker.answers = [Commit(3, (Trim("b1.a", Tick(2)),))]
            peer.send(HELLO)
            await until(lambda: ("committed", 3) in broker.asked)
            assert node.status().store["full"] == 0
            await peer.close()

    run(scenario())


def test_a_store_that_has_to_wait_before_it_is_open_tells_nobody_who_is_not_there_yet(tmp_path: Path) -> None:
    class Patient:
        """A folder whose store waits for something first."""

        broker = "b1"
        shown = "here"

        def open(self, on_wait: OnWait) -> Store:
            on_wait("no standby")
            on_wait("")
            return FolderPlace(tmp_path, "test", "b1").open(on_wait)

    told: list[Stimulus] = []

    async def scenario() -> None:
        turns = Turns(give_up=lambda _, __: None, settle=lambda: None, on_end=lambda: None)
        storage = Storage(guaranteed(tmp_path), "b1", turns=turns, stimulate=told.append, fail=lambda _: None)
        storage._keeper = Keeper(Patient(), storage)
        await storage.open(started_ms=1)
        assert told == []
        storage.on_full("no space")
        assert len(told) == 1
        await storage.close()
        turns.stop()

    run(scenario())


def test_every_start_is_a_later_life_even_if_the_clock_was_set_back(tmp_path: Path) -> None:
    async def incarnation() -> int:
        async with BrokerNode(guaranteed(tmp_path), "b1", broker=FakeBroker()) as node:
            return node.incarnation

    first = run(incarnation())
    assert run(incarnation()) > first
    with closing(LogStore.open(tmp_path, overlay="test", broker="b1")) as store:
        store.commit([SetValue("incarnation", b"9999999999999")])
    assert run(incarnation()) == 10_000_000_000_000


def test_without_a_data_folder_there_is_no_store() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node:
            assert node.status().store == {}
            assert node.incarnation == node.clock.started_ms

    run(scenario())


def refused(overlay: Overlay, complaint: str, kind: type[Exception] = StorageError) -> None:
    async def scenario() -> None:
        node = BrokerNode(overlay, "b1", broker=FakeBroker())
        with pytest.raises(kind, match=complaint):
            await node.start()
        await node.stop()

    run(scenario())


def made(folder: Path) -> Overlay:
    """A store that was there before, and the overlay with its broker."""
    LogStore.open(folder, overlay="test", broker="b1", reserve_bytes=0).close()
    overlay = guaranteed(folder)
    return replace(overlay, brokers={"b1": replace(overlay.brokers["b1"], where="o.toml:7")})


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    overlay = made(tmp_path)
    with closing(LogStore.open(tmp_path, overlay="test", broker="b1", reserve_bytes=0)):
        refused(overlay, r"^o\.toml:7: broker b1 cannot use its data: store .* is already in use")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    overlay = made(tmp_path)
    tamper(tmp_path, "PRAGMA user_version=99")
    refused(overlay, r"^o\.toml:7: broker b1 .* has format 99, and this Penstock reads formats up to 3")


def test_a_store_of_another_broker_is_refused(tmp_path: Path) -> None:
    LogStore.open(tmp_path, overlay="test", broker="b2", reserve_bytes=0).close()
    refused(guaranteed(tmp_path), r"belongs to broker 'b2' of overlay 'test', not to broker 'b1'")


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        database.execute("CREATE TABLE x (y)")
    refused(guaranteed(tmp_path), "is a database, but not a store of Penstock")


def test_a_broker_that_guarantees_needs_a_data_folder() -> None:
    overlay = lone()
    place = replace(overlay.brokers["b1"], best_effort=())
    refused(replace(overlay, brokers={"b1": place}), r"guarantees delivery from b1\.a, but has no data folder")


def test_a_node_that_cannot_listen_lets_go_of_its_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1", broker=FakeBroker()) as node:
            overlay = with_port(guaranteed(tmp_path), "b1", node.address[1])
            with pytest.raises(ConfigError, match="cannot listen"):
                await BrokerNode(overlay, "b1", broker=FakeBroker()).start()

    run(scenario())
    LogStore.open(tmp_path, overlay="test", broker="b1", reserve_bytes=0).close()


def test_a_store_that_fails_ends_its_node_with_a_word_to_all(tmp_path: Path) -> None:
    overlay = made(tmp_path)
    break_table(tmp_path, "bodies")

    async def scenario() -> None:
        broker = FakeBroker()
        async with BrokerNode(overlay, "b1", broker=broker) as node:
            peer = await FramePeer.dial(node.address)
            await until(lambda: broker.count("connect") == 1)
            broker.answers = [append(1, 1, 1)]
            peer.send(HELLO)
            await node.has_failed.wait()
            assert not node.is_serving
            assert await peer.over() == Goodbye("shutdown", "bye")
        assert isinstance(node.failure, NodeFailedError)
        assert str(tmp_path) in str(node.failure)
        assert broker.count("committed") == 0

    run(scenario())


def test_serving_ends_with_the_failure_of_the_store(tmp_path: Path) -> None:
    overlay = made(tmp_path)

    def fail(node: BrokerNode) -> None:
        node._dispatch([Commit(1, (Trim("b1.a", Tick(-1)),))])

    with pytest.raises(NodeFailedError, match=r"broker b1 had to stop: .* start it again"):
        run(serve(overlay, "b1", on_ready=fail))


def test_commits_that_take_long_are_told_some_at_a_time_and_all_before_anything_else() -> None:
    async def scenario() -> None:
        now_s, broker = [0.0], FakeBroker()
        turns = Turns(
            give_up=lambda _, error: pytest.fail(str(error)),
            settle=lambda: None,
            on_end=lambda: None,
            clock=lambda: now_s[0],
        )

        def stimulate(stimulus: Stimulus) -> None:
            stimulus(broker, 1)
            now_s[0] += 1.0

        storage = Storage(lone(), "b1", turns=turns, stimulate=stimulate, fail=lambda error: pytest.fail(str(error)))
        storage.on_committed(1)
        storage.on_committed(5)
        assert broker.asked == [("committed", 1), ("committed", 2)]
        turns.end()
        assert broker.asked[2:] == [("committed", 3)]
        storage.on_full("no space")
        assert broker.asked[3:] == [("committed", 5), ("full", "no space")]
        turns.end()
        turns.stop()
        assert len(broker.asked) == 5

    run(scenario())


# Logs that would not be served.


def test_a_log_that_is_served_or_empty_is_no_problem(tmp_path: Path) -> None:
    place = guaranteed(tmp_path).brokers["b1"]
    assert check_served(place, FOUND) == {}
    assert check_served(place, None) == {}
    loose = replace(place, best_effort=place.pubends)
    assert check_served(loose, Recovered({"b1.a": RecoveredPubend(last_tick=7)})) == {}


def test_a_pubend_that_was_removed_with_messages_is_named(tmp_path: Path) -> None:
    place = replace(guaranteed(tmp_path).brokers["b1"], pubends=("other",))
    assert check_served(place, FOUND) == {"b1.a": 1_234}


def test_a_pubend_with_messages_cannot_become_best_effort(tmp_path: Path) -> None:
    place = guaranteed(tmp_path).brokers["b1"]
    with pytest.raises(StorageError, match=r"pubend b1\.a of broker b1 is best effort now.* 1,234 bytes"):
        check_served(replace(place, best_effort=place.pubends, where="o.toml"), FOUND)


def test_a_broker_does_not_start_with_messages_that_it_would_not_serve_and_leaves_them(tmp_path: Path) -> None:
    overlay = guaranteed(tmp_path)
    store = LogStore.open(tmp_path, overlay=overlay.name, broker="b1")
    store.commit([Append("b1.a", numbered(1, 5))])
    store.close()

    best_effort = replace(overlay.brokers["b1"], best_effort=("b1.a",))

    async def start(overlay: Overlay) -> None:
        async with BrokerNode(overlay, "b1"):
            pass

    with pytest.raises(StorageError, match="is best effort now"):
        run(start(replace(overlay, brokers={"b1": best_effort})))
    run(start(overlay))


def test_a_pubend_that_was_given_candidates_must_bring_its_log_along() -> None:
    place = replace(lone().brokers["b1"], pubends=(), best_effort=(), data=Path("data/b1"), where="o.toml:3")
    with pytest.raises(
        StorageError, match=r"o\.toml:3: pubend b1\.a has candidates now, .* 1,234 bytes .* --pubend b1\.a"
    ):
        check_served(place, FOUND, ["b1.a"])
    moved = replace(FOUND, values={"moved/b1.a": b"a database, broker b1.a.home"})
    assert check_served(place, moved, ["b1.a"]) == {}, "nobody needs to put it back"


def test_a_pubend_that_was_copied_elsewhere_is_not_served_from_where_it_was() -> None:
    place = replace(lone().brokers["b1"], best_effort=(), data=Path("data/b1"), where="o.toml:3")
    assert "b1.a" in place.pubends
    moved = replace(FOUND, values={"moved/b1.a": b"a database, broker b1.a.home"})
    with pytest.raises(
        StorageError,
        match=r"o\.toml:3: pubend b1\.a was copied from data/b1 to a database, .* store copy data/b1 NEW --again",
    ):
        check_served(place, moved)


def test_whoever_has_messages_in_a_database_is_told_how_to_copy_them_from_there() -> None:
    pytest.importorskip("psycopg")
    database = Database("postgresql://me:secret@db1,db2/penstock")
    # The folder is for what else a broker keeps.
    place = replace(lone().brokers["b1"], best_effort=(), data=Path("data/b1"), database=database)
    moved = replace(FOUND, values={"moved/b1.a": b"/new/b2, broker b2"})
    from_there = "penstock store copy postgresql://me@db1,db2/penstock NEW --overlay OVERLAY --broker b1 --again"
    with pytest.raises(StorageError, match=re.escape(from_there)):
        check_served(place, moved)
    to_candidates = "store copy postgresql://me@db1,db2/penstock URL --overlay OVERLAY --broker b1 --pubend b1.a"
    with pytest.raises(StorageError, match=re.escape(to_candidates)):
        check_served(replace(place, pubends=()), FOUND, ["b1.a"])
