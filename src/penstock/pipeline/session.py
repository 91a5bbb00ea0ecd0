"""Builds the Spark session that all of Penstock's jobs use: quiet, tuned, and the same for every command.

Embedded (``local[*]``) unless a master is named. Spark's own chatter goes to a file, which is named when something
fails and removed otherwise. A process has one session: a second request gets the running session if it asks for the
same master.
"""

from __future__ import annotations

import logging
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import penstock
from penstock.model.errors import MisuseError
from penstock.pipeline.errors import SessionError, SparkMissingError
from penstock.pipeline.java import find_java
from penstock.pipeline.launching import (
    check_reachable,
    class_archive_options,
    failure_of,
    is_news,
    launched,
    set_environment,
    spark_folder,
    start_failure,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["SessionSettings", "check_requirements", "open_session", "pack", "using_session"]

_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_MASTER: Final = re.compile(
    r"local|local\[(?:\*|[1-9]\d*)(?:,[1-9]\d*)?\]|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+"
)

_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Timestamp of the files in a zip, so that the same sources always make the same zip."""


@dataclass(slots=True, frozen=True)
class SessionSettings:
    """Where and how Spark runs."""

    master: str = "local[*]"
    """``local[*]`` (this process, all cores), ``local[N]``, or the address of a cluster."""
    driver_memory: str = "1g"
    """Memory of this process's Java; when embedded, there is no other."""
    executor_memory: str = "1g"
    """Memory of each executor on a cluster."""
    parallelism: int | None = None
    """Partitions of a shuffle and of data made here; if None, the core count when embedded, else Spark's choice."""
    event_log: Path | None = None
    """Folder for Spark's event log, which its history server shows."""
    app_name: str = "penstock"
    """The name shown on the cluster's pages."""
    ui: bool = False
    """Whether Spark serves its web UI while it runs."""
    class_archive: bool = True
    """Whether an embedded Spark starts from an archive of Java's classes, and makes one if there is none."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Any of Spark's own settings; they override ours."""

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            raise MisuseError(
                f"master {self.master!r} is not one of local[*], local[N], spark://HOST:PORT, yarn, k8s://URL"
            )
        for name, memory in (("driver", self.driver_memory), ("executor", self.executor_memory)):
            if not _MEMORY.fullmatch(memory):
                raise MisuseError(f"{name} memory {memory!r} is not a number with k, m, g or t, such as 2g")
        if self.parallelism is not None and self.parallelism < 1:
            raise MisuseError(f"parallelism is {self.parallelism}, but must be at least 1")

    @property
    def local_cores(self) -> int | None:
        """How many cores an embedded Spark uses; None on a cluster."""
        found = _LOCAL.fullmatch(self.master)
        if found is None:
            return None
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)

    def spark_conf(self, folder: Path, java_options: Sequence[str] = ()) -> dict[str, str]:
        """Spark's settings: Penstock's, overridden by the user's."""
        options = [f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}", *java_options]
        conf = {
            "spark.master": self.master,
            "spark.app.name": self.app_name,
            "spark.driver.memory": self.driver_memory,
            "spark.executor.memory": self.executor_memory,
            "spark.driver.extraJavaOptions": " ".join(options),
            "spark.ui.enabled": str(self.ui).lower(),
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.python.filterPushdown.enabled": "true",
            # Pages of the lake carry checksums: corrupted data raises an error instead of being read.
            "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        }
        partitions = self.parallelism or self.local_cores
        if partitions is not None:
            conf["spark.default.parallelism"] = conf["spark.sql.shuffle.partitions"] = str(partitions)
            # Without this, Spark lists a table of a few files with one task per file.
            conf["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(partitions)
        if self.event_log is not None:
            conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": self.event_log.absolute().as_uri()}
        return conf | dict(self.conf)


def check_requirements() -> None:
    """Check that PySpark and Java are installed, or say what to install."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            raise SparkMissingError(f"{module} is not installed; install it with: pip install 'penstock[spark]'")
    find_java()


def open_session(settings: SessionSettings | None = None) -> SparkSession:
    """Start the session of this process, or return the running one if its master is the same."""
    settings = settings or SessionSettings()
    check_requirements()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context  # noqa: SLF001  (there is no public way to ask)
    if running is None:
        running = _started(settings)
    elif running.master != settings.master:
        raise MisuseError(
            f"this process has a Spark session on {running.master} already, and cannot have one on {settings.master}"
        )
    from penstock.pipeline.source import PenstockSource

    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(PenstockSource)
    return spark


@contextmanager
def using_session(settings: SessionSettings | None = None) -> Iterator[SparkSession]:
    """The session of this process; stopped afterwards if this call started it."""
    check_requirements()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    was_running = SparkContext._active_spark_context is not None  # noqa: SLF001
    spark = open_session(settings)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise SessionError(failure_of(error)) from error
    finally:
        if not was_running:
            # Java may be gone already, which does not matter here.
            with suppress(Exception):
                spark.stop()


def pack(target: Path) -> Path:
    """Write the installed sources of Penstock into a zip that is sent to the executors of a cluster.

    Only Penstock is sent. Its dependencies (msgspec and numpy at least) are compiled per machine, and must be installed
    for the workers' Python.
    """
    root = Path(penstock.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                entry = zipfile.ZipInfo(str(path.relative_to(root.parent)), _SAME_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return target


def _started(settings: SessionSettings) -> SparkContext:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException

    if settings.event_log is not None:
        _make_event_log(settings.event_log)
    check_reachable(settings.master)
    folder = spark_folder()
    java_options = class_archive_options() if settings.class_archive and settings.local_cores is not None else []
    conf = SparkConf(loadDefaults=False).setAll(list(settings.spark_conf(folder, java_options).items()))
    set_environment(settings.master)
    logging.getLogger().addFilter(is_news)
    try:
        context = SparkContext(conf=conf, gateway=launched(conf, folder))
        if settings.local_cores is None:
            context.addPyFile(str(pack(folder / "penstock.zip")))
    except (PySparkException, Py4JError, OSError) as error:
        _stop_whatever_runs()
        raise SessionError(start_failure(settings.master)) from error
    return context


def _stop_whatever_runs() -> None:
    from pyspark import SparkContext

    left = SparkContext._active_spark_context  # noqa: SLF001
    if left is not None:
        with suppress(Exception):
            left.stop()


def _make_event_log(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MisuseError(f"cannot write the event log to {folder}: {error.strerror}") from None
