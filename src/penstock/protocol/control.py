"""The common base of all control frames: their encoding, and the types of the numbers and texts in them.

Every value that a peer sends is checked against these types while its frame is decoded, before anything durable or
shared sees it: a value that is too long or too large makes the frame malformed, whoever sent it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.model.limits import NAME_CHARS_MAX, PEER_NAME_CHARS_MAX, SELECTOR_CHARS_MAX, SUBSCRIBED_PUBENDS_MAX
from penstock.model.names import DURABLE_NAME, PLAIN_NAME

__all__ = [
    "COUNT_MAX",
    "NAMES_MAX",
    "AttributeName",
    "Control",
    "Count",
    "DurableName",
    "Name",
    "Names",
    "NoDurableName",
    "NoPlainName",
    "Places",
    "PlainName",
    "PlainNames",
    "PubendTick",
    "Pubends",
    "Reason",
    "SelectorText",
    "Signed",
    "Version",
    "shortened",
]

COUNT_MAX: Final = 2**62
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
"""A number that only ever counts up; peers that claim to be near the end of 64 bits are not believed."""
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=COUNT_MAX)]
PubendTick: TypeAlias = Count
"""A position in a pubend's stream."""
Signed: TypeAlias = Annotated[int, msgspec.Meta(ge=-COUNT_MAX, le=COUNT_MAX)]
"""A number that the sender chose, and that comes back to it unchanged."""
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=PEER_NAME_CHARS_MAX)]
"""A client's name, or any name that a client uses; lookups refuse names that do not exist."""
AttributeName: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
"""Name of an attribute that is used as a key, or empty."""
PlainName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{PLAIN_NAME}\Z")]
"""Name of a broker or a pubend, between brokers."""
NoPlainName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A({PLAIN_NAME})?\Z")]
"""Name of a broker or a pubend, between brokers, or empty."""
DurableName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{DURABLE_NAME}\Z")]
"""Name of a durable subscription, between brokers."""
NoDurableName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A({DURABLE_NAME})?\Z")]
"""Name of a durable subscription, between brokers, or empty."""
NAMES_MAX: Final = 10_000
"""Entries in a list in a frame."""
Names: TypeAlias = Annotated[tuple[Name, ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Names of brokers or pubends, as sent to clients; an overlay has no more of either."""
Places: TypeAlias = Annotated[tuple[tuple[Name, Name, bool], ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Pubends as clients see them: name, broker, and whether it guarantees delivery."""
Pubends: TypeAlias = Annotated[tuple[Name, ...], msgspec.Meta(max_length=SUBSCRIBED_PUBENDS_MAX)]
"""Pubends that a client chooses; none for all of the overlay."""
PlainNames: TypeAlias = Annotated[tuple[PlainName, ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Names of brokers or pubends, between brokers."""
SelectorText: TypeAlias = Annotated[str, msgspec.Meta(max_length=4 * SELECTOR_CHARS_MAX)]
"""Text of a selector; longer than can be parsed, so that the parser can explain what is wrong."""
_REASON_CHARS_MAX: Final = 4_096
Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=_REASON_CHARS_MAX)]
"""Why something was not done, for people to read; `shortened` makes it fit."""


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A control frame; encoded as an array that starts with its tag."""


def shortened(reason: str) -> str:
    """Cuts a reason to the allowed length: it may quote what a peer wrote, or contain a long list."""
    return reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[: _REASON_CHARS_MAX - 1]}…"
