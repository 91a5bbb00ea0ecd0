"""Aliases: messages published at another broker than their ids name.

A publisher that retries at another broker keeps the id, so that nobody receives the message twice. The broker that
publishes it keeps an alias record, and so does the one that the id names, if it is told.
"""

from __future__ import annotations

from penstock.model.message_id import MessageId
from penstock.tracking.records import AliasRecord, Keep, SinceRecord, encode_record

__all__ = ["AliasBook"]


class AliasBook:
    """The aliases that one broker knows; beyond the bound, the oldest are forgotten."""

    def __init__(self, aliases_max: int = 100_000) -> None:
        assert aliases_max > 0
        self._aliases_max = aliases_max
        self._records: dict[bytes, AliasRecord] = {}
        self.known_since_ms = 0
        """Aliases of messages published before this may be forgotten."""

    def __len__(self) -> int:
        return len(self._records)

    def record(self, message_id: MessageId, broker: str, number: int, *, now_ms: int) -> list[Keep]:
        """Record which broker published a message; returns the values to store."""
        record = AliasRecord(message_id.to_bytes(), broker, number, now_ms)
        return [Keep(f"alias/{message_id}", encode_record(record)), *self.load(record)]

    def load(self, record: AliasRecord) -> list[Keep]:
        """Add a record of an earlier run or of another broker; returns the values to delete for it."""
        self._records.pop(record.message_id, None)
        self._records[record.message_id] = record
        dropped = []
        while len(self._records) > self._aliases_max:
            oldest = self._records.pop(next(iter(self._records)))
            self.known_since_ms = max(self.known_since_ms, oldest.published_ms)
            dropped.append(Keep(f"alias/{MessageId.from_bytes(oldest.message_id)}", None))
        if dropped:
            dropped.append(Keep("since/alias", encode_record(SinceRecord(self.known_since_ms))))
        return dropped

    def load_since(self, record: SinceRecord) -> None:
        """Restore the ``known_since_ms`` of an earlier run."""
        self.known_since_ms = max(self.known_since_ms, record.known_since_ms)

    def record_of(self, message_id: MessageId) -> AliasRecord | None:
        """Where the message was published, if not at the broker that its id names."""
        return self._records.get(message_id.to_bytes())
