"""The law of stores, which SQLite and PostgreSQL keep alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from penstock.broker.durable import Append, Change, ForgetPublishers, KeepRecord, MarkLost, SetValue, Trim
from penstock.lab.databases import DatabaseServer, database_folder, missing_reason
from penstock.live.postgres.place import DatabasePlace
from penstock.live.store import ChangeRefusedError
from penstock.live.store.place import FolderPlace
from penstock.live.stores import Place, Store
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange
from penstock.sim.disk import Disk

Reopen = Callable[[], Store]


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    """A database that the tests of this module share: each has a store of its own."""
    if missing_reason():
        pytest.skip(missing_reason())
    with database_folder() as folder, DatabaseServer(folder / "db") as server:
        yield server.make().start()


@pytest.fixture(params=["sqlite", "postgresql"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the store, and closes it first if it is open."""
    place: Place = FolderPlace(tmp_path / "store", "test", "b1", reserve_bytes=0)
    if request.param == "postgresql":
        server: DatabaseServer = request.getfixturevalue("server")
        place = DatabasePlace(server.url, request.node.name, "b1")
    with ExitStack() as stack:

        def opened() -> Store:
            stack.close()
            return stack.enter_context(closing(place.open(no_wait)))

        yield opened


def no_wait(reason: str) -> None:
    raise AssertionError(f"nothing should have to wait: {reason}")


def messages(*ticks: int, size: int = 3) -> list[tuple[Tick, bytes]]:
    return [(Tick(tick), b"%d" % tick + b"." * size) for tick in ticks]


def ticks_of(store: Store, first: int = TICK_MIN, last: int = TICK_MAX) -> list[int]:
    return [tick for tick, _ in store.read_part("p", Tick(first), Tick(last), bytes_max=1 << 30).messages]


def test_a_new_store_has_nothing(reopen: Reopen) -> None:
    store = reopen()
    recovered = store.recovered()
    assert (dict(recovered.pubends), dict(recovered.values), dict(recovered.kept)) == ({}, {}, {})
    assert store.recovery.created
    assert store.read_part("p", Tick(5), Tick(9), bytes_max=10).last == TICK_MAX
    assert not reopen().recovery.created


def test_what_was_committed_is_there_when_the_store_is_opened_again(reopen: Reopen) -> None:
    reopen().commit(
        [
            Append("p", messages(5, 7), lease=Tick(9), sequences={b"a": 1, b"b": 7}),
            Append("p", messages(8), sequences={b"a": 3}),
            Append("q", lease=Tick(4)),
            SetValue("v", b"\x00value"),
            KeepRecord("k", b"kept"),
        ]
    )
    store = reopen()
    recovered = store.recovered()
    pubend = recovered.pubends["p"]
    assert (pubend.lease, pubend.first_tick, pubend.last_tick, pubend.trimmed_below) == (9, 5, 8, TICK_MIN)
    assert dict(pubend.sequences) == {b"a": 3, b"b": 7}
    assert pubend.size_bytes == 12
    assert (recovered.pubends["q"].lease, recovered.pubends["q"].last_tick) == (4, None)
    assert recovered.values == {"v": b"\x00value"}
    assert recovered.kept == {"k": b"kept"}
    assert store.read_part("p", Tick(5), Tick(8), bytes_max=100).messages == messages(5, 7, 8)


def test_a_refused_change_leaves_no_trace_of_its_commit(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(5))])
    with pytest.raises(ChangeRefusedError, match="tick 5 is below 6"):
        store.commit([SetValue("v", b"1"), Append("p", messages(5))])
    store.commit([Append("p", messages(6))])
    assert store.recovered().values == {}
    assert ticks_of(store) == [5, 6]


def test_a_later_change_of_the_same_commit_counts(reopen: Reopen) -> None:
    store = reopen()
    store.commit([SetValue("v", b"1"), SetValue("v", b"2"), SetValue("w", b"1"), SetValue("w", None)])
    store.commit([KeepRecord("k", b"1"), KeepRecord("m", b"1"), KeepRecord("k", b"2"), KeepRecord("m", None)])
    recovered = reopen().recovered()
    assert recovered.values == {"v": b"2"}
    assert recovered.kept == {"k": b"2"}


def test_kept_records_come_back_in_the_order_in_which_they_were_kept(reopen: Reopen) -> None:
    store = reopen()
    store.commit([KeepRecord(name, name.encode()) for name in ("c", "a", "b")])
    store.commit([KeepRecord("c", b"again")])
    store = reopen()
    store.commit([KeepRecord("d", b"d")])
    assert list(reopen().recovered().kept) == ["a", "b", "c", "d"]


def test_sequence_numbers_never_fall(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(5), sequences={b"a": 9})])
    store.commit([Append("p", messages(6), sequences={b"a": 4})])
    assert dict(reopen().recovered().pubends["p"].sequences) == {b"a": 9}


def test_publishers_are_forgotten_by_their_latest_tick(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(5), sequences={b"a": 1}), Append("p", messages(9), sequences={b"b": 1})])
    store.commit([ForgetPublishers("p", Tick(9))])
    assert dict(reopen().recovered().pubends["p"].sequences) == {b"b": 1}


def test_a_trim_cuts_the_batch_in_which_it_ends(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(1, 2, 3))])
    store.commit([Append("p", messages(4, 5, 6))])
    store.commit([Trim("p", Tick(5))])
    assert ticks_of(store) == [5, 6]
    store = reopen()
    assert store.trimmed_below("p") == 5
    assert ticks_of(store) == [5, 6]
    assert store.recovered().pubends["p"].size_bytes == 8


def test_a_trim_may_concern_what_the_same_commit_appends(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(1, 2, 3)), Trim("p", Tick(3))])
    assert ticks_of(store) == [3]
    store.commit([Trim("p", Tick(100))])
    assert (ticks_of(store), store.trimmed_below("p")) == ([], 100)
    recovered = reopen().recovered().pubends["p"]
    assert (recovered.first_tick, recovered.last_tick, recovered.trimmed_below) == (None, 3, 100)


def test_a_trim_drops_no_more_batches_than_it_may(reopen: Reopen) -> None:
    store = reopen()
    for tick in range(1, 6):
        store.commit([Append("p", messages(tick))])
    store.commit([Trim("p", Tick(5), batches_max=2)])
    assert ticks_of(store) == [3, 4, 5]
    assert store.trimmed_below("p") == 3


def test_ticks_that_are_marked_as_lost_are_reported_and_never_silence(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(5))])
    store.commit([MarkLost("p", TickRange(Tick(8), Tick(20))), Append("p", messages(21))])
    store = reopen()
    assert store.recovered().pubends["p"].last_tick == 21
    part = store.read_part("p", Tick(5), Tick(30), bytes_max=100)
    assert (part.messages, part.last) == (messages(5), 7)
    assert part.damaged is not None
    assert part.damaged.ticks == TickRange(Tick(8), Tick(20))
    assert ticks_of(store, 21) == [21]
    with pytest.raises(ChangeRefusedError, match="lost ticks 9 to 30 do not lie above 21"):
        store.commit([MarkLost("p", TickRange(Tick(9), Tick(30)))])


def test_a_new_pubend_may_begin_with_lost_ticks(reopen: Reopen) -> None:
    reopen().commit([MarkLost("p", TickRange(Tick(8), Tick(20)))])
    store = reopen()
    assert store.recovered().pubends["p"].last_tick == 20
    store.commit([Append("p", messages(21)), Trim("p", Tick(21))])
    assert ticks_of(reopen()) == [21]


def test_a_part_ends_where_there_is_no_room(reopen: Reopen) -> None:
    store = reopen()
    store.commit([Append("p", messages(1, 2, 3, size=100))])
    part = store.read_part("p", Tick(1), Tick(10), bytes_max=150)
    assert (part.messages, part.last) == (messages(1, size=100), 1)
    assert store.read_part("p", Tick(4), Tick(10), bytes_max=1).last == TICK_MAX


def test_kept_records_are_read_as_far_as_there_is_room(reopen: Reopen) -> None:
    store = reopen()
    store.commit([KeepRecord("a", b"a" * 50), KeepRecord("b", b"b" * 50)])
    assert store.read_kept(["b", "none", "a"], bytes_max=60).values == {"b": b"b" * 50, "none": None}
    assert store.read_kept(["a"], bytes_max=1).values == {"a": b"a" * 50}


def test_more_pages_than_one_are_read_in_order(reopen: Reopen) -> None:
    store = reopen()
    for tick in range(10, 210):
        store.commit([Append("p", messages(tick))])
    assert ticks_of(store) == [*range(10, 210)]
    assert ticks_of(store, 15, 140) == [*range(15, 141)]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_committed_it_is_as_in_the_model(reopen: Reopen, seed: int) -> None:
    rng, disk, store = Random(seed), Disk(), reopen()
    tick = 1
    for _ in range(60):
        changes: list[Change] = []
        for pubend in rng.sample(["p", "q", "r"], rng.randrange(3)):
            count = rng.randrange(4)
            written = messages(*range(tick, tick + count), size=rng.randrange(40))
            tick += count + rng.randrange(3)
            publisher = rng.choice([b"x", b"y", b"\x00z"])
            changes.append(Append(pubend, written, sequences={publisher: tick}))
            if rng.random() < 0.3:
                changes.append(Trim(pubend, Tick(max(1, tick - rng.randrange(30)))))
        if rng.random() < 0.3:
            changes.append(ForgetPublishers("p", Tick(max(1, tick - rng.randrange(50)))))
        if rng.random() < 0.3:
            changes.append(SetValue(rng.choice("abc"), rng.choice([None, rng.randbytes(5)])))
        if rng.random() < 0.3:
            changes.append(KeepRecord(rng.choice("abc"), rng.choice([None, rng.randbytes(5)])))
        disk.apply(changes)
        store.commit(changes)
        if rng.random() < 0.05:
            store = reopen()
    found, expected = store.recovered(), disk.recovered()
    assert dict(found.values) == dict(expected.values)
    assert list(found.kept.items()) == list(expected.kept.items())
    assert found.pubends.keys() == expected.pubends.keys()
    for name, wanted in expected.pubends.items():
        assert dict(found.pubends[name].sequences) == dict(wanted.sequences)
        # The model trims messages one by one, and so at other places when it is interrupted.
        assert found.pubends[name].last_tick == wanted.last_tick
        assert found.pubends[name].size_bytes == wanted.size_bytes
        assert (
            store.read_part(name, TICK_MIN, TICK_MAX, bytes_max=1 << 30).messages
            == (disk.read(name, disk.trimmed_below(name), TICK_MAX, 1 << 30)[0])
        )
