"""File access for a lake, in one small class: everything durable in a lake is made durable here.

Paths are relative to the lake, with ``/``. Only folders on this machine (or mounted on it) are supported; object
storage has no rename, and needs its own class with the same methods.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.model.errors import MisuseError
from penstock.pipeline.lake.errors import LakeBusyError, LakeError

__all__ = ["LocalFiles", "files_at", "is_hidden"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?(.*)", re.DOTALL)
_SUFFIX: Final = ".parquet"


def files_at(location: str) -> LocalFiles:
    """Open the lake at a folder or a ``file:`` address."""
    match = _SCHEME.fullmatch(location)
    if match is None:
        return LocalFiles(Path(location))
    if match[1].lower() != "file":
        raise MisuseError(
            f"the lake {location!r} is on {match[1]}: storage, but only folders are supported so far; "
            "give a folder, for example of a mounted file system"
        )
    return LocalFiles(Path("/" + match[2].lstrip("/")))


class LocalFiles:
    """A lake in a folder. Each step that changes something is a private method, so that tests can make it fail."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root.absolute()

    def location(self, path: str = "") -> str:
        """The absolute path of a file, for other libraries."""
        return str(self.root / path)

    def exists(self, path: str) -> bool:
        """Whether this file or folder exists."""
        return (self.root / path).exists()

    def size(self, path: str) -> int:
        """Size of a file in bytes."""
        return (self.root / path).stat().st_size

    def listed(self, folder: str) -> dict[str, int]:
        """All non-hidden Parquet files below a folder with their sizes, sorted by path; empty without the folder."""
        found: dict[str, int] = {}
        for place, folders, names in os.walk(self.root / folder):
            folders[:] = [each for each in folders if not is_hidden(each)]
            for name in names:
                if name.endswith(_SUFFIX) and not is_hidden(name):
                    path = Path(place) / name
                    # The file may be gone by now: anyone who lists beside a writer consults the journal.
                    with suppress(FileNotFoundError):
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_size
        return dict(sorted(found.items()))

    def read(self, path: str) -> bytes | None:
        """The content of a file, or None if it does not exist."""
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed("read", path, error) from None

    def write(self, path: str, content: bytes) -> None:
        """Replace a small file atomically and durably: readers find the old or the new content, even after a crash."""
        target = self.root / path
        fresh = target.with_name(f".{target.name}.new")
        try:
            self._make_folders(target.parent)
            self._write_synced(fresh, content)
            self._rename(fresh, target)
            self._sync_folder(target.parent)
        except OSError as error:
            raise self._failed("write", path, error) from None

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        """Move files durably; files that were already moved are left alone."""
        touched: dict[Path, None] = {}
        try:
            for old, new in moves:
                source, target = self.root / old, self.root / new
                if source.exists():
                    self._make_folders(target.parent)
                    self._rename(source, target)
                elif not target.exists():
                    raise LakeError(
                        f"{self.location(old)} disappeared before it was moved into place: the lake is damaged"
                    )
                touched |= dict.fromkeys((target.parent, source.parent))
            for folder in touched:
                # The source folder of an earlier move may have been cleaned up.
                if folder.exists():
                    self._sync_folder(folder)
        except OSError as error:
            raise self._failed("move files in", "", error) from None

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files durably; missing files are no error."""
        try:
            touched = dict.fromkeys((self.root / path).parent for path in paths if self.exists(path))
            for path in paths:
                if self.exists(path):
                    self._unlink(self.root / path)
            for folder in touched:
                self._sync_folder(folder)
        except OSError as error:
            raise self._failed("delete files in", "", error) from None

    def clear(self, folder: str) -> None:
        """Delete a folder and its contents; need not be durable, since the next start repeats it."""
        shutil.rmtree(self.root / folder, ignore_errors=True)

    def make_folder(self, folder: str) -> None:
        """Create a folder durably, unless it exists."""
        try:
            self._make_folders(self.root / folder)
        except OSError as error:
            raise self._failed("make the folder", folder, error) from None

    def sync_names(self, paths: Sequence[str]) -> None:
        """Make the names of files durable; their writers have already synced the contents."""
        try:
            for folder in dict.fromkeys((self.root / path).parent for path in paths):
                self._sync_folder(folder)
        except OSError as error:
            raise self._failed("sync folders of", "", error) from None

    def sync(self, path: str) -> None:
        """Make the content of a file durable that another library wrote."""
        try:
            _sync(self.root / path, os.O_RDONLY)
        except OSError as error:
            raise self._failed("sync", path, error) from None

    @contextmanager
    def lock(self, path: str, what: str) -> Iterator[None]:
        """Hold an exclusive lock across processes within the block; it is released even if the process is killed."""
        self.make_folder(str(Path(path).parent))
        try:
            descriptor = os.open(self.root / path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed("lock", path, error) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "somebody"
                raise LakeBusyError(
                    f"{what} in {self.root} is being written by {holder}; only one may at a time"
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _make_folders(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folders(folder.parent)
            folder.mkdir(exist_ok=True)
            self._sync_folder(folder.parent)

    def _write_synced(self, path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def _unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _sync_folder(self, folder: Path) -> None:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)

    def _failed(self, verb: str, path: str, error: OSError) -> LakeError:
        return LakeError(f"cannot {verb} {self.location(path)}: {error.strerror or error}")


def is_hidden(name: str) -> bool:
    """Whether Spark and other readers skip a file or folder with this name."""
    return name.startswith((".", "_"))


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
