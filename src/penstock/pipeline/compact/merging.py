"""Which filters of a history become one, and what is superseded: rows in, fewer rows out ([Tracking] section 7).

Filters are merged only if they follow each other in time and their keys fit one: then the false positive probability of
none of them is above that of a full filter, and no timestamp has more filters to be asked than the history had at most.
Open filters stay as they are, since more may come.
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
"""Spans beside the range that a filter may have, as at brokers: with more it is not merged."""
_MATCHING_MIN: Final = 2
"""Filters that any history must be expected to have for one timestamp."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SPAN: Final = struct.Struct(">qq")


@dataclass(slots=True)
class Compacted:
    """What became of the rows of one partition."""

    rows: list[Row] = field(default_factory=list)
    superseded: int = 0
    """Older generations that were dropped."""
    merged: int = 0
    """Filters that went into others."""

    @property
    def is_worth_it(self) -> bool:
        """Whether anything is different."""
        return bool(self.superseded or self.merged)


def compacted(rows: Sequence[Row]) -> Compacted:
    """The rows of ``histories`` of one broker with the same answers: newest generations, merged where they fit."""
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
    """Filters of one history and shape, each joined with those that follow it as long as they fit."""
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
    """How many other filters may be asked for a time that lies between the two ranges."""
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
