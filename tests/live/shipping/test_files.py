"""Files are whole and durable before they have their names, and their names say whose they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from live.shipping.lakes import BreakingFiles, Crash, Fuse, bloom_value, parquet_files, rows_of
from penstock.live.shipping.cargo import Cargo, Parcel
from penstock.live.shipping.files import LakeFiles
from penstock.live.shipping.rows import add_record
from penstock.model.lake_tables import RECORDS

FINAL = "histories/date=2023-11-14/broker=a%2Fb/0000000000007-000000000003.parquet"


def parcel(*filter_ids: int) -> Parcel:
    cargo = Cargo()
    for filter_id in filter_ids:
        add_record(cargo, *bloom_value(filter_id), now_ms=0)
    (found,) = cargo
    return found


def test_a_file_is_staged_where_nobody_looks_and_then_gets_its_name(tmp_path: Path) -> None:
    files = LakeFiles(tmp_path, "a/b")
    staged = files.stage(parcel(1, 2), 7, 3)
    assert staged.place == FINAL
    assert staged.path.startswith("_staging/a%2Fb/")
    assert not parquet_files(tmp_path, "histories")
    assert files.move([(staged.path, staged.place)])
    rows = rows_of(tmp_path, "histories")
    assert [(row["filter_id"], row["broker"], row["date"]) for row in rows] == [
        (1, "a/b", "2023-11-14"),
        (2, "a/b", "2023-11-14"),
    ]
    assert [(row["incarnation"], row["sequence"]) for row in rows] == [(7, 3), (7, 3)]
    assert (tmp_path / FINAL).stat().st_size == staged.size


def test_a_move_that_was_made_already_is_fine_and_one_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    files = LakeFiles(tmp_path, "b")
    staged = files.stage(parcel(1), 7, 3)
    moves = [(staged.path, staged.place)]
    assert files.move(moves)
    assert files.move(moves)
    (tmp_path / staged.place).unlink()
    assert not files.move(moves)


def test_everything_is_synced_before_it_is_relied_upon(tmp_path: Path) -> None:
    fuse = Fuse()
    files = BreakingFiles(tmp_path, "b", fuse)
    staged = files.stage(parcel(1), 7, 3)
    assert fuse.story[-2:] == ["write histories", "sync"]
    files.make_names_durable()
    files.move([(staged.path, staged.place)])
    assert fuse.story[-2:] == ["rename", "sync folder"]


def test_half_a_file_is_never_seen_and_is_cleared_away(tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path, "b", Fuse(2))
    with pytest.raises(Crash):
        files.stage(parcel(1), 7, 3)
    (half,) = (tmp_path / "_staging" / "b").iterdir()
    with pytest.raises(Exception, match=r"(?i)parquet"):
        pq.ParquetFile(half)
    LakeFiles(tmp_path, "b").clear_staging([f"_staging/b/{half.name}"])
    assert half.exists()
    LakeFiles(tmp_path, "c").clear_staging([])
    assert half.exists()
    LakeFiles(tmp_path, "b").clear_staging([])
    assert not half.exists()


def test_rows_and_blocks_of_columns_make_one_file(tmp_path: Path) -> None:
    one = parcel(1)
    names = one.names
    one.blocks.append(dict(zip(names, ([value] for value in one.rows[0]), strict=True)))
    files = LakeFiles(tmp_path, "b")
    staged = files.stage(one, 1, 1)
    files.move([(staged.path, staged.place)])
    assert len(rows_of(tmp_path, "histories")) == 2


def test_bits_take_about_the_space_they_need(tmp_path: Path) -> None:
    many = parcel(*range(200))
    staged = LakeFiles(tmp_path, "b").stage(many, 1, 1)
    assert staged.size < 200 * 128 + 16_384
    assert RECORDS.name not in staged.place


def test_flipped_bits_are_noticed_by_whoever_reads(tmp_path: Path) -> None:
    files = LakeFiles(tmp_path, "b")
    staged = files.stage(parcel(1), 7, 3)
    path = tmp_path / staged.path
    whole = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0)
    bits = next(
        column.column(number) for number in range(column.num_columns) if column.column(number).path_in_schema == "bits"
    )
    for place in range(bits.data_page_offset + 60, bits.data_page_offset + bits.total_compressed_size, 7):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises((OSError, ValueError)):
            pq.ParquetFile(path, page_checksum_verification=True).read()
    path.write_bytes(whole)
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 1
