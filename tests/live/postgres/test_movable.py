"""Stores in a database as the ends of copies: to and from folders, and between databases."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from live.transfers import content, fill, opened
from penstock.broker.commit_queue import Committed
from penstock.broker.durable import Append, MarkLost, SetValue
from penstock.broker.effects import Commit
from penstock.lab.databases import DatabaseServer
from penstock.live.copying import CopyEnd, CopyOrder, copy_store
from penstock.live.postgres.movable import MovableDatabasePlace, MovableDatabaseStore
from penstock.live.postgres.place import DatabasePlace
from penstock.live.store import StoreFencedError, StoreLockedError, StoreRefusedError
from penstock.live.store.place import FolderPlace
from penstock.live.store_worker import Failed, Opened, Report, StoreWorker
from penstock.live.stores import COPYING, OnWait
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange


@pytest.fixture
def url(server: DatabaseServer) -> str:
    """A database without any store."""
    server.execute("DROP SCHEMA IF EXISTS penstock CASCADE")
    return server.url


def store_in(url: str, broker: str = "b1") -> closing[MovableDatabaseStore]:
    return closing(MovableDatabasePlace(url, "o", broker).open(lambda _: None))


@pytest.mark.parametrize("seed", range(3))
def test_a_store_goes_into_a_database_and_back(tmp_path: Path, url: str, seed: int) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(seed))
        wanted = content(source)
    done = copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)))
    assert (done.target.owner, done.is_whole) == (("o", "b1"), True)
    with store_in(url) as store:
        assert content(store) == wanted
    copy_store(CopyOrder(CopyEnd(url, "o", "b1"), CopyEnd(str(tmp_path / "b"))))
    with opened(tmp_path / "b") as back:
        assert content(back) == wanted


def test_one_pubend_goes_into_the_store_of_its_home_and_from_there_elsewhere(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(7))
        wanted = content(source, ("q",))["q"]
    done = copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url), "q"))
    assert done.target.broker == "q.home"
    with store_in(url, "q.home") as home:
        assert content(home, ("q",))["q"] == wanted
    copy_store(CopyOrder(CopyEnd(url, "o", "q.home"), CopyEnd(str(tmp_path / "b"), broker="b2")))
    with opened(tmp_path / "b", broker="b2") as back:
        assert content(back, ("q",))["q"] == wanted
        assert list(back.recovered().pubends) == ["q"]


def test_a_store_that_is_in_use_is_neither_copied_nor_written(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(1))
    with closing(DatabasePlace(url, "o", "b1").open(lambda _: None)) as used:
        used.commit([Append("p", [(Tick(1), b"x")])])
        for order in (
            CopyOrder(CopyEnd(url, "o", "b1"), CopyEnd(str(tmp_path / "b"))),
            CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)),
        ):
            with pytest.raises(StoreLockedError, match=r"the store of b1 in the database is in use: stop its brokers"):
                copy_store(order)
        # It was not fenced for that.
        used.commit([Append("p", [(Tick(2), b"x")])])
    assert not (tmp_path / "b").exists()


def test_a_target_with_data_is_refused(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(1))
    with store_in(url) as store:
        store.commit([SetValue("v", b"1")])
    with pytest.raises(StoreRefusedError, match=r"of broker 'b1' of overlay 'o' in .* is not empty"):
        copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)))
    with store_in(url) as store:
        assert store.recovered().values == {"v": b"1"}


def test_a_source_that_is_not_there_is_told_with_those_that_are(tmp_path: Path, url: str) -> None:
    order = CopyOrder(CopyEnd(url, "o", "b9"), CopyEnd(str(tmp_path / "b")))
    with pytest.raises(StoreRefusedError, match=r"has no store of broker 'b9' of overlay 'o'; .* it has: none"):
        copy_store(order)
    with store_in(url), store_in(url, "q.home"):
        pass
    with pytest.raises(StoreRefusedError, match=r"of this overlay it has: b1, q\.home"):
        copy_store(order)
    with pytest.raises(StoreRefusedError, match="say whose with --overlay and --broker"):
        copy_store(CopyOrder(CopyEnd(url), CopyEnd(str(tmp_path / "b"))))


def test_no_broker_opens_half_a_copy_and_a_new_one_begins_from_scratch(tmp_path: Path, url: str) -> None:
    class InterruptionError(Exception):
        """As a kill would."""

    def interrupted(_done: int, _total: int) -> None:
        raise InterruptionError

    with opened(tmp_path / "a") as source:
        fill(source, Random(2))
        wanted = content(source)
    with pytest.raises(InterruptionError):
        copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url), on_copy=interrupted))
    reports: list[Report] = []
    worker = StoreWorker(DatabasePlace(url, "o", "b1"), reports.append)
    worker.run(5)
    # If the database is slow, that is reported before.
    (failed,) = [each for each in reports if isinstance(each, Failed)]
    assert "was not finished: begin it anew" in str(failed.error)
    with pytest.raises(StoreRefusedError, match="was not finished: there is nothing to copy from"):
        copy_store(CopyOrder(CopyEnd(url, "o", "b1"), CopyEnd(str(tmp_path / "b"))))
    copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)))
    with store_in(url) as store:
        assert content(store) == wanted
        assert COPYING not in store.recovered().values


def test_no_broker_opens_a_target_between_the_look_at_it_and_the_copy(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(2))
        wanted = content(source)
    reports: list[Report] = []
    opens: list[OnWait] = []
    really_open = MovableDatabasePlace.open

    def between(place: MovableDatabasePlace, on_wait: OnWait) -> MovableDatabaseStore:
        opens.append(on_wait)
        if len(opens) == 2:
            worker = StoreWorker(DatabasePlace(url, "o", "b1"), reports.append)
            worker.put(Commit(1, (Append("p", [(Tick(2**62), b"acknowledged")]),)))
            worker.end()
            worker.run(5)
        return really_open(place, on_wait)

    monkeypatch.setattr(MovableDatabasePlace, "open", between)
    copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)))
    assert not [each for each in reports if isinstance(each, Opened | Committed)]
    with store_in(url) as store:
        assert content(store) == wanted


def test_a_copy_that_was_overtaken_ends(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(2))

    def overtaken(_done: int, _total: int) -> None:
        DatabasePlace(url, "o", "b1").open(lambda _: None).close()

    with pytest.raises(StoreFencedError):
        copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url), on_copy=overtaken))


def test_ticks_that_may_be_lost_are_damaged_for_whoever_opens_the_store(url: str) -> None:
    with store_in(url) as store:
        store.commit([Append("p", [(Tick(5), b"x")])])
        store.commit([MarkLost("p", TickRange(Tick(7), Tick(9)))])
        store.commit([Append("p", [(Tick(12), b"y")])])
    with closing(DatabasePlace(url, "o", "b1").open(lambda _: None)) as again:
        part = again.read_part("p", TICK_MIN, TICK_MAX, bytes_max=100)
        assert (part.messages, part.last) == ([(5, b"x")], 6)
        assert part.damaged is not None
        assert part.damaged.ticks == TickRange(Tick(7), Tick(9))
        assert again.read_part("p", Tick(10), TICK_MAX, bytes_max=100).messages == [(12, b"y")]


def test_a_broker_recovers_from_the_copy_what_it_would_have_from_the_folder(tmp_path: Path, url: str) -> None:
    with opened(tmp_path / "a") as source:
        fill(source, Random(3))
    copy_store(CopyOrder(CopyEnd(str(tmp_path / "a")), CopyEnd(url)))
    found: list[Report] = []
    for place in (FolderPlace(tmp_path / "a", "o", "b1", reserve_bytes=0), DatabasePlace(url, "o", "b1")):
        worker = StoreWorker(place, found.append)
        worker.end()
        worker.run(5)
    ours, theirs = (each for each in found if isinstance(each, Opened))
    assert theirs.incarnation == ours.incarnation
    assert theirs.recovered.values == ours.recovered.values
    assert list(theirs.recovered.kept.items()) == list(ours.recovered.kept.items())
    assert theirs.recovered.pubends.keys() == ours.recovered.pubends.keys()
    for name, pubend in ours.recovered.pubends.items():
        assert theirs.recovered.pubends[name].size_bytes == pubend.size_bytes
