"""Identifiers for the tests of tracking."""

from __future__ import annotations

from penstock.model.message_id import MessageId

__all__ = ["joined", "make_id", "make_ids"]


def make_id(timestamp_ms: int, counter: int = 0, *, publisher: int = 11, broker: int = 1) -> MessageId:
    return MessageId(publisher, broker, timestamp_ms, counter)


def make_ids(start_ms: int, count: int, *, step_ms: int = 1, broker: int = 1) -> list[MessageId]:
    return [make_id(start_ms + number * step_ms, broker=broker) for number in range(count)]


def joined(ids: list[MessageId]) -> bytes:
    return b"".join(each.to_bytes() for each in ids)
