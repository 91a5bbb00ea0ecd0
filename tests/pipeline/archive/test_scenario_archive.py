"""The archive from publishers to the lake: real brokers, the command as users give it, files as others read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
import pytest

from commands import PLAN, Commands, running
from penstock.client.client import connect
from penstock.lab.demo_overlay import free_ports
from penstock.pipeline.lake import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Commands]:
    ports = dict(zip(PLAN.pubends, free_ports(len(PLAN.pubends)), strict=True))
    file = tmp_path / "overlay.toml"
    file.write_text(PLAN.toml(ports))
    with running(file, list(ports)) as nodes:
        yield Commands(file, ports, nodes)


def publish(brokers: Commands, numbers: range) -> None:
    async def send() -> None:
        async with connect(brokers.url("pb1")) as client:
            for number in numbers:
                await client.publish({"n": number}, b"p", pubend=("pb1.a", "pb1.b")[number % 2])
            await client.flush()

    asyncio.run(send())


def numbers_in(lake: Path) -> list[int]:
    files = (lake / "publications").glob("date=*/pubend=pb1.*/*.parquet")
    tables = [pq.ParquetFile(path).read() for path in files]
    return sorted(int(dict(row)["n"]) for table in tables for row in table.column("attributes").to_pylist())


@pytest.mark.live
def test_what_was_published_is_in_the_lake_once(brokers: Commands, tmp_path: Path, spark: SparkSession) -> None:
    """
    1. Messages are published, and those that match are archived up to now.
    2. More are published; the same command goes on where it was.
    3. Another selector is refused, and nothing has changed.
    """
    lake = tmp_path / "lake"
    options = ["--broker", brokers.url("sb1"), "--lake", str(lake), "--once", "--master", "local[2]"]
    wanted = ["--selector", "n >= 5", "--json", "--merge-files", "2"]
    for numbers, rows in ((range(20), 15), (range(20, 30), 10)):
        publish(brokers, numbers)
        result = brokers.run("pipeline", "archive", *options, *wanted)
        assert result.exit_code == 0, result.stderr
        summary = msgspec.json.decode(result.stdout)
        assert (summary["rows"], summary["is_complete"]) == (rows, True)
        assert f"{rows} rows archived in 2 files" in result.stderr
    assert numbers_in(lake) == list(range(5, 30))
    refused = brokers.run("pipeline", "archive", *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is of selector 'n >= 5', not of 'TRUE'" in refused.stderr
    table = read_table(spark, str(lake), "publications")
    assert table.where("pubend = 'pb1.b'").count() == 13
    assert len({row.message_id for row in table.collect()}) == 25
