"""Limits on sizes and counts of messages, names and selectors: whatever can grow is bounded.

All brokers of an overlay share these limits: a message that one broker accepts must be acceptable to every other one,
so they are constants and not settings.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTRIBUTES_BYTES_MAX",
    "ATTRIBUTES_MAX",
    "BODY_BYTES_MAX",
    "CONTENT_TYPE_CHARS_MAX",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "NAME_CHARS_MAX",
    "PAYLOAD_BYTES_MAX",
    "PEER_NAME_CHARS_MAX",
    "SELECTOR_CHARS_MAX",
    "SELECTOR_CONJUNCTIONS_MAX",
    "SELECTOR_DEPTH_MAX",
    "SELECTOR_GAP_CHARS_MAX",
    "SELECTOR_NODES_MAX",
    "SELECTOR_SEARCHES_MAX",
    "SETTLED_MAX",
    "STRING_CHARS_MAX",
    "SUBSCRIBED_PUBENDS_MAX",
]

ATTRIBUTES_MAX: Final = 256
"""Attributes in one message."""
ATTRIBUTES_BYTES_MAX: Final = 1024 * 1024
"""Encoded bytes of all attributes of one message, names and values."""
NAME_CHARS_MAX: Final = 255
"""Characters in the name of an attribute."""
STRING_CHARS_MAX: Final = 65_536
"""Characters in the text value of an attribute."""
CONTENT_TYPE_CHARS_MAX: Final = 255
"""Characters in a content type."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes in a payload; put anything larger into a store, and its address into the message."""
BODY_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + ATTRIBUTES_BYTES_MAX + 512
"""Bytes of a whole message; every frame that can carry one has room for it and for the frame's own fields."""
INTEGER_MIN: Final = -(2**63)
"""Smallest integer: 64 bits signed, as on the wire, in Parquet and in JMS."""
INTEGER_MAX: Final = 2**63 - 1
"""Largest integer."""

SELECTOR_CHARS_MAX: Final = 16_384
"""Characters in the text of a selector."""
SELECTOR_DEPTH_MAX: Final = 100
"""Depth of nesting in a selector (parentheses, NOT, arithmetic)."""
SELECTOR_NODES_MAX: Final = 16_384
"""Literals, attributes and operators in a selector."""
SELECTOR_CONJUNCTIONS_MAX: Final = 64
"""Conjunctions a selector may have in normal form; a selector with more is tested as a whole."""
SELECTOR_GAP_CHARS_MAX: Final = 64
"""Literal characters between two ``%`` of a LIKE pattern, if ``_`` is among them: each costs a pass over the text."""
SELECTOR_SEARCHES_MAX: Final = 64
"""Distinct LIKE patterns in a selector that must be searched for within a text, as ``%x%`` must and ``x%`` need not."""
SETTLED_MAX: Final = 1_000
"""Messages after its position that a durable subscription may have acknowledged one by one, per pubend."""

SUBSCRIBED_PUBENDS_MAX: Final = 100
"""Pubends that a subscription may name; one that names none wants all."""
PEER_NAME_CHARS_MAX: Final = 200
"""Characters in the name of a client, a durable subscription, a broker or a pubend."""
