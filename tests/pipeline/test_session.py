"""The session: settings checked before anything starts, and a session that is quiet, tuned and told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.lab.demo_overlay import free_ports
from penstock.model.errors import MisuseError
from penstock.pipeline import session
from penstock.pipeline.errors import SessionError, SparkMissingError
from penstock.pipeline.session import SessionSettings, check_requirements, open_session, pack, using_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process where no session runs yet."""
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"master": "localhost"}, "master 'localhost' is not one of local"),
        ({"master": "local[0]"}, "master 'local[0]' is not one of"),
        ({"driver_memory": "lots"}, "driver memory 'lots' is not a number"),
        ({"executor_memory": "0g"}, "executor memory '0g' is not a number"),
        ({"parallelism": 0}, "parallelism is 0, but must be at least 1"),
    ],
)
def test_settings_are_checked_at_once(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(MisuseError) as caught:
        SessionSettings(**settings)  # type: ignore[arg-type]
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[3,2]", 3), ("local-cluster[2,1,1024]", None), ("spark://a:7077", None)],
)
def test_the_cores_of_an_embedded_session_are_known(master: str, cores: int | None) -> None:
    assert SessionSettings(master=master).local_cores == cores
    partitions = SessionSettings(master=master).spark_conf(Path("/tmp/x")).get("spark.sql.shuffle.partitions")  # noqa: S108
    assert partitions == (None if cores is None else str(cores))


def test_settings_become_those_of_spark_and_the_users_own_win(tmp_path: Path) -> None:
    settings = SessionSettings(
        parallelism=7, driver_memory="3g", event_log=tmp_path, conf={"spark.app.name": "mine", "spark.x": "y"}
    )
    conf = settings.spark_conf(tmp_path)
    assert conf["spark.default.parallelism"] == conf["spark.sql.shuffle.partitions"] == "7"
    assert conf["spark.driver.memory"] == "3g"
    assert (conf["spark.eventLog.enabled"], conf["spark.eventLog.dir"]) == ("true", tmp_path.as_uri())
    assert (conf["spark.app.name"], conf["spark.x"]) == ("mine", "y")


def test_options_of_java_follow_our_own_and_the_users_replace_both(tmp_path: Path) -> None:
    name = "spark.driver.extraJavaOptions"
    ours = SessionSettings().spark_conf(tmp_path)[name]
    assert SessionSettings().spark_conf(tmp_path, ["-Xa", "-Xb"])[name] == f"{ours} -Xa -Xb"
    assert SessionSettings(conf={name: "-Xc"}).spark_conf(tmp_path, ["-Xa"])[name] == "-Xc"


def test_without_pyspark_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None if name == "pyspark" else object())
    with pytest.raises(SparkMissingError, match=r"pyspark is not installed; .* pip install 'penstock\[spark\]'"):
        check_requirements()


@pytest.mark.usefixtures("spark_ready", "no_session")
def test_a_master_that_is_not_there_is_told_at_once() -> None:
    [port] = free_ports(1)
    with pytest.raises(SessionError, match=rf"no Spark master answers at spark://127\.0\.0\.1:{port}"):
        open_session(SessionSettings(master=f"spark://127.0.0.1:{port}"))


@pytest.mark.usefixtures("spark_ready", "no_session")
def test_an_event_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match="cannot write the event log to"):
        open_session(SessionSettings(event_log=tmp_path / "file" / "log"))


def test_a_java_that_does_not_start_is_told_with_its_own_words(tmp_path: Path, spark_ready: None) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'Error: something is broken' >&2\nexit 3\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"\n')
    told = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", "sweep", "delivery-chaos"],
        env=os.environ | {"JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert "error: Spark did not start on local[*]; its log is " in told.stderr
    assert "something is broken" in told.stderr
    assert "Traceback" not in told.stderr
    assert list(tmp_path.glob("penstock-spark-*/driver.log"))


def test_an_error_of_spark_becomes_one_line_that_names_the_log(spark: SparkSession) -> None:
    with pytest.raises(SessionError, match=r"Spark failed: \[TABLE_OR_VIEW_NOT_FOUND\].*; its log is .*driver\.log$"):  # noqa: SIM117
        with using_session(SessionSettings(master="local[2]")) as session:
            session.table("nowhere").count()


def test_the_session_is_as_the_settings_say(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.defaultParallelism == 2
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"


def test_workers_run_the_python_of_the_driver(spark: SparkSession) -> None:
    def executable(_: int) -> str:
        import sys

        return sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(executable).collect() == [sys.executable]


def test_a_second_request_joins_the_session_and_leaves_it_running(spark: SparkSession) -> None:
    with using_session(SessionSettings(master="local[2]")) as joined:
        assert joined.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


def test_a_request_for_another_master_is_refused(spark: SparkSession) -> None:
    with pytest.raises(MisuseError, match=r"has a Spark session on local\[2\] already, .* one on local\[1\]"):
        open_session(SessionSettings(master="local[1]"))


def test_penstock_can_be_imported_from_the_zip(tmp_path: Path) -> None:
    archive = pack(tmp_path / "penstock.zip")
    load = "from penstock.pipeline.experiments import registry; print(registry.__file__)"
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); {load}"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout.strip() == f"{archive}/penstock/pipeline/experiments/registry.py"


def test_the_same_sources_make_the_same_zip_without_compiled_files(tmp_path: Path) -> None:
    first, second = pack(tmp_path / "1.zip"), pack(tmp_path / "2.zip")
    assert first.read_bytes() == second.read_bytes()
    assert b"__pycache__" not in first.read_bytes()
