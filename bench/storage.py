"""Compares embedded stores for the log of a pubend: append with sync, read, trim, size, and what kill -9 leaves.

LMDB, SQLite (write-ahead log, synchronous=FULL) and RocksDB (rocksdict, synced writes) next to a plain preallocated
file, each with one record per message or one blob per batch; then Penstock's own store, which adds dedup state,
totals and checksums. A store that is not installed is left out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, Protocol

from bench.report import Report
from penstock.live.store import Append, LogStore
from penstock.live.store.batch import BatchDamagedError, pack_batch, unpack_batch
from penstock.model.reporting import Reporter
from penstock.model.tick import Tick

__all__ = ["run"]

_BATCH: Final = 100
_BODY_BYTES: Final = 150
_TORN_BYTES: Final = 1_000
_SEGMENT_BYTES: Final = 64 << 20
_Messages = list[tuple[Tick, bytes]]
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class _Candidate(Protocol):
    """A store under test; ticks are consecutive, and so are batches."""

    def append(self, messages: _Messages) -> None:
        """Make a batch durable."""

    def read(self, first: int, last: int) -> int:
        """Read the messages with these ticks, and count them."""

    def trim(self, below: int) -> None:
        """Forget the messages below a tick, durably."""

    def close(self) -> None:
        """Close the files."""


class _Lmdb:
    def __init__(self, path: Path, *, blob: bool, metasync: bool = True) -> None:
        import lmdb

        self._env = lmdb.open(str(path), map_size=4 << 30, metasync=metasync)
        self._blob = blob

    def append(self, messages: _Messages) -> None:
        with self._env.begin(write=True) as txn:
            if self._blob:
                txn.put(_key(messages[0][0]), pack_batch(messages), append=True)
            else:
                for tick, body in messages:
                    txn.put(_key(tick), body, append=True)

    def read(self, first: int, last: int) -> int:
        count = 0
        with self._env.begin(buffers=True) as txn, txn.cursor() as cursor:
            more = cursor.set_range(_key(first))
            while more and (tick := int.from_bytes(cursor.key())) <= last:
                count += len(unpack_batch(Tick(tick), cursor.value())) if self._blob else bool(bytes(cursor.value()))
                more = cursor.next()
        return count

    def trim(self, below: int) -> None:
        with self._env.begin(write=True) as txn, txn.cursor() as cursor:
            more = cursor.first()
            while more and int.from_bytes(cursor.key()) < below:
                more = cursor.delete()

    def close(self) -> None:
        self._env.close()


class _Sqlite:
    def __init__(self, path: Path, *, blob: bool) -> None:
        path.mkdir(exist_ok=True)
        self._db, self._blob = sqlite3.connect(path / "log.sqlite", isolation_level=None), blob
        for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=4000"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.execute("PRAGMA secure_delete=OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS log (tick INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def append(self, messages: _Messages) -> None:
        rows = [(messages[0][0], pack_batch(messages))] if self._blob else messages
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO log VALUES (?, ?)", rows)
        self._db.execute("COMMIT")

    def read(self, first: int, last: int) -> int:
        rows = self._db.execute("SELECT tick, body FROM log WHERE tick BETWEEN ? AND ?", (first, last))
        return sum(len(unpack_batch(Tick(tick), body)) if self._blob else 1 for tick, body in rows)

    def trim(self, below: int) -> None:
        self._db.execute("DELETE FROM log WHERE tick < ?", (below,))

    def close(self) -> None:
        self._db.close()


class _Rocks:
    def __init__(self, path: Path, *, blob: bool) -> None:
        from rocksdict import Options, Rdict, WriteOptions

        self._db, self._blob, self._synced = Rdict(str(path), Options(raw_mode=True)), blob, WriteOptions()
        self._synced.sync = True

    def append(self, messages: _Messages) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        if self._blob:
            batch.put(_key(messages[0][0]), pack_batch(messages))
        else:
            for tick, body in messages:
                batch.put(_key(tick), body)
        self._db.write(batch, self._synced)

    def read(self, first: int, last: int) -> int:
        count, cursor = 0, self._db.iter()
        cursor.seek(_key(first))
        while cursor.valid():
            key, value = cursor.key(), cursor.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            if (tick := int.from_bytes(key)) > last:
                break
            count += len(unpack_batch(Tick(tick), value)) if self._blob else 1
            cursor.next()
        return count

    def trim(self, below: int) -> None:
        self._db.delete_range(_key(0), _key(below), write_opt=self._synced)

    def close(self) -> None:
        self._db.close()


class _Penstock:
    """The store that Penstock uses, with everything it adds: sequence numbers, index, totals."""

    def __init__(self, path: Path) -> None:
        self._store = LogStore.open(path, overlay="bench", broker="b1", reserve_bytes=0)

    def append(self, messages: _Messages) -> None:
        self._store.commit([Append("p", messages, sequences={b"one publisher": messages[-1][0]})])

    def read(self, first: int, last: int) -> int:
        count = 0
        while first <= last and (part := self._store.read("p", Tick(first), Tick(last), bytes_max=1 << 20)):
            count += len(part)
            first = part[-1][0] + 1
        return count

    def trim(self, below: int) -> None:
        self._store.trim("p", Tick(below))

    def close(self) -> None:
        self._store.close()


class _Appended:
    """The baseline: preallocated segments, and an index in memory that is rebuilt by scanning."""

    def __init__(self, path: Path, *, blob: bool) -> None:
        assert blob
        path.mkdir(exist_ok=True)
        self._path, self._index = path, dict[int, tuple[Path, int, int]]()
        self._file, self._end, self._name = -1, _SEGMENT_BYTES, path
        for segment in sorted(path.iterdir()):
            self._scan(segment)
        if self._index:
            self._file = os.open(self._name, os.O_RDWR)

    def _scan(self, segment: Path) -> None:
        stored, at = segment.read_bytes(), 0
        while size := int.from_bytes(stored[at + 8 : at + 12]):
            tick = int.from_bytes(stored[at : at + 8])
            try:
                unpack_batch(Tick(tick), stored[at + 12 : at + 12 + size])
            except BatchDamagedError:
                break
            self._index[tick] = (segment, at + 12, size)
            at += 12 + size
        self._name, self._end = segment, at

    def append(self, messages: _Messages) -> None:
        tick, stored = messages[0][0], pack_batch(messages)
        if self._end + len(stored) + 24 > _SEGMENT_BYTES:
            self._next_segment(tick)
        os.pwrite(self._file, _key(tick) + len(stored).to_bytes(4) + stored, self._end)
        _sync(self._file)
        self._index[tick] = (self._name, self._end + 12, len(stored))
        self._end += 12 + len(stored)

    def _next_segment(self, tick: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._name, self._end = self._path / f"{tick:020d}", 0
        self._file = os.open(self._name, os.O_RDWR | os.O_CREAT)
        # Written, not just reserved: each first write to a reserved block adds a journal entry to the sync.
        os.pwrite(self._file, bytes(_SEGMENT_BYTES), 0)
        os.fsync(self._file)

    def read(self, first: int, last: int) -> int:
        count, files = 0, dict[Path, int]()
        for tick, (name, at, size) in self._index.items():
            if first <= tick <= last:
                if name not in files:
                    files[name] = os.open(name, os.O_RDONLY)
                count += len(unpack_batch(Tick(tick), os.pread(files[name], size, at)))
        for file in files.values():
            os.close(file)
        return count

    def trim(self, below: int) -> None:
        kept = {tick: place for tick, place in self._index.items() if tick >= below}
        for name in {place[0] for place in self._index.values()} - {place[0] for place in kept.values()}:
            name.unlink()
        self._index = kept

    def close(self) -> None:
        os.close(self._file)


def _key(tick: int) -> bytes:
    return tick.to_bytes(8)


_STORES: Final[dict[str, Callable[[Path], _Candidate]]] = {
    "append file, blobs": lambda path: _Appended(path, blob=True),
    "LMDB, records": lambda path: _Lmdb(path, blob=False),
    "LMDB, blobs": lambda path: _Lmdb(path, blob=True),
    "LMDB, blobs, no metasync": lambda path: _Lmdb(path, blob=True, metasync=False),
    "SQLite, records": lambda path: _Sqlite(path, blob=False),
    "SQLite, blobs": lambda path: _Sqlite(path, blob=True),
    "RocksDB, records": lambda path: _Rocks(path, blob=False),
    "RocksDB, blobs": lambda path: _Rocks(path, blob=True),
    "Penstock (SQLite)": _Penstock,
}


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure all stores in turn: speed and size, then what a kill leaves."""
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-storage-") as folder:
        yield _speeds(reporter, Path(folder), 20_000 if quick else 1_000_000, seed)
        yield _recoveries(reporter, Path(folder), 100 if quick else 1_000, seed)


def _installed() -> dict[str, Callable[[Path], _Candidate]]:
    from importlib.util import find_spec

    modules = {"LMDB": "lmdb", "RocksDB": "rocksdict"}
    return {name: make for name, make in _STORES.items() if find_spec(modules.get(name.split(",")[0], "sqlite3"))}


def _speeds(reporter: Reporter, folder: Path, messages: int, seed: int) -> Report:
    report = Report(
        f"{messages:,} messages of {_BODY_BYTES} B, a sync per {_BATCH}; trim drops the older half",
        (
            "store",
            "append/s",
            "× file",
            "p99 ms",
            "max ms",
            "read/s",
            "read × file",
            "trim ms",
            "MB",
            "MB then",
            "open ms",
        ),
    )
    for name, make in _installed().items():
        reporter.stage(f"storage: {name}")
        path = folder / "speed"
        row = _speed(make, path, messages, Random(seed))
        base = report.rows[0] if report.rows else ("", row[0], 1, 0, 0, row[3])
        append, read = row[0], row[3]
        cells = (append, append / float(base[1] or 1), *row[1:3], read, read / float(base[5] or 1), *row[4:])
        report.rows.append((name, *cells))
        key = _figure(name)
        report.figures.update({f"append_per_s_{key}": append, f"read_per_s_{key}": read, f"trim_ms_{key}": row[4]})
        shutil.rmtree(path)
    return report


def _figure(name: str) -> str:
    return "_".join(re.findall("[a-z]+", name.lower()))


def _speed(make: Callable[[Path], _Candidate], path: Path, messages: int, rng: Random) -> tuple[float, ...]:
    bodies = [rng.randbytes(_BODY_BYTES) for _ in range(_BATCH)]
    store, spent = make(path), []
    for first in range(1, messages + 1, _BATCH):
        started = perf_counter()
        store.append(_numbered(first, bodies))
        spent.append(perf_counter() - started)
    before_mb = _disk_mb(path)
    started = perf_counter()
    assert store.read(1, messages) == messages
    read_s = perf_counter() - started
    started = perf_counter()
    store.trim(messages // 2 + 1)
    trim_s = perf_counter() - started
    store.close()
    started = perf_counter()
    store = make(path)
    open_s = perf_counter() - started
    # The plain file drops only whole segments.
    assert store.read(messages // 2 + 1, messages) == messages // 2
    store.close()
    p99_ms = 1e3 * sorted(spent)[len(spent) * 99 // 100]
    sizes = (1e3 * trim_s, before_mb, _disk_mb(path), 1e3 * open_s)
    return messages / sum(spent), p99_ms, 1e3 * max(spent), messages / read_s, *sizes


def _numbered(first: int, bodies: list[bytes]) -> _Messages:
    return [(Tick(tick), body) for tick, body in enumerate(bodies, start=first)]


def _disk_mb(path: Path) -> float:
    return sum(each.stat().st_blocks * 512 for each in path.rglob("*")) / 1e6


def _recoveries(reporter: Reporter, folder: Path, batches: int, seed: int) -> Report:
    report = Report(
        "a writer killed (-9) five times after some batches; then the end of its log torn off",
        ("store", "batches", "open ms", "acknowledged lost", "holes", "lost with the torn end", "holes then"),
    )
    for name, make in _installed().items():
        reporter.stage(f"kill -9: {name}")
        path, rng, told = folder / "kill", Random(seed), 0
        for _ in range(5):
            told = _killed_writer(name, path, told + rng.randrange(1, batches))
        shutil.copytree(path, folder / "torn")
        found, holes, open_s = _found(make, path)
        torn: tuple[int | None, int | None] = (None, None)
        if _tear(folder / "torn"):
            left, torn_holes, _ = _found(make, folder / "torn")
            torn = (found - left, torn_holes)
        report.rows.append((name, told, 1e3 * open_s, max(0, told * _BATCH - found), holes, *torn))
        report.figures[f"kill_lost_{_figure(name)}"] = max(0, told * _BATCH - found)
        shutil.rmtree(path)
        shutil.rmtree(folder / "torn")
    return report


def _found(make: Callable[[Path], _Candidate], path: Path) -> tuple[int, int, float]:
    """How many messages there are up to the first hole, how many behind it, and the time to open the store."""
    started = perf_counter()
    store = make(path)
    open_s = perf_counter() - started
    found = _prefix(store)
    behind = store.read(1, 1 << 60) - found
    store.close()
    return found, behind, open_s


def _tear(path: Path) -> bool:
    """Tear off the end of the log, as a crash of the machine might; return False if there is none, as with LMDB."""
    logs = [each for pattern in ("*-wal", "*.log", "0*[0-9]") for each in path.glob(pattern) if each.stat().st_size]
    if not logs:
        return False
    newest = max(logs, key=lambda each: each.stat().st_mtime_ns)
    os.truncate(newest, max(0, len(newest.read_bytes().rstrip(b"\0")) - _TORN_BYTES))
    return True


def _killed_writer(name: str, path: Path, until: int) -> int:
    """Run a writer until it has reported this many batches, kill it, and return how many it has reported."""
    command = [sys.executable, "-m", "bench.storage", name, str(path)]
    told = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            told = int(line) // _BATCH
            if told >= until:
                writer.send_signal(signal.SIGKILL)
    return told


def _write_until_killed(name: str, path: Path) -> None:
    store, bodies = _STORES[name](path), [b"x" * _BODY_BYTES] * _BATCH
    first = _prefix(store) + 1
    while True:
        store.append(_numbered(first, bodies))
        first += _BATCH
        print(first - 1, flush=True)


def _prefix(store: _Candidate) -> int:
    """How many messages there are from the first one up to a hole."""
    low, high = 0, 1 << 30
    while low < high:
        middle = (low + high + 1) // 2
        at = (middle - 1) // _BATCH * _BATCH + 1
        low, high = (middle, high) if store.read(at, at + _BATCH - 1) else (low, middle - 1)
    return low


if __name__ == "__main__":
    _write_until_killed(sys.argv[1], Path(sys.argv[2]))
