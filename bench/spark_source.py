"""Measures the rows per second of Spark's source, against the raw client and the same rows from Parquet, in one run.

One broker, a real process on this machine, has a log of quotes with seven attributes and payloads of 100 bytes. Each
figure is the best of three reads into nowhere (Spark's sink ``noop``), after a warm-up. The last table shows where the
time goes: processor time per row, by process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.live_driver import Driver
from bench.live_load import Load
from bench.report import Report
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.reporting import Reporter
from penstock.pipeline import SessionSettings, using_session
from penstock.sim.workloads import QuoteWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["run"]

_PLAN: Final = OverlayPlan(
    {"b1": ("b1.a",)}, defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000, "retain_ms": 86_400_000}
)
_TARGET: Final = 300_000.0
_BATCH: Final = 64
_ROUNDS: Final = 3
_DECLARED: Final = "class string, symbol string, open double, high double, low double, close double, volume long"
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure batch and stream reads, raw client and Parquet; then who needs the processors."""
    rows = 100_000 if quick else 1_000_000
    quotes = QuoteWorkload(Random(seed)).sample(2_000)
    load = Load([{name: value for name, value in quote.items() if name != "date"} for quote in quotes[:1_920]])
    with DemoOverlay(_PLAN) as overlay:
        with Driver(overlay.port("b1"), selectors=[], publishers=1) as filling:
            reporter.stage(f"spark-source: publishing {rows:,} messages")
            while filling.sent < rows:
                filling.pour(load, seconds=0.5, batch=_BATCH)
        with using_session(SessionSettings(master="local[2]", app_name="penstock bench")) as spark:
            yield from _Bench(reporter, overlay, spark).reports()


class _Bench:
    """All measurements, on the same rows."""

    def __init__(self, reporter: Reporter, overlay: DemoOverlay, spark: SparkSession) -> None:
        self._reporter, self._spark = reporter, spark
        self._url, self._broker = overlay.url("b1"), overlay.pid("b1")
        self._rows = 0
        self._alone: dict[str, float] = {}
        self._cpu: dict[str, tuple[float, float, float]] = {}

    def reports(self) -> Iterator[Report]:
        """Both tables."""
        with TemporaryDirectory(prefix="penstock-") as folder:
            rates = self._rates(Path(folder))
        yield self._speed(rates)
        yield self._shares()

    def _rates(self, folder: Path) -> dict[str, float]:
        parquet = str(folder / "rows")
        rates = {"raw client, bodies only": self._rate("raw client, bodies only", self._raw)}
        self._table().write.parquet(parquet)
        assert self._spark.read.parquet(parquet).count() == self._rows, "Spark has not read what the client has"
        works: dict[str, Callable[[], None]] = {
            "batch, declared columns": lambda: _drain(self._table(_DECLARED)),
            "batch, standard columns": lambda: _drain(self._table()),
            "stream, declared columns": lambda: self._stream(_DECLARED),
            "stream, standard columns": lambda: self._stream(""),
            "Parquet, standard columns": lambda: _drain(self._spark.read.parquet(parquet)),
        }
        return rates | {name: self._rate(name, work) for name, work in works.items()} | self._alone

    def _rate(self, name: str, work: Callable[[], None]) -> float:
        self._reporter.stage(f"spark-source: {name}")
        work()
        taken_s = []
        before = self._processor_s()
        for _ in range(_ROUNDS):
            started_s = time.perf_counter()
            work()
            taken_s.append(time.perf_counter() - started_s)
        per_row = 1e6 / (_ROUNDS * self._rows)
        self._cpu[name] = tuple(  # type: ignore[assignment]
            (after - was) * per_row for was, after in zip(before, self._processor_s(), strict=True)
        )
        return self._rows / min(taken_s)

    def _raw(self) -> None:
        with connect_sync(self._url) as client:
            span = client.survey().spans["b1.a"]
            self._rows = sum(len(part.bodies) for part in client.read("b1.a", span.earliest, span.latest))

    def _table(self, schema: str = "") -> DataFrame:
        reader = self._spark.read.format("penstock").option("broker", self._url)
        return (reader.schema(schema) if schema else reader).load()

    def _stream(self, schema: str) -> None:
        options = {"broker": self._url, "startingPosition": "earliest"}
        reader = self._spark.readStream.format("penstock").options(**options)
        frame = (reader.schema(schema) if schema else reader).load()
        with TemporaryDirectory(prefix="penstock-") as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            assert sum(each.numInputRows for each in query.recentProgress) == self._rows
            name = f"stream, {'declared' if schema else 'standard'} columns, without its start and end"
            rate = max(each.processedRowsPerSecond for each in query.recentProgress)
            self._alone[name] = max(rate, self._alone.get(name, 0.0))

    def _speed(self, rates: dict[str, float]) -> Report:
        report = Report(
            f"{self._rows:,} rows of one pubend into Spark, local[2], the broker on the same processors (target)",
            ("", "rows/s", "of the raw client", "of Parquet"),
        )
        raw, parquet = rates["raw client, bodies only"], rates["Parquet, standard columns"]
        for name, rate in rates.items():
            target = f" ({_TARGET:,.0f})" if name.startswith(("batch", "stream")) else ""
            report.rows.append((name, f"{rate:,.0f}{target}", rate / raw, rate / parquet))
            report.figures[f"{name.replace(',', '').replace(' ', '_').lower()}_per_s"] = rate
        return report

    def _shares(self) -> Report:
        report = Report(
            "processor time for each row, μs: the largest is the bottleneck",
            ("", "broker", "Spark's Java", "Python of Spark's tasks, or of the raw client"),
        )
        for name, (broker, java, python) in self._cpu.items():
            report.rows.append((name, broker, java, python))
        return report

    def _processor_s(self) -> tuple[float, float, float]:
        """Processor time so far: of the broker, of Java, and of Python in this process and below Java."""
        java = _java(self._spark)
        below = sum(_processor_s(pid) for pid in _descendants(java))
        return (
            _processor_s(self._broker),
            _processor_s(java, reaped=False),
            below + _processor_s(os.getpid(), reaped=False),
        )


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _java(spark: SparkSession) -> int:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _descendants(pid: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: list[int] = []
    for each in (pid, *parents):
        found += [child for child, parent in parents.items() if parent == each and (each == pid or each in found)]
    return list(dict.fromkeys(found))


def _processor_s(pid: int, *, reaped: bool = True) -> float:
    """Processor time of a process, with that of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if reaped else 13])) / _TICKS_PER_S
