"""Starting Java: what the user has set stays, what is wrong is told, and what is no news is not."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.lab.demo_overlay import free_ports
from penstock.model.errors import MisuseError
from penstock.pipeline import launching
from penstock.pipeline.errors import SessionError
from penstock.pipeline.java import Java
from penstock.pipeline.launching import (
    check_reachable,
    class_archive_options,
    failure_of,
    is_news,
    set_environment,
    start_failure,
)

KEPT = "from penstock.pipeline.launching import driver_log, spark_folder; print(spark_folder())"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(launching, "find_java", lambda: Java(Path("/jdk/bin/java"), 17))
    return monkeypatch


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("local[2]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://far.away:7077", None),
        ("yarn", None),
    ],
)
def test_spark_is_told_its_java_its_python_and_loopback_where_the_master_is(master: str, address: str | None) -> None:
    set_environment(master)
    assert os.environ["JAVA_HOME"] == "/jdk"
    assert (os.environ["PYSPARK_PYTHON"] == sys.executable) is not master.startswith("local")
    assert os.environ.get("SPARK_LOCAL_IP") == address


def test_what_the_user_has_set_stays(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PYSPARK_PYTHON", "/their/python")
    environment.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    set_environment("local[*]")
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == ("/their/python", "10.0.0.7")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("given", "seen"),
    [("/spark/python/lib/pyspark.zip:/a:/b", "/a:/b"), ("/a:/lib/pyspark.zip:/b", "/a:/lib/pyspark.zip:/b"), ("", "")],
)
def test_the_python_of_an_embedded_spark_is_this_one_without_the_archive_of_pyspark(given: str, seen: str) -> None:
    set_environment("local[2]")
    asked = "import os, sys; print(sys.executable); print(os.environ['PYTHONPATH'])"
    told = subprocess.run(
        [os.environ["PYSPARK_PYTHON"], "-c", asked],
        env={**os.environ, "PYTHONPATH": given},
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout.splitlines() == [sys.executable, seen]


@pytest.mark.usefixtures("environment")
def test_a_cluster_after_an_embedded_spark_is_told_of_no_command_that_it_cannot_have() -> None:
    set_environment("local[2]")
    set_environment("spark://far.away:7077")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_where_nothing_may_be_run_workers_are_started_as_ever(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(os, "access", lambda *_: False)
    set_environment("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_another_spark_brings_its_own_pyspark(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SPARK_HOME", "/their/spark")
    set_environment("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_java_home_that_was_passed_over_is_not_given_to_spark(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("JAVA_HOME", "/old")
    environment.setattr(launching, "find_java", lambda: Java(Path("/shims/java"), 17))
    set_environment("local")
    assert "JAVA_HOME" not in os.environ


def test_a_cluster_that_answers_at_one_of_its_addresses_is_reachable() -> None:
    [closed] = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(f"spark://127.0.0.1:{closed},127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(SessionError, match=rf"no Spark master answers at spark://127\.0\.0\.1:{closed}"):
        check_reachable(f"spark://127.0.0.1:{closed}")
    check_reachable("yarn")


@pytest.mark.parametrize("master", ["spark://host", "spark://host:port", "spark://:"])
def test_an_address_without_a_port_is_refused(master: str) -> None:
    with pytest.raises(MisuseError, match="is not of the form spark://HOST:PORT"):
        check_reachable(master)


def test_the_words_of_java_that_matter_most_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "driver.log"
    monkeypatch.setattr(launching, "driver_log", lambda: log)
    assert start_failure("local") == f"Spark did not start on local; its log is {log}"
    log.write_text("Picked up options\nException in thread main\nERROR no memory\n  at a.b.C\n")
    assert start_failure("yarn") == f"Spark did not start on yarn; its log is {log}\n  ERROR no memory"
    log.write_text("one\n two\nthree\nfour\n")
    assert start_failure("local").endswith(f"{log}\n  one\n  two\n  three")


def test_a_failure_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "driver_log", lambda: tmp_path)
    assert failure_of(ValueError("first\n\tat second")) == f"Spark failed: first; its log is {tmp_path}"
    assert failure_of(KeyError()) == f"Spark failed: KeyError; its log is {tmp_path}"


@pytest.mark.parametrize(("more", "remains"), [("", False), ("driver_log()", True)])
def test_the_folder_goes_with_the_process_unless_a_failure_was_told(more: str, remains: bool, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", f"{KEPT}\n{more}"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert Path(told.stdout.strip()).parent == tmp_path
    assert Path(told.stdout.strip()).exists() is remains


def test_only_the_stack_of_an_interruption_is_no_news() -> None:
    def record(text: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, "x.py", 1, text, None, None)

    assert not is_news(record("KeyboardInterrupt while sending command."))
    assert is_news(record("something else"))


def test_no_class_archive_is_used_where_it_is_turned_off(
    environment: pytest.MonkeyPatch, tmp_path: Path, spark_ready: None
) -> None:
    environment.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment.setenv("PENSTOCK_CLASS_ARCHIVE", "off")
    assert class_archive_options() == []
    assert list(tmp_path.iterdir()) == []
    environment.setenv("PENSTOCK_CLASS_ARCHIVE", "")
    assert class_archive_options()[0].startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/penstock/spark-classes/java-17-")
