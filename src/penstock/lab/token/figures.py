"""Figures of a walk of tokens: operations at once, and intervals ([Token] section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shares", "concurrency", "intervals", "overlap_share", "random_access", "ratio"]

Shares = NDArray[np.float64]
"""Time in milliseconds, by the number of operations at once."""


def concurrency(begins_ms: Sequence[int] | NDArray[np.int64], op_ms: int, *, first_ms: int, last_ms: int) -> Shares:
    """The time between two instants with none, one, two ... operations running; at least seven figures."""
    begins = np.asarray(begins_ms, dtype=np.int64)
    begins = begins[(begins < last_ms) & (begins + op_ms > first_ms)]
    times = np.concatenate([np.clip(begins, first_ms, last_ms), np.clip(begins + op_ms, first_ms, last_ms)])
    steps = np.concatenate([np.ones(len(begins), np.int64), -np.ones(len(begins), np.int64)])
    # At the same instant, ends come before begins: back to back is not at once.
    order = np.lexsort((steps, times))
    times, running = times[order], np.cumsum(steps[order])
    if not len(times):
        return np.array([float(last_ms - first_ms), *[0.0] * 6])
    lasting = np.diff(np.append(times, last_ms))
    shares = np.bincount(np.maximum(running, 0), weights=lasting, minlength=7).astype(np.float64)
    shares[0] += times[0] - first_ms
    return shares


def intervals(op_at: Sequence[int], op_ms: Sequence[int], *, first_ms: int = 0) -> NDArray[np.int64]:
    """The times between successive operations of the same component, for those that end at ``first_ms`` or later."""
    at, begins = np.asarray(op_at, dtype=np.int64), np.asarray(op_ms, dtype=np.int64)
    order = np.lexsort((begins, at))
    at, begins = at[order], begins[order]
    is_same = at[1:] == at[:-1]
    found: NDArray[np.int64] = np.diff(begins)[is_same & (begins[1:] >= first_ms)]
    return found


def random_access(size: int, *, min_ms: int, end_ms: int, rng: Random) -> NDArray[np.int64]:
    """When uncoordinated operations begin: every Δmin, and up to half as much later ([Token] section 2)."""
    chance = np.random.default_rng(rng.getrandbits(64))
    rounds = end_ms // min_ms + 2
    gaps = min_ms + chance.integers(0, min_ms // 2 + 1, size=(size, rounds))
    # As if they had always run: the first operation is somewhere within its period.
    gaps[:, 0] = (gaps[:, 0] * chance.random(size)).astype(np.int64)
    begins = np.cumsum(gaps, axis=1).ravel()
    found: NDArray[np.int64] = np.sort(begins[begins < end_ms])
    return found


def overlap_share(spans: Sequence[tuple[float, float]], first: float, last: float) -> float:
    """The share of the time between two instants in which two or more of these spans overlapped."""
    ends = [(max(begin, first), 1) for begin, end in spans if end > first and begin < last]
    ends += [(min(end, last), -1) for begin, end in spans if end > first and begin < last]
    running, since, overlapped = 0, first, 0.0
    for at, step in sorted(ends):
        if running > 1:
            overlapped += at - since
        running, since = running + step, at
    return ratio(overlapped, last - first)


def ratio(part: float, whole: float) -> float:
    """A share; 0 if the whole is 0."""
    return float(part / whole) if whole else 0.0
