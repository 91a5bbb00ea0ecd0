"""An archive on Spark: every row once, whatever is repeated, interrupted or broken on the way."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import PLAN, running
from penstock.lab.demo_overlay import free_ports
from penstock.model.errors import MisuseError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.archive import Archive, ArchiveError, ArchiveSettings, ArchiveSummary, overlay_of, stop_signals
from penstock.pipeline.lake import CompactionPolicy, LakeBusyError, LakeMismatchError, LocalFiles, read_table
from pipeline.lake.lakes import BreakingFiles, Crash, batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "message_id string, pubend string, tick long, published_at timestamp, attributes map<string,string>, payload binary"
)
ONCE = CompactionPolicy(files_min=3)


class Feed:
    """A stream of publications: each file is one batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark, self._folder = spark, root / "feed"
        self._folder.mkdir()
        self.settings = ArchiveSettings("penstock://nowhere:1", str(root / "lake"), every_s=None, compaction=ONCE)
        self.rows: Counter[str] = Counter()

    def add(self, *batches: Any) -> None:
        table = pa.Table.from_batches(batches)
        self.rows.update(table.column("message_id").to_pylist())
        pq.write_table(table, self._folder / f"{len(list(self._folder.iterdir())):03}.parquet")

    def frame(self) -> DataFrame:
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))

    def run(self, files: LocalFiles | None = None, reporter: QuietReporter | None = None) -> ArchiveSummary:
        archive = Archive(files or LocalFiles(Path(self.settings.lake)), self.settings, "demo")
        return archive.run(self.frame(), reporter or QuietReporter())

    def archived(self) -> Counter[str]:
        return ids(read_table(self._spark, self.settings.lake, "publications"))

    def plain(self) -> Counter[str]:
        return ids(self._spark.read.parquet(f"{self.settings.lake}/publications"))


def ids(frame: DataFrame) -> Counter[str]:
    return Counter(row[0] for row in frame.select("message_id").collect())


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def numbers(first: int, count: int = 5) -> Iterable[int]:
    return range(first, first + count)


def test_every_row_is_archived_once_by_day_and_pubend(feed: Feed, spark: SparkSession) -> None:
    feed.add(batch_of(numbers(0)), batch_of(numbers(0), pubend="a:b"))
    feed.add(batch_of(numbers(5)), batch_of(numbers(0), days=1))
    summary = feed.run()
    assert (summary.rows, summary.batches, summary.repeated, summary.is_complete) == (20, 2, 0, True)
    assert feed.archived() == feed.plain() == feed.rows
    table = read_table(spark, feed.settings.lake, "publications")
    assert table.columns == ["message_id", "tick", "published_at", "attributes", "payload", "date", "pubend"]
    found = {(str(row.date), row.pubend): row["count"] for row in table.groupBy("date", "pubend").count().collect()}
    assert found == {("2024-10-04", "q"): 10, ("2024-10-04", "a:b"): 5, ("2024-10-05", "q"): 5}
    row = table.where("pubend = 'q' AND date = '2024-10-05'").orderBy("tick").first()
    assert row is not None
    assert (row.attributes, bytes(row.payload), row.published_at.year) == ({"n": "0"}, bytes(3), 1970)
    feed.add(batch_of(numbers(20)))
    assert feed.run().rows == 5
    assert feed.archived() == feed.plain() == feed.rows


def test_small_files_are_merged_on_the_way(feed: Feed) -> None:
    for number in range(5):
        feed.add(batch_of(numbers(10 * number)))
    summary = feed.run()
    assert (summary.merges, summary.files, summary.table_files) == (2, 5, 1)
    assert feed.archived() == feed.plain() == feed.rows


def test_a_batch_that_spark_forgot_is_not_archived_again(feed: Feed) -> None:
    feed.add(batch_of(numbers(0)))
    feed.add(batch_of(numbers(5)))
    feed.run()
    commits = Path(feed.settings.lake) / "_checkpoints/publications/spark/commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    feed.add(batch_of(numbers(10)))
    summary = feed.run()
    assert (summary.rows, summary.repeated) == (5, 1)
    assert feed.archived() == feed.plain() == feed.rows


@pytest.mark.parametrize("step", [2, 9, 17])
def test_a_life_that_ends_between_two_steps_is_continued_by_the_next(feed: Feed, step: int) -> None:
    class Ending(BreakingFiles):
        """Ends with what Spark can tell from Python, and leaves everything else as it is."""

        def _step(self, what: str, path: Path) -> None:
            try:
                super()._step(what, path)
            except Crash:
                raise RuntimeError("the end") from None

    feed.run()
    for number in range(3):
        feed.add(batch_of(numbers(10 * number)), batch_of(numbers(10 * number), pubend="r"))
    files = Ending(Path(feed.settings.lake))
    files.left = step
    with pytest.raises((ArchiveError, RuntimeError), match="the end"):
        feed.run(files)
    feed.run()
    assert feed.archived() == feed.plain() == feed.rows


def test_only_one_may_archive_at_a_time_and_only_the_same(feed: Feed) -> None:
    settings = feed.settings

    def open_it(settings: ArchiveSettings, overlay: str = "demo") -> None:
        with Archive.opened(settings, overlay):
            pass

    with Archive.opened(settings, "demo"), pytest.raises(LakeBusyError, match="is being written by process"):
        open_it(settings)
    with pytest.raises(LakeMismatchError, match="is of overlay 'demo', not of 'other'"):
        open_it(settings, "other")
    other = ArchiveSettings(settings.broker, settings.lake, selector="n > 5")
    with pytest.raises(LakeMismatchError, match="is of selector 'TRUE', not of 'n > 5'"):
        open_it(other)
    with Archive.opened(settings, "demo") as archive:
        assert archive.start == "earliest"


def test_a_lost_checkpoint_is_noticed(feed: Feed) -> None:
    feed.add(batch_of(numbers(0)))
    feed.run()
    shutil.rmtree(Path(feed.settings.lake) / "_checkpoints")
    with pytest.raises(LakeMismatchError, match="another checkpoint, which is gone"):
        feed.run()


def test_it_stops_when_it_is_asked_to_and_says_how_far_it_is(feed: Feed) -> None:
    lines: list[str] = []

    class Listener(QuietReporter):
        def stage(self, title: str, total: int | None = None) -> None:
            lines.append(title)

    feed.add(batch_of(numbers(0)))
    settings = ArchiveSettings("penstock://nowhere:1", feed.settings.lake, every_s=0.05)
    archive = Archive(LocalFiles(Path(settings.lake)), settings, "demo", show_every_s=0.0)
    summary = archive.run(feed.frame(), Listener(), lambda: any(line.startswith("5 rows archived") for line in lines))
    assert (summary.rows, summary.is_complete) == (5, False)
    assert feed.archived() == feed.rows


def test_what_a_task_failed_of_is_told_in_one_line(feed: Feed) -> None:
    feed.add(batch_of(numbers(0)))

    def refuse(batches: Any) -> Any:
        from penstock.session.errors import RefusedError

        for _ in batches:
            raise RefusedError("connect", "no such token")
        yield

    frame = feed.frame().mapInArrow(refuse, SCHEMA)
    archive = Archive(LocalFiles(Path(feed.settings.lake)), feed.settings, "demo")
    with pytest.raises(ArchiveError, match=r"^the broker refused to connect: no such token$"):
        archive.run(frame, QuietReporter())


def test_the_first_signal_is_noted_and_a_second_interrupt_is_rude() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_signals() as noted:
        assert noted() is None
        signal.raise_signal(signal.SIGTERM)
        assert noted() is signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_broker_tells_its_overlay(tmp_path: Path) -> None:
    ports = dict(zip(PLAN.pubends, free_ports(len(PLAN.pubends)), strict=True))
    file = tmp_path / "overlay.toml"
    file.write_text(PLAN.toml(ports))
    with running(file, list(ports)):
        assert overlay_of(ArchiveSettings(f"penstock://127.0.0.1:{ports['sb1']}", "lake")) == "demo"


def test_an_absent_broker_is_told_in_one_line() -> None:
    settings = ArchiveSettings("penstock://127.0.0.1:1", "lake", source={"retryTimeoutMs": "0"})
    with pytest.raises(ArchiveError, match="no broker can be reached"):
        overlay_of(settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (ArchiveSettings("nonsense://x", "lake"), "nonsense"),
        (ArchiveSettings("penstock://127.0.0.1:1", "lake", start="soon"), "'soon' is not one of earliest, latest"),
        (ArchiveSettings("penstock://127.0.0.1:1", "lake", source={"key": "k"}), "certificate and key need ca"),
    ],
)
def test_bad_options_are_misuse(settings: ArchiveSettings, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        overlay_of(settings)
