"""Lets Spark's Java start from an archive of loaded classes (Java's application class-data sharing).

Most of the time until an embedded Spark is ready goes into loading and verifying some ten thousand classes from jars.
Java can write them to a file when it ends, and map that file at the next start. The first session on a machine records,
the next ones are faster.

The archive is never in the way. It is kept in the user's cache folder under a name that changes with Java, PySpark and
its jars. Java compares versions, class path and checksums, and ignores an archive that does not fit; only one that was
cut short would crash it, so the name also says how long the file must be. Whatever else is wrong (no space, a folder
that others may write to, a session that was killed while it recorded), Spark starts as if there were no archives.
``PENSTOCK_CLASS_ARCHIVE=off`` turns them off.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from penstock.pipeline.java import Java

__all__ = ["SWITCH", "archive_options", "cache_folder", "is_wanted"]

SWITCH: Final = "PENSTOCK_CLASS_ARCHIVE"
_OFF: Final = ("off", "0", "no", "false")
_KEPT_MAX: Final = 3
"""Archives of different versions that are kept; each has some 160 MB."""
_ROOM_BYTES: Final = 2 * 1024**3
"""Free space below which nothing is recorded."""
_CLAIM_S: Final = 600
"""How long no other session records; after that, the one that began is taken to have been killed, as the demo does."""
_OTHERS_MAY_WRITE: Final = 0o022
_PLAIN: Final = re.compile(r"[\w./+=@%,-]+")
"""Paths that need no quotes in a list of Java's options."""
_COMMON: Final = (
    # Warnings about an archive that does not fit would be quoted as the reason when Spark fails for another one.
    "-Xlog:cds*=off",
    "-Xlog:class+path=off",
    # A Java that does not know one of these options starts without it.
    "-XX:+IgnoreUnrecognizedVMOptions",
)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the user has not turned archives off."""
    return environment.get(SWITCH, "").lower() not in _OFF


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where archives are kept; None if the user has no home."""
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    # A relative path is invalid, and to be ignored, by the specification of that variable.
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:
            return None
    return base / "penstock" / "spark-classes"


def archive_options(java: Java, jars: Path, version: str, folder: Path) -> list[str]:
    """The options by which Java uses the archive of these jars, or records it; none if neither is possible."""
    try:
        if not _is_ours(folder) or not _PLAIN.fullmatch(str(folder)):
            return []
        name = _name(java, jars, version)
        recorded = folder / f"{name}.new"
        _take_over(recorded, name)
        archive = _found(folder, name)
        if archive is not None:
            # The checksum of the whole file takes less than a tenth of a second: a damaged one could crash Java.
            return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", *_COMMON]
        if shutil.disk_usage(folder).free >= _ROOM_BYTES and _is_claimed(recorded):
            return [f"-XX:ArchiveClassesAtExit={recorded}", *_COMMON]
    except (OSError, UnicodeError):
        return []
    return []


def _is_ours(folder: Path) -> bool:
    """Make the folder, and see that nobody else can put files there: an archive is code."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & _OTHERS_MAY_WRITE


def _name(java: Java, jars: Path, version: str) -> str:
    """A name that another Java, another Spark, or changed jars do not have."""
    digest = sha256()
    for line in (str(java.command.resolve()), _release(java), str(jars.resolve())):
        digest.update(line.encode() + b"\0")
    for jar in sorted(jars.iterdir()):
        status = jar.stat()
        digest.update(f"{jar.name} {status.st_size} {status.st_mtime_ns}\0".encode())
    return f"java-{java.version}-spark-{version}-{digest.hexdigest()[:16]}"


def _release(java: Java) -> str:
    try:
        return (java.command.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _take_over(recorded: Path, name: str) -> None:
    """Make a file that Java has finished the archive of all later sessions."""
    if not _is_whole(recorded):
        return
    with recorded.open("rb") as file:
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    recorded.replace(recorded.with_name(f"{name}-{size}.jsa"))
    archives = sorted(recorded.parent.glob("*.jsa"), key=lambda each: each.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT_MAX:]:
        archive.unlink(missing_ok=True)


def _is_whole(recorded: Path) -> bool:
    """Whether Java has finished a file: it writes the head last, over zeros.

    That holds as long as the machine runs. After a crash of the machine, the head may be on disk and the end not.
    """
    try:
        with recorded.open("rb") as file:
            has_head = any(file.read(4))
            return has_head and os.fstat(file.fileno()).st_mtime > _booted_s()
    except FileNotFoundError:
        return False


def _booted_s() -> float:
    """When this machine was started; where that cannot be told, files of any age count as older."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() - time.clock_gettime(clock) if clock is not None else float("inf")


def _found(folder: Path, name: str) -> Path | None:
    """The archive of a name, if it is as long as it was."""
    for archive in folder.glob(f"{name}-*.jsa"):
        if archive.stem.rpartition("-")[2] == str(archive.stat().st_size):
            return archive
        archive.unlink(missing_ok=True)
    return None


def _is_claimed(recorded: Path) -> bool:
    """Claim the file for this session, so that sessions that start together do not all record."""
    try:
        if time.time() - recorded.stat().st_mtime > _CLAIM_S:
            recorded.unlink()
    except FileNotFoundError:
        pass
    try:
        recorded.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
