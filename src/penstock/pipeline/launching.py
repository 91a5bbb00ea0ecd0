"""Starts the Java that Spark runs in, quietly: its words go to a file, which is named when something fails."""

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
from penstock.pipeline.errors import SessionError
from penstock.pipeline.java import find_java

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

__all__ = [
    "check_reachable",
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
"""So many lines of Spark's own words are worth showing."""
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
"""Spark puts an archive of PySpark in front of what is installed, and Python compiles whatever it takes from an archive
anew in every process: more than half a second for each worker, instead of a tenth."""


class _Folder:
    """Where one process keeps what its Spark needs; it goes when the process ends, unless something failed."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.python: str | None = None
        """The command that workers are started by, if there is one of our own."""
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
    """The folder of this process, made when it is first asked for."""
    return _folder.made()


def failure_of(error: Exception) -> str:
    """A failure of Spark in one line for people, with the place where they find more."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    # Of what Java itself has thrown, the first line says who called, and the second what it was.
    is_call = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    text = lines[1].removeprefix(": ").strip() if is_call else lines[0]
    hint = "; penstock pipeline check LAKE --set-aside finds damaged files" if "FAILED_READ_FILE" in text else ""
    return f"Spark failed: {text}{hint}; its log is {driver_log()}"


def driver_log() -> Path:
    """Where Spark's own words go; whoever reports a failure of Spark names it, and so it is kept."""
    _folder.kept = True
    return _folder.made() / "driver.log"


def start_failure(master: str) -> str:
    """Why Spark did not start, as far as its own words tell."""
    log = driver_log()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines if "ERROR" in line] or [line for line in lines if "xception" in line] or lines
    told = "".join(f"\n  {line.strip()}" for line in errors[:_LAST_LINES])
    return f"Spark did not start on {master}; its log is {log}{told}"


def check_reachable(master: str) -> None:
    """See that a cluster answers; Spark itself would try for a minute, and then fail in many words."""
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
    """Whether a line is not the one that py4j writes, with its stack, when a person presses Ctrl-C."""
    return "KeyboardInterrupt while sending command" not in str(record.msg)


def set_environment(master: str) -> None:
    """What Spark reads from the environment and from nowhere else; what the user has set there stays."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = str(java.home)
    else:
        os.environ.pop("JAVA_HOME", None)
    # What an earlier session of this process has set is no wish of the user.
    if os.environ.get("PYSPARK_PYTHON") in (None, _folder.python):
        is_ours = master.startswith("local") and "SPARK_HOME" not in os.environ
        os.environ["PYSPARK_PYTHON"] = _quick_python() if is_ours else sys.executable
    if _LOOPBACK_MASTER.match(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _quick_python() -> str:
    """A command that is this Python, and does not import PySpark from an archive; itself where nothing may be run."""
    path = spark_folder() / "python"
    path.write_text(_PYTHON % {"python": shlex.quote(sys.executable)}, encoding="utf-8")
    path.chmod(0o700)
    if not os.access(path, os.X_OK):
        return sys.executable
    _folder.python = str(path)
    return _folder.python


def launched(conf: SparkConf, folder: Path) -> JavaGateway:
    """The Java beside this process, its words in a file; one that an earlier session left is used again."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:  # noqa: SLF001
        return SparkContext._gateway  # noqa: SLF001
    with (folder / "driver.log").open("ab") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT}
        gateway: JavaGateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
        return gateway
