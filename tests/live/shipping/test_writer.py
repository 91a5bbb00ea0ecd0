"""Batches through crashes: wherever a life ends, every row is in the lake once when the next one has shipped."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from live.shipping.lakes import (
    DAY_MS,
    T0,
    Crash,
    Fuse,
    bloom_value,
    breaking_writer,
    exact_value,
    parquet_files,
    position_value,
    rows_of,
)
from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.files import LakeFiles
from penstock.live.shipping.ledger import FILE_NAME, Event
from penstock.live.shipping.writer import LakeWriter, Load, Shipped
from penstock.tracking.keys import HistoryKey, Phase

NOW = T0 + 60_000
TABLES = ("histories", "records", "positions", "topology", "telemetry")


def writer_at(tmp_path: Path, incarnation: int = 1, *, kept: tuple[str, ...] = ()) -> LakeWriter:
    writer = breaking_writer(tmp_path, Fuse())
    writer.open(incarnation=incarnation, kept=kept, positions=(), now_ms=NOW)
    return writer


def store() -> Load:
    """What a broker has: filters of two days, exact records, a position."""
    filters = dict([bloom_value(1), bloom_value(2, is_open=True), bloom_value(3, opened_ms=T0 + DAY_MS)])
    exact = dict([exact_value(HistoryKey(Phase.ROUTE, 8), [(1, 2), (3, 4)])])
    return Load({**filters, **exact}, {"durable/p/s": position_value(5)}, [("up", {"of": "b"}, 1.0)])


def content(lake: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """What is in the lake, but for batches: every row as often as it is there."""
    found: dict[str, Counter[tuple[object, ...]]] = {}
    for table in TABLES:
        rows = [{k: v for k, v in row.items() if k not in ("incarnation", "sequence")} for row in rows_of(lake, table)]
        found[table] = Counter(tuple(map(repr, row.values())) for row in rows)
    return found


def test_a_batch_has_a_file_for_each_table_and_day(tmp_path: Path) -> None:
    writer = writer_at(tmp_path)
    shipped = writer.ship(store(), now_ms=NOW)
    lake = tmp_path / "lake"
    assert [len(parquet_files(lake, table)) for table in TABLES] == [2, 1, 1, 1, 1]
    assert (shipped.files, shipped.rows, shipped.records) == (6, 8, 5)
    assert shipped.size_bytes == sum(path.stat().st_size for table in TABLES for path in parquet_files(lake, table))
    assert not list((lake / "_staging" / "b1").iterdir())


def test_what_has_not_changed_is_not_shipped_again(tmp_path: Path) -> None:
    writer = writer_at(tmp_path)
    writer.ship(store(), now_ms=NOW)
    again = store()
    again.samples = ()
    assert writer.ship(again, now_ms=NOW) == Shipped()
    grown: dict[str, bytes | None] = dict([bloom_value(2, 2, is_open=True)])
    assert writer.ship(Load(grown, {"durable/p/s": position_value(6)}), now_ms=NOW).records == 2
    newest = rows_of(tmp_path / "lake", "histories", lambda row: row["filter_id"])
    assert {row["filter_id"]: row["generation"] for row in newest} == {1: 1, 2: 2, 3: 1}


def test_a_position_that_is_forgotten_is_told_once(tmp_path: Path) -> None:
    writer = writer_at(tmp_path)
    writer.ship(Load(positions={"durable/p/s": position_value(5), "durable/p/never": None}), now_ms=NOW)
    for _ in range(2):
        writer.ship(Load(positions={"durable/p/s": None}), now_ms=NOW)
    assert [row["is_forgotten"] for row in rows_of(tmp_path / "lake", "positions")] == [False, True]


def test_a_position_that_was_forgotten_while_nobody_looked_is_found_at_the_start(tmp_path: Path) -> None:
    first = writer_at(tmp_path)
    first.ship(Load(positions={"durable/p/s": position_value(5), "durable/p/t": position_value(5)}), now_ms=NOW)
    first.close()
    writer = breaking_writer(tmp_path, Fuse())
    opening = writer.open(incarnation=2, kept=(), positions=["durable/p/t"], now_ms=NOW)
    assert opening.forgotten == ["durable/p/s"]


def test_the_next_life_knows_what_may_have_to_be_shipped(tmp_path: Path) -> None:
    load = store()
    first = writer_at(tmp_path)
    first.ship(load, now_ms=NOW)
    first.close()
    writer = breaking_writer(tmp_path, Fuse())
    opening = writer.open(incarnation=2, kept=[*load.records, "filter/new"], positions=(), now_ms=NOW)
    assert opening.unsettled == [bloom_value(2)[0], "filter/new"]
    assert not opening.is_anew


def test_events_are_shipped_once_and_survive_a_crash(tmp_path: Path) -> None:
    first = writer_at(tmp_path)
    first.remember(Event(NOW, "link-up", "b2"))
    first.close()
    writer = writer_at(tmp_path, 2)
    for _ in range(2):
        writer.ship(Load(), now_ms=NOW)
    events = [(row["event"], row["neighbour"]) for row in rows_of(tmp_path / "lake", "topology")]
    assert events == [("start", ""), ("link-up", "b2"), ("start", "")]


def test_damaged_and_missing_records_are_counted_and_keep_nobody_else(tmp_path: Path) -> None:
    writer = writer_at(tmp_path)
    load = store()
    load.records |= {"filter/bad": b"", "filter/gone": None}
    load.positions |= {"durable/other/s": position_value(1)}
    shipped = writer.ship(load, now_ms=NOW)
    assert (shipped.damaged, shipped.missed, shipped.records) == (2, 1, 5)
    name = bloom_value(1)[0]
    assert writer.ship(Load({name: None}), now_ms=NOW).missed == 0
    assert writer.ledger.versions([name]) == {}


def steps_of_a_batch(tmp_path: Path) -> int:
    fuse = Fuse()
    writer = breaking_writer(tmp_path, fuse)
    writer.open(incarnation=1, kept=(), positions=(), now_ms=NOW)
    writer.ship(store(), now_ms=NOW)
    return len(fuse.story)


def test_a_crash_between_any_two_steps_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """1. A life ships, and ends at some step. 2. Sometimes the next ends, too. 3. The last one goes through."""
    steps = steps_of_a_batch(tmp_path / "measured")
    wanted = content(tmp_path / "measured" / "lake")
    assert steps > 25
    for step in range(steps):
        place = tmp_path / str(step)
        ends = (step, step + 1, None) if step % 4 == 0 else (step, None)
        for life, left in enumerate(ends, start=1):
            fuse = Fuse(left)
            writer = breaking_writer(place, fuse)
            load = store()
            writer.open(incarnation=life, kept=list(load.records), positions=list(load.positions), now_ms=NOW)
            if life > 1:
                # One sample was taken, whichever life ships it: the others come without.
                load.samples = () if rows_of(place / "lake", "telemetry") or writer.ledger.pending() else load.samples
            try:
                writer.ship(load, now_ms=NOW)
            except Crash:
                for table in TABLES:
                    for path in parquet_files(place / "lake", table):
                        pq.ParquetFile(path).read()
            writer.close()
        found = content(place / "lake")
        # Each life has begun, which is an event of its own.
        starts = found.pop("topology")
        assert sum(starts.values()) == len(ends), f"step {step}"
        assert found == {table: rows for table, rows in wanted.items() if table != "topology"}, f"step {step}"


def test_a_file_never_changes_once_it_has_its_name(tmp_path: Path) -> None:
    writer = writer_at(tmp_path)
    writer.ship(store(), now_ms=NOW)
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet")}
    writer.close()
    # The ledger is lost, and the clock was set back so that even the incarnation is the same.
    (tmp_path / "data" / FILE_NAME).unlink()
    writer = writer_at(tmp_path, 1)
    assert writer.ship(store(), now_ms=NOW).records == 5
    after = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*.parquet")}
    assert {path: after[path] for path in before} == before
    assert len(rows_of(tmp_path / "lake", "histories")) == 6
    assert len(rows_of(tmp_path / "lake", "histories", lambda row: row["filter_id"])) == 3


def test_a_damaged_ledger_ships_all_again(tmp_path: Path) -> None:
    writer_at(tmp_path).close()
    (tmp_path / "data" / FILE_NAME).write_bytes(b"damaged" * 1_000)
    writer = breaking_writer(tmp_path, Fuse())
    opening = writer.open(incarnation=2, kept=list(store().records), positions=(), now_ms=NOW)
    assert opening.is_anew
    assert len(opening.unsettled) == 4


def test_a_home_that_moves_ships_again_what_it_keeps_beside_what_it_shipped_elsewhere(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for life, machine in enumerate(("one", "other", "one"), start=1):
        writer = LakeWriter(LakeFiles(lake, "p.home"), folder=tmp_path / machine, pubends=("p",))
        before = {path: path.read_bytes() for table in TABLES for path in parquet_files(lake, table)}
        writer.open(incarnation=life, kept=list(store().records), positions=list(store().positions), now_ms=NOW)
        grown: dict[str, bytes | None] = dict([bloom_value(2, life, is_open=True)])
        load = store()
        load.records.update(grown)
        writer.ship(load, now_ms=NOW)
        writer.close()
        assert all(path.read_bytes() == content for path, content in before.items())
    newest = rows_of(lake, "histories", lambda row: row["filter_id"])
    assert {row["filter_id"]: (row["generation"], row["incarnation"]) for row in newest}[2] == (3, 3)


def test_a_batch_whose_files_were_deleted_is_shipped_again(tmp_path: Path) -> None:
    fuse = Fuse()
    writer = breaking_writer(tmp_path, fuse)
    writer.open(incarnation=1, kept=(), positions=(), now_ms=NOW)
    writer.ship(Load(), now_ms=NOW)
    fuse.story.clear()
    writer.ship(Load(dict([bloom_value(1)])), now_ms=NOW)
    fuse.left = fuse.story.index("after count") + 1
    with pytest.raises(Crash):
        writer.ship(Load(dict([bloom_value(2)])), now_ms=NOW)
    (staged,) = (tmp_path / "lake" / "_staging" / "b1").iterdir()
    staged.unlink()
    fuse.left = None
    writer.ship(Load(dict([bloom_value(2)])), now_ms=NOW)
    assert [row["filter_id"] for row in rows_of(tmp_path / "lake", "histories")] == [1, 2]


def test_a_lake_that_cannot_be_written_is_told_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where the folder should be")
    writer = writer_at(tmp_path)
    with pytest.raises(ShipError, match=r"the lake cannot be written: .*lake"):
        writer.ship(store(), now_ms=NOW)
    (tmp_path / "lake").unlink()
    assert writer.ship(store(), now_ms=NOW).records == 5


def test_a_ledger_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    def refuse(_folder: Path) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    files = LakeFiles(tmp_path, "b1")
    writer = LakeWriter(files, folder=tmp_path, open_ledger=refuse)  # type: ignore[arg-type]
    with pytest.raises(ShipError, match="the ledger cannot be used: disk I/O error"):
        writer.open(incarnation=1, kept=(), positions=(), now_ms=NOW)
