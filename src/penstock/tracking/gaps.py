"""The gaps of a broker's tracking: for which messages a no is worth nothing.

Gaps of one kind that follow each other grow together, and the oldest ones are joined when there are too many: a list
of gaps can become coarse, but it never forgets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.tracking.records import GapRecord, Keep, encode_record
from penstock.tracking.spans import TimeIndex, united_spans

__all__ = ["Gaps"]

_SPANS_MAX: Final = 256
"""Spans of one record: a kilobyte or so."""


class Gaps:
    """What may be missing: one record for each reason and history."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], GapRecord] = {}

    def __iter__(self) -> Iterator[GapRecord]:
        return iter(self._records.values())

    def load(self, record: GapRecord) -> None:
        """A record of an earlier life."""
        self._records[record.reason, record.key] = record

    def add(self, record: GapRecord) -> Keep:
        """Something was lost; answers with the value to store."""
        key = record.reason, record.key
        before = self._records.get(key)
        index = TimeIndex(None, united_spans((*record.spans, *(before.spans if before else ()))))
        index.join_singletons((), _SPANS_MAX)
        self._records[key] = joined = GapRecord(index.singletons, record.reason, record.key)
        return Keep(f"gap/{record.reason}/{record.key}", encode_record(joined))

    def concerning(self, key: str, timestamp_ms: int) -> list[GapRecord]:
        """The gaps for which a no of this history is worth nothing."""
        return [each for each in self._records.values() if each.concerns(key, timestamp_ms)]
