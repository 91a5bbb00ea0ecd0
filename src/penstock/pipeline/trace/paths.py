"""Finds which brokers claim to have published or routed messages, for a block at once ([Tracking] section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.pipeline.trace.slices import FILTERS_MAX, BitSlice, Probe, Words
from penstock.pipeline.trace.stored import LakeFilter, spans_of_index
from penstock.pipeline.trace.timeline import Timeline
from penstock.tracking.hashing import Column

__all__ = ["PathHistories", "TimedSlice", "timed_slices"]

_PART: Final = 8_192
"""Messages hashed at once: few enough for intermediate results to stay in the CPU cache."""


@dataclass(slots=True, frozen=True)
class TimedSlice:
    """Some filters as a slice, with the times each covers."""

    bits: BitSlice
    filters: tuple[LakeFilter, ...]
    masks: Words
    """By time segment, the filters that may have seen it."""


def timed_slices(filters: Iterable[LakeFilter], timeline: Timeline) -> list[TimedSlice]:
    """Group filters of the same shape and similar time into slices; excludes exact records."""
    by_shape: dict[tuple[int, int], list[LakeFilter]] = {}
    for each in filters:
        if each.header.kind == "bloom" and not each.is_damaged:
            by_shape.setdefault((each.header.shape.m, each.header.shape.k), []).append(each)
    found = []
    for (m, k), alike in by_shape.items():
        alike.sort(key=lambda each: each.header.index.hull() or (0, 0))
        for start in range(0, len(alike), FILTERS_MAX):
            some = alike[start : start + FILTERS_MAX]
            masks = timeline.masks([spans_of_index(each.header.index) for each in some])
            found.append(TimedSlice(BitSlice(m, k, [each.stored.body for each in some]), tuple(some), masks))
    return found


class PathHistories:
    """The publisher history and the routing histories of one origin, one per column."""

    def __init__(self, columns: Sequence[Sequence[LakeFilter]], timeline: Timeline) -> None:
        self._columns = len(columns)
        column_of = {id(each): place for place, filters in enumerate(columns) for each in filters}
        self._slices = timed_slices([each for filters in columns for each in filters], timeline)
        self._bits = [_by_column([column_of[id(each)] for each in timed.filters]) for timed in self._slices]
        """By slice and column, the word with the bits of the column's filters."""
        self._exact = [
            [each for each in filters if each.header.kind == "exact" and not each.is_damaged] for filters in columns
        ]
        self._found: list[Words] = []
        self._exact_claims: NDArray[np.bool_] | None = None

    def claims(self, high: Column, low: Column, segments: NDArray[np.intp]) -> NDArray[np.bool_]:
        """For each message and column, whether it is claimed."""
        claimed = np.zeros((self._columns, len(high)), dtype=np.bool_)
        self._found = [np.zeros(len(high), dtype=np.uint64) for _ in self._slices]
        for start in range(0, len(high), _PART):
            part = slice(start, start + _PART)
            self._ask(high[part], low[part], segments[part], part)
        for bits, found in zip(self._bits, self._found, strict=True):
            for column, word in bits.items():
                claimed[column] |= (found & np.uint64(word)) != 0
        self._exact_claims = None
        if any(self._exact):
            self._exact_claims = self._recorded(high, low)
            claimed |= self._exact_claims
        return claimed.T

    def added_ms(self, column: int, rows: NDArray[np.intp], *, now_ms: int) -> NDArray[np.int64]:
        """When the filters of a column that claimed messages of the last block were last added to; -1 if none did."""
        latest = np.full(len(rows), -1, dtype=np.int64)
        for timed, bits, found in zip(self._slices, self._bits, self._found, strict=True):
            own = found[rows] & np.uint64(bits.get(column, 0))
            for place, each in enumerate(timed.filters):
                if bits.get(column, 0) >> place & 1:
                    claims = (own >> np.uint64(place) & np.uint64(1)) != 0
                    np.maximum(latest, each.header.added_ms, out=latest, where=claims)
        if self._exact_claims is not None:
            # The lake does not say when a record was added.
            latest[self._exact_claims[column][rows]] = now_ms
        return latest

    def _ask(self, high: Column, low: Column, segments: NDArray[np.intp], part: slice) -> None:
        places: dict[tuple[int, int], list[NDArray[np.int64]]] = {}
        for timed, found in zip(self._slices, self._found, strict=True):
            wanted = timed.masks[segments]
            if not wanted.any():
                continue
            shape = timed.bits.m, timed.bits.k
            if shape not in places:
                probe = Probe(high, low, timed.bits.m)
                places[shape] = [probe.next() for _ in range(timed.bits.k)]
            found[part] = timed.bits.claims(places[shape], wanted)

    def _recorded(self, high: Column, low: Column) -> NDArray[np.bool_]:
        ids = list(zip(high.tolist(), low.tolist(), strict=True))
        claimed = np.zeros((self._columns, len(high)), dtype=np.bool_)
        for column, blocks in enumerate(self._exact):
            known: set[tuple[int, int]] = set()
            for each in blocks:
                highs, lows, _ = each.stored.exact().columns()
                known.update(zip(highs.tolist(), lows.tolist(), strict=True))
            if known:
                claimed[column] = [each in known for each in ids]
        return claimed


def _by_column(columns: Sequence[int]) -> dict[int, int]:
    words: dict[int, int] = {}
    for place, column in enumerate(columns):
        words[column] = words.get(column, 0) | 1 << place
    return words
