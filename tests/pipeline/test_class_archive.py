"""Archives of classes: recorded once, used while they fit, and never a reason why Spark does not start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.pipeline.class_archive import archive_options, cache_folder, is_wanted
from penstock.pipeline.java import Java, find_java

RECORD = "-XX:ArchiveClassesAtExit="
USE = "-XX:SharedArchiveFile="


class Machine:
    """A Java and some jars of Spark, neither of which is one."""

    def __init__(self, root: Path) -> None:
        self.java = Java(root / "jdk" / "bin" / "java", 17)
        self.java.command.parent.mkdir(parents=True)
        self.release = root / "jdk" / "release"
        self.release.write_text('JAVA_VERSION="17.0.1"', encoding="utf-8")
        self.jars = root / "jars"
        self.jars.mkdir()
        (self.jars / "a.jar").write_bytes(b"a")
        self.folder = root / "cache"

    def options(self) -> list[str]:
        return archive_options(self.java, self.jars, "4.0", self.folder)

    def recording(self) -> Path:
        """Where a session records."""
        return Path(self.options()[0].removeprefix(RECORD))

    def used(self) -> Path:
        """The archive that a session uses."""
        return Path(self.options()[0].removeprefix(USE))

    def record(self, content: bytes = b"head and classes") -> None:
        """Let a session record, as Java does when it ends."""
        self.recording().write_bytes(content)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_session_records_and_the_next_ones_use_what_it_recorded(machine: Machine) -> None:
    (first, *_) = machine.options()
    assert first.startswith(RECORD)
    Path(first.removeprefix(RECORD)).write_bytes(b"head and classes")
    for _ in range(2):
        assert machine.used().read_bytes() == b"head and classes"
    assert "-XX:+VerifySharedSpaces" in machine.options()


def test_only_one_of_the_sessions_that_start_together_records(machine: Machine) -> None:
    assert machine.options()
    assert machine.options() == []


def test_a_session_that_was_killed_while_it_recorded_is_not_waited_for_long(machine: Machine) -> None:
    claimed = machine.recording()
    os.utime(claimed, (0, 0))
    assert machine.recording() == claimed


def test_a_file_that_java_has_not_finished_is_not_used(machine: Machine) -> None:
    machine.record(bytes(4) + b"classes")
    assert machine.options() == []


def test_a_file_that_was_recorded_before_the_machine_started_is_recorded_anew(machine: Machine) -> None:
    machine.record()
    (recorded,) = machine.folder.iterdir()
    os.utime(recorded, (0, 0))
    assert machine.recording() == recorded


def test_an_archive_that_was_cut_short_is_recorded_anew(machine: Machine) -> None:
    machine.record()
    archive = machine.used()
    archive.write_bytes(b"head")
    assert machine.options()[0].startswith(RECORD)
    assert not archive.exists()


def test_another_java_other_jars_and_another_spark_have_archives_of_their_own(machine: Machine) -> None:
    machine.record()
    first = machine.used()
    (machine.jars / "b.jar").write_bytes(b"b")
    assert machine.recording() != first.with_suffix(".new")
    machine.release.write_text('JAVA_VERSION="17.0.2"', encoding="utf-8")
    assert machine.options()[0].startswith(RECORD)
    assert archive_options(machine.java, machine.jars, "4.1", machine.folder)[0].startswith(RECORD)


def test_at_most_three_archives_are_kept_and_the_newest_is_one_of_them(machine: Machine) -> None:
    for number in range(6):
        (machine.jars / "a.jar").write_bytes(bytes(number))
        machine.record()
        os.utime(machine.used(), (number, number))
    assert len(list(machine.folder.glob("*.jsa"))) <= 3
    assert machine.used().exists()


def test_a_folder_that_others_may_write_to_is_left_alone(machine: Machine) -> None:
    machine.folder.mkdir()
    machine.folder.chmod(0o777)
    assert machine.options() == []


def test_nothing_is_done_where_the_folder_cannot_be_made_or_jars_are_missing(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert archive_options(machine.java, machine.jars, "4.0", tmp_path / "file" / "cache") == []
    assert archive_options(machine.java, tmp_path / "none", "4.0", machine.folder) == []


def test_nothing_is_done_where_a_path_would_need_quotes(machine: Machine, tmp_path: Path) -> None:
    assert archive_options(machine.java, machine.jars, "4.0", tmp_path / "a folder") == []


def test_nothing_is_done_where_a_path_is_not_utf_8(machine: Machine, tmp_path: Path) -> None:
    jars = tmp_path / os.fsdecode(b"jars\xff")
    jars.mkdir()
    assert archive_options(machine.java, jars, "4.0", machine.folder) == []


@pytest.mark.parametrize(("value", "is_on"), [("off", False), ("OFF", False), ("0", False), ("", True), ("on", True)])
def test_the_environment_turns_archives_off(value: str, is_on: bool) -> None:
    assert is_wanted({"PENSTOCK_CLASS_ARCHIVE": value}) is is_on


def test_archives_are_in_the_cache_of_the_user() -> None:
    assert is_wanted({})
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/penstock/spark-classes")
    assert cache_folder({"XDG_CACHE_HOME": "x"}) == cache_folder({}) == Path.home() / ".cache/penstock/spark-classes"


@pytest.mark.usefixtures("spark_ready")
@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\xa8\xab\x0b\xf0" + bytes(100_000)])
def test_java_starts_with_an_archive_that_is_none_and_says_nothing(machine: Machine, content: bytes) -> None:
    machine.record(b"x" * max(1, len(content)))
    archive = machine.used()
    options = machine.options()
    archive.write_bytes(content)
    done = subprocess.run([find_java().command, *options, "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == ""


@pytest.mark.usefixtures("spark_ready")
def test_java_records_and_uses_what_it_recorded(tmp_path: Path) -> None:
    from pyspark import __file__ as pyspark

    java, jars = find_java(), Path(pyspark).parent / "jars"
    classes = ":".join(map(str, sorted(jars.glob("spark-launcher*.jar"))))

    def run() -> str:
        options = archive_options(java, jars, "4.0", tmp_path / "cache")
        # It fails for want of arguments, after it has loaded its classes.
        command = [str(java.command), *options, "-Xlog:class+load", "-cp", classes, "org.apache.spark.launcher.Main"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    loaded = "org.apache.spark.launcher.Main source: "
    assert f"{loaded}file:" in run()
    assert f"{loaded}shared objects file (top)" in run()
