"""Starts the Java that Spark runs in, quietly: its output goes to a log file, which is named when something fails."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.model.errors import MisuseError
from penstock.pipeline.class_archive import archive_options, cache_folder, is_wanted
from penstock.pipeline.errors import SessionError
from penstock.pipeline.java import find_java

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

__all__ = [
    "check_reachable",
    "class_archive_options",
    "driver_log",
    "failure_of",
    "is_news",
    "launched",
    "set_environment",
    "spark_folder",
    "start_failure",
]

_LOOPBACK_MASTER: Final = re.compile(r"local|spark://(?:127\.|localhost)")
_REACH_S: Final = 10
_LAST_LINES: Final = 3
"""How many lines of Spark's log an error message quotes."""
_LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
_PYTHON: Final = """\
#!/bin/sh
case ${PYTHONPATH%%%%:*} in */pyspark.zip) PYTHONPATH=${PYTHONPATH#*:};; esac
export PYTHONPATH
exec %(python)s "$@"
"""
"""Spark puts a zipped PySpark ahead of the installed one, and Python recompiles whatever it imports from a zip in every
process: more than half a second per worker, instead of a tenth."""


class _Folder:
    """The temporary folder of this process's Spark; deleted when the process ends, unless something failed."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.python: str | None = None
        """The command that starts workers, if we supply our own."""
        self.kept = False

    def made(self) -> Path:
        if self.path is None:
            self.path = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
            (self.path / "log4j2.properties").write_text(_LOG_SETTINGS, encoding="utf-8")
            atexit.register(self._remove)
        return self.path

    def _remove(self) -> None:
        if self.path is not None and not self.kept:
            shutil.rmtree(self.path, ignore_errors=True)


_folder: Final = _Folder()


def spark_folder() -> Path:
    """The folder of this process, created on first use."""
    return _folder.made()


def failure_of(error: Exception) -> str:
    """Describe a failure of Spark in one line, with the path of the log."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    # When Java raised the error, the first line only names the call; the second line says what went wrong.
    is_call = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    text = lines[1].removeprefix(": ").strip() if is_call else lines[0]
    hint = "; penstock pipeline check LAKE --set-aside finds damaged files" if "FAILED_READ_FILE" in text else ""
    return f"Spark failed: {text}{hint}; its log is {driver_log()}"


def driver_log() -> Path:
    """The path of Spark's log; asking for it keeps the log, since a caller names it when it reports a failure."""
    _folder.kept = True
    return _folder.made() / "driver.log"


def start_failure(master: str) -> str:
    """Say why Spark did not start, quoting its log."""
    log = driver_log()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "ERROR" in line] or [line for line in lines if "xception" in line] or lines
    told = "".join(f"\n  {line.strip()}" for line in errors[:_LAST_LINES])
    return f"Spark did not start on {master}; its log is {log}{told}"


def check_reachable(master: str) -> None:
    """Check that a cluster answers; Spark itself would retry for a minute and then fail with a wall of text."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            raise MisuseError(f"master {master!r} is not of the form spark://HOST:PORT")
        with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S):
            return
    raise SessionError(f"no Spark master answers at {master}")


def is_news(record: logging.LogRecord) -> bool:
    """Filter out the line and stack trace that py4j logs when a user presses Ctrl-C."""
    return "KeyboardInterrupt while sending command" not in str(record.msg)


def set_environment(master: str) -> None:
    """Set what Spark reads only from the environment; the user's own settings stay."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ.pop("JAVA_HOME", None)
    # A value set by an earlier session of this process is not the user's choice.
    if os.environ.get("PYSPARK_PYTHON") in (None, _folder.python):
        is_ours = master.startswith("local") and "SPARK_HOME" not in os.environ
        os.environ["PYSPARK_PYTHON"] = _quick_python() if is_ours else sys.executable
    if _LOOPBACK_MASTER.match(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def class_archive_options() -> list[str]:
    """The options by which Java starts from an archive of Spark's classes; none if the user does not want that."""
    import pyspark

    folder = cache_folder(os.environ)
    if folder is None or not is_wanted(os.environ):
        return []
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return archive_options(find_java(), home / "jars", pyspark.__version__, folder)


def _quick_python() -> str:
    """A command that runs this Python but imports no zipped PySpark; plain Python where scripts cannot be executed."""
    path = spark_folder() / "python"
    path.write_text(_PYTHON % {"python": shlex.quote(sys.executable)}, encoding="utf-8")
    path.chmod(0o700)
    if not os.access(path, os.X_OK):
        return sys.executable
    _folder.python = str(path)
    return _folder.python


def launched(conf: SparkConf, folder: Path) -> JavaGateway:
    """Start Java beside this process, logging to a file; reuses the one an earlier session left."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001
        return SparkContext._gateway  # noqa: SLF001
    with (folder / "driver.log").open("ab") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT}
        gateway: JavaGateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
        return gateway
