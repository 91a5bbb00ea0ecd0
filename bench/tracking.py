"""Measures what tracking costs: filters one key at a time and in batches, MD5, and a recorder as a broker calls it.

The paper derives its indices from MD5: k segments of 16 or 32 bits, of one or more digests.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from time import thread_time

import numpy as np

from bench.report import Report
from penstock.cli.progress import ProgressReporter
from penstock.model.reporting import Reporter
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import Column, mixed_columns, subscriber_key
from penstock.tracking.recorder import Recorder
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

__all__ = ["main", "run"]

_REPEATS = 15
_BATCHES = (1, 16, 113, 256, 4_096, 65_536)
_START_MS = 1_700_000_000_000


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure filters of 64 Kbit, then a recorder; the seed chooses the publishers."""
    keys = 2_000 if quick else 20_000
    reporter.stage("single keys")
    yield _singly(keys // 20, publisher=1 + seed)
    reporter.stage("batches of keys")
    yield _batches(keys, publisher=1 + seed)
    reporter.stage("a recorder")
    yield _recorder(keys, publisher=1 + seed)


def _singly(keys: int, *, publisher: int) -> Report:
    report = Report("one key at a time, 64 Kbit: ns per key", ("k", "add", "contains", "MD5 add", "MD5 / ours"))
    high, low = message_columns(keys, publisher=publisher, start_ms=_START_MS)
    pairs = list(zip(high.tolist(), low.tolist(), strict=True))
    ids = [_bytes(*pair) for pair in pairs]
    for k in (8, 10, 16):
        made = BloomFilter(FilterShape(65_536, keys, k))
        add = _ns(lambda made=made: [made.add(*pair) for pair in pairs], keys)  # type: ignore[misc]
        contains = _ns(lambda made=made: [made.contains(*pair) for pair in pairs], keys)  # type: ignore[misc]
        bits = bytearray(8_192)
        md5 = _ns(lambda bits=bits, k=k: _add_all_by_md5(bits, ids, k), keys)  # type: ignore[misc]
        report.rows.append((k, add, contains, md5, md5 / add))
        report.figures.update({f"add_ns_k{k}": add, f"contains_ns_k{k}": contains, f"md5_add_ns_k{k}": md5})
    return report


def _batches(keys: int, *, publisher: int) -> Report:
    report = Report("batches, 64 Kbit, k = 16: ns per key", ("batch", "hash only", "add", "contains foreign ids"))
    for size in _BATCHES:
        rounds = max(min(keys // size, 200), 2)
        high, low = message_columns(size, publisher=publisher, start_ms=_START_MS)
        foreign = message_columns(size, publisher=publisher, start_ms=_START_MS + 10**9)
        made = BloomFilter(FilterShape(65_536, 2_521, 16))
        made.add_columns(*message_columns(2_521, publisher=publisher, start_ms=_START_MS))
        contains = _ns_of(lambda made=made, foreign=foreign: made.contains_columns(*foreign), rounds, size)  # type: ignore[misc]
        hashing = _ns_of(lambda high=high, low=low: _hash_only(high, low), rounds, size)  # type: ignore[misc]
        add = _ns_of(lambda made=made, high=high, low=low: made.add_columns(high, low), rounds, size)  # type: ignore[misc]
        report.rows.append((size, hashing, add, contains))
        report.figures.update(
            {f"hash_ns_{size}": hashing, f"batch_add_ns_{size}": add, f"contains_ns_{size}": contains}
        )
    return report


def _recorder(keys: int, *, publisher: int) -> Report:
    report = Report(
        "a recorder, 5,000 messages/s: ns per record, everything included",
        ("strategy", "batch", "routed", "delivered", "bytes written per record"),
    )
    high, low = message_columns(keys, publisher=publisher, start_ms=_START_MS)
    ids = np.stack((high, low), axis=1).astype(">u8").tobytes()
    subscribers = [subscriber_key(f"s{each}") for each in range(500)]
    for strategy in ("exact", "bloom"):
        for size in (1, 10, 100):
            routed, written = min(_recording(strategy, ids, size, []) for _ in range(_REPEATS))
            delivered, _ = min(_recording(strategy, ids, size, subscribers) for _ in range(_REPEATS))
            report.rows.append((strategy, size, routed, delivered, written))
            report.figures.update(
                {f"{strategy}_routed_ns_{size}": routed, f"{strategy}_delivered_ns_{size}": delivered}
            )
    return report


def _recording(strategy: str, ids: bytes, size: int, subscribers: list[int]) -> tuple[float, float]:
    recorder = Recorder(1, TrackingSettings(strategy=strategy), now_ms=_START_MS)
    count, written = len(ids) // 16, 0
    batches = [ids[place : place + 16 * size] for place in range(0, len(ids), 16 * size)]
    started = thread_time()
    for number, batch in enumerate(batches):
        now_ms = _START_MS + number * size // 5
        if subscribers:
            start = number * size % 400
            recorder.record_delivered(2, batch, subscribers[start : start + len(batch) // 16], now_ms=now_ms)
        else:
            recorder.record_routed(2, batch, now_ms=now_ms)
        due_ms = recorder.next_deadline()
        if due_ms is not None and now_ms >= due_ms:
            recorder.on_deadline(now_ms=now_ms)
        taken = recorder.take()
        if taken:
            written += sum(keep.size_bytes for keep in taken)
            recorder.on_kept(taken)
    return (thread_time() - started) / count * 1e9, written / count


def _add_all_by_md5(bits: bytearray, ids: list[bytes], k: int) -> None:
    for each in ids:
        _add_by_md5(bits, each, k)


def _add_by_md5(bits: bytearray, message_id: bytes, k: int) -> None:
    digest = hashlib.md5(message_id, usedforsecurity=False).digest()
    if k > 8:
        digest += hashlib.md5(b"1" + message_id, usedforsecurity=False).digest()
    for index in memoryview(digest).cast("H")[:k]:
        bits[index >> 3] |= 1 << (index & 7)


def _hash_only(high: Column, low: Column) -> None:
    mixed_columns(high, low)


def _bytes(high: int, low: int) -> bytes:
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


def _ns(work: Callable[[], object], count: int) -> float:
    return _ns_of(work, 1, count)


def _ns_of(work: Callable[[], object], rounds: int, count: int) -> float:
    """The best of many runs, in processor time, so that other load hardly matters."""
    best = float("inf")
    for _ in range(_REPEATS):
        started = thread_time()
        for _ in range(rounds):
            work()
        best = min(best, thread_time() - started)
    return best / rounds / count * 1e9


def main() -> int:
    """Run this benchmark alone: ``python -m bench.tracking [--quick]``."""
    parser = argparse.ArgumentParser(prog="python -m bench.tracking")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    chosen = parser.parse_args()
    with ProgressReporter() as reporter:
        reports = list(run(reporter, quick=chosen.quick))
    for report in reports:
        report.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
