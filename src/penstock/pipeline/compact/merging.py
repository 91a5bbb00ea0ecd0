"""Decides which filters of a history are merged or superseded: rows in, fewer rows out ([Tracking] section 7).

Filters are merged only if they are adjacent in time and their keys fit into one: then none has a higher false positive
probability than a full filter, and no timestamp's matching set grows beyond the largest that the history had. Open
filters stay as they are, since keys may still be added.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from penstock.pipeline.trace.stored import LakeFilter, filters_of
from penstock.tracking.spans import Span, united_spans
from penstock.tracking.stored import StoredFilter, merged

__all__ = ["SINGLETONS_MAX", "Compacted", "compacted"]

Row: TypeAlias = Mapping[str, Any]

SINGLETONS_MAX: Final = 64
"""How many spans besides its range a filter may have, as at brokers; with more it is not merged."""
_MATCHING_MIN: Final = 2
"""The size of a matching set to expect in any history."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN: Final = struct.Struct(">qq")


@dataclass(slots=True)
class Compacted:
    """The compacted rows of one partition."""

    rows: list[Row] = field(default_factory=list)
    superseded: int = 0
    """Older generations that were dropped."""
    merged: int = 0
    """Filters merged into others."""

    @property
    def is_worth_it(self) -> bool:
        """Whether anything changed."""
        return bool(self.superseded or self.merged)


def compacted(rows: Sequence[Row]) -> Compacted:
    """Compact a broker's rows of ``histories`` without changing answers: keep newest generations, merge what fits."""
    newest: dict[tuple[str, int], Row] = {}
    for row in sorted(rows, key=lambda row: (row["generation"], row["incarnation"], row["sequence"])):
        newest[row["history"], row["filter_id"]] = row
    result = Compacted(superseded=len(rows) - len(newest))
    alike: dict[tuple[Any, ...], list[tuple[Row, LakeFilter]]] = {}
    for row in newest.values():
        (filter_,) = filters_of([{"broker": "", **row, "added_ms": _ms(row["added_at"])}], now_ms=0)
        if row["is_open"] or filter_.is_damaged or filter_.header.index.hull() is None:
            result.rows.append(row)
        else:
            kind = row["history"], row["m"], row["k"], row["n"]
            alike.setdefault(kind, []).append((row, filter_))
    for some in alike.values():
        made = _merged(some)
        result.merged += len(some) - len(made)
        result.rows += made
    result.rows.sort(key=lambda row: (row["history"], row["filter_id"]))
    return result


def _merged(filters: list[tuple[Row, LakeFilter]]) -> list[Row]:
    """Merge filters of one history and shape, each with its successors as long as they fit."""
    ordered = sorted(filters, key=lambda each: (_hull(each[1].stored), each[0]["filter_id"]))
    hulls = [_hull(each.stored) for _, each in ordered]
    bound = max(_MATCHING_MIN, _overlap_max(hulls))
    rows: list[Row] = []
    row, stored = ordered[0][0], _with_beginning(*ordered[0])
    for place, (next_row, each) in enumerate(ordered[1:], start=1):
        others = hulls[: place - 1] + hulls[place + 1 :]
        following = _with_beginning(next_row, each)
        if _fits(stored, following) and _asked_between(stored, following, others) < bound:
            stored = merged(stored, following, singletons_max=SINGLETONS_MAX)
            row = _row(row, next_row, stored)
        else:
            rows.append(row)
            row, stored = next_row, following
    return [*rows, row]


def _fits(one: StoredFilter, other: StoredFilter) -> bool:
    a, b = one.header, other.header
    spans = united_spans([*a.index.singletons, *b.index.singletons])
    return a.count + b.count <= a.shape.n and len(spans) <= SINGLETONS_MAX


def _asked_between(one: StoredFilter, other: StoredFilter, others: Sequence[Span]) -> int:
    """How many other filters may match a time between the two ranges."""
    if one.header.index.range is None or other.header.index.range is None:
        return 0
    first, last = one.header.index.range[1] + 1, other.header.index.range[0] - 1
    return sum(first <= end and start <= last for start, end in others) if first <= last else 0


def _overlap_max(hulls: Sequence[Span]) -> int:
    edges = sorted([(first, 1) for first, _ in hulls] + [(last + 1, -1) for _, last in hulls])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def _hull(stored: StoredFilter) -> Span:
    hull = stored.header.index.hull()
    assert hull is not None
    return hull


def _with_beginning(row: Row, filter_: LakeFilter) -> StoredFilter:
    header = replace(filter_.header, opened_ms=_ms(row["opened_at"]))
    return StoredFilter(header, filter_.stored.body)


def _row(row: Row, other: Row, stored: StoredFilter) -> Row:
    header = stored.header
    first_ms, last_ms = header.index.range or (None, None)
    shipped = max((each["incarnation"], each["sequence"]) for each in (row, other))
    return {
        **row,
        "incarnation": shipped[0],
        "sequence": shipped[1],
        "generation": header.generation,
        "is_open": False,
        "count": header.count,
        "opened_at": _EPOCH + timedelta(milliseconds=header.opened_ms),
        "added_at": _EPOCH + timedelta(milliseconds=header.added_ms),
        "first_ms": first_ms,
        "last_ms": last_ms,
        "singletons": b"".join(_SPAN.pack(*span) for span in header.index.singletons),
        "bits": stored.body,
    }


def _ms(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)
