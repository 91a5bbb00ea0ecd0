"""Java is found where the user says, on the PATH or in usual places; and setup installs it where it may."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.pipeline.errors import JavaMissingError
from penstock.pipeline.java import find_java

SETUP = Path(__file__).parents[2] / "scripts" / "setup.sh"


def command(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str) -> Path:
    return command(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "mine", "17.0.1"), fake_java(tmp_path / "other", "21")
    java = find_java({"JAVA_HOME": str(tmp_path / "mine"), "PATH": str(other.parent)}, ())
    assert (java.command, java.version, java.home) == (chosen, 17, tmp_path / "mine")


def test_a_java_home_that_is_too_old_or_gone_does_not_hide_a_good_one(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_392")
    good = fake_java(tmp_path / "good", "21.0.2")
    for home in ("old", "gone"):
        assert find_java({"JAVA_HOME": str(tmp_path / home), "PATH": str(good.parent)}, ()).version == 21


def test_of_usual_places_the_oldest_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    for name, version in (("a", "25"), ("b", "11.0.2"), ("c", "17.0.15"), ("d", "21")):
        fake_java(tmp_path / "jvm" / name, version)
    (tmp_path / "jvm" / "empty").mkdir()
    assert find_java({}, [str(tmp_path / "jvm" / "*")]).command == tmp_path / "jvm" / "c" / "bin" / "java"


def test_the_version_is_read_from_the_release_file_without_starting_java(tmp_path: Path) -> None:
    command(tmp_path / "jdk" / "bin" / "java", "exit 1")
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}, ()).version == 17


def test_a_stand_in_that_is_only_on_the_path_has_no_home(tmp_path: Path) -> None:
    shim = command(tmp_path / "shims" / "java", "echo 'openjdk version \"17\"' >&2")
    assert find_java({"PATH": str(shim.parent)}, ()).home is None


def test_without_java_the_message_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(
        JavaMissingError, match=r"needs Java 17 or newer, and none was found .* openjdk-17-jre-headless"
    ):
        find_java({"PATH": str(tmp_path)}, ())


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = fake_java(tmp_path, "11.0.2")
    with pytest.raises(JavaMissingError, match=rf"there is only Java 11 at {old}; on Debian"):
        find_java({"PATH": str(old.parent)}, ())


def test_what_cannot_tell_its_version_is_no_java(tmp_path: Path) -> None:
    broken = command(tmp_path / "bin" / "java", "exit 3")
    with pytest.raises(JavaMissingError, match="none was found"):
        find_java({"PATH": str(broken.parent)}, ())


def set_up(tmp_path: Path, *, user: int, apt: str | None, java: str) -> subprocess.CompletedProcess[str]:
    """Run the Java step of setup with commands that only pretend; ``java`` says whether Java is found."""
    command(tmp_path / "bin" / "id", f"echo {user}")
    if apt is not None:
        command(tmp_path / "bin" / "apt-get", f'echo "$*" >> {tmp_path}/asked\n{apt}')
    command(tmp_path / "venv" / "bin" / "python", java)
    return subprocess.run(
        ["/bin/sh", SETUP, "--java", tmp_path / "venv"],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_setup_leaves_a_java_alone_that_is_there(tmp_path: Path) -> None:
    done = set_up(tmp_path, user=0, apt="exit 0", java="exit 0")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "asked").exists()


def test_setup_installs_java_as_root(tmp_path: Path) -> None:
    java = f"[ -e {tmp_path}/installed ]"
    done = set_up(tmp_path, user=0, apt=f'[ "$1" = update ] || : > {tmp_path}/installed', java=java)
    assert done.returncode == 0
    assert done.stderr == "setup: installing Java for Spark\n"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["update -qq", "install -y -qq --no-install-recommends openjdk-17-jre-headless"]


@pytest.mark.parametrize("apt", ["exit 100", "exit 0"])
def test_setup_tries_the_default_java_next_and_goes_on_if_that_does_not_help(tmp_path: Path, apt: str) -> None:
    done = set_up(tmp_path, user=0, apt=apt, java="exit 1")
    assert done.returncode == 0
    assert "default-jre-headless" in (tmp_path / "asked").read_text()
    assert "all works but what runs on Spark" in done.stderr


@pytest.mark.parametrize(("user", "apt"), [(1000, "exit 0"), (0, None)])
def test_setup_says_what_to_do_where_it_may_not_install(tmp_path: Path, user: int, apt: str | None) -> None:
    done = set_up(tmp_path, user=user, apt=apt, java="exit 1")
    assert done.returncode == 0
    assert "sudo apt-get install openjdk-17-jre-headless" in done.stderr
    assert not os.path.lexists(tmp_path / "asked")
