"""The types that all of Penstock shares: messages and their ids, ticks and sets of ticks, limits."""

from __future__ import annotations

from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PeerError, PenstockError
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    CONTENT_TYPE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    SELECTOR_CHARS_MAX,
    SELECTOR_CONJUNCTIONS_MAX,
    SELECTOR_DEPTH_MAX,
    SELECTOR_NODES_MAX,
    STRING_CHARS_MAX,
)
from penstock.model.message import Message, Payload
from penstock.model.message_id import (
    MESSAGE_ID_BYTES,
    MESSAGE_ID_CHARS,
    InvalidMessageIdError,
    MessageId,
    MessageIdSource,
)
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange, format_tick, tick_at, tick_counter, tick_ms
from penstock.model.tick_ranges import TickRanges
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue, Scalar

__all__ = [
    "ATTRIBUTES_MAX",
    "CONTENT_TYPE_CHARS_MAX",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "MESSAGE_ID_BYTES",
    "MESSAGE_ID_CHARS",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "RESERVED_PREFIX",
    "SELECTOR_CHARS_MAX",
    "SELECTOR_CONJUNCTIONS_MAX",
    "SELECTOR_DEPTH_MAX",
    "SELECTOR_NODES_MAX",
    "STRING_CHARS_MAX",
    "TICK_MAX",
    "TICK_MIN",
    "AttributeValue",
    "Attributes",
    "InvalidMessageError",
    "InvalidMessageIdError",
    "LimitError",
    "Message",
    "MessageId",
    "MessageIdSource",
    "MisuseError",
    "Payload",
    "PeerError",
    "PenstockError",
    "Scalar",
    "Tick",
    "TickRange",
    "TickRanges",
    "format_tick",
    "tick_at",
    "tick_counter",
    "tick_ms",
]
