"""Finds a Java that Spark runs on, or says what to install.

Searches ``JAVA_HOME``, the ``PATH``, and the usual install locations, in this order. The first Java that is new enough
wins; among the usual locations the oldest such version wins, since Spark is tested least on the newest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.pipeline.errors import JavaMissingError

__all__ = ["JAVA_VERSION_MIN", "Java", "find_java"]

JAVA_VERSION_MIN: Final = 17
"""The oldest version that Spark 4 supports."""
_ANSWER_S: Final = 30
"""How long ``java -version`` may take."""
_USUAL_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/usr/local/openjdk*",
    "/opt/homebrew/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_VERSION: Final = re.compile(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)')


@dataclass(slots=True, frozen=True)
class Java:
    """An installed Java."""

    command: Path
    version: int
    """The feature release: 8, 11, 17, 21."""

    @property
    def home(self) -> Path | None:
        """The ``JAVA_HOME`` for this Java; None for a wrapper that is only on the ``PATH``."""
        real = self.command.resolve()
        return real.parent.parent if real.name == "java" and real.parent.name == "bin" else None


def find_java(environment: Mapping[str, str] | None = None, places: Iterable[str] = _USUAL_PLACES) -> Java:
    """Find the first Java that is new enough, or raise an error that says what to install."""
    old: list[Java] = []
    for group in _candidates(os.environ if environment is None else environment, places):
        found = sorted(filter(None, map(_looked_at, group)), key=lambda java: java.version)
        for java in found:
            if java.version >= JAVA_VERSION_MIN:
                return java
        old += found
    raise JavaMissingError(_complaint(old))


def _candidates(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[list[Path]]:
    """Candidate commands, grouped by where they were found, the user's own choice first."""
    if environment.get("JAVA_HOME"):
        yield [Path(environment["JAVA_HOME"], "bin", "java")]
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield [Path(on_path)]
    yield [home / "bin" / "java" for place in places for home in _matching(place)]


def _matching(place: str) -> list[Path]:
    folder = Path(place).expanduser()
    return sorted(Path(folder.anchor).glob(str(folder.relative_to(folder.anchor))))


def _looked_at(command: Path) -> Java | None:
    if not os.access(command, os.X_OK):
        return None
    version = _version_in_release(command) or _version_told(command)
    return None if version is None else Java(command, version)


def _version_in_release(command: Path) -> int | None:
    """Read the version from the file beside every modern Java: starting Java just to ask costs a quarter second."""
    try:
        found = _VERSION.search((command.resolve().parent.parent / "release").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else int(found[1])


def _version_told(command: Path) -> int | None:
    try:
        asked = subprocess.run(  # noqa: S603  (the command is the Java that Spark would start as well)
            [command, "-version"], capture_output=True, check=False, timeout=_ANSWER_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr.decode(errors="replace") + asked.stdout.decode(errors="replace"))
    return None if found is None else int(found[1])


def _complaint(old: list[Java]) -> str:
    if old:
        listed = ", ".join(f"Java {java.version} at {java.command}" for java in old)
        found = f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is only {listed}"
    else:
        found = (
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and none was found by JAVA_HOME, on the PATH or elsewhere"
        )
    return f"{found}; on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless; or set JAVA_HOME to one"
