"""What all control frames have in common: how they are encoded, and which numbers and texts in them are believed.

Every value that a peer sends is checked against these types while its frame is decoded, before anything durable or
shared sees it: what is too long or too large is a broken frame, whoever sent it.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.model.limits import PEER_NAME_CHARS_MAX, SELECTOR_CHARS_MAX
from penstock.model.names import DURABLE_NAME, PLAIN_NAME

__all__ = [
    "COUNT_MAX",
    "NAMES_MAX",
    "Control",
    "Count",
    "DurableName",
    "Name",
    "Names",
    "NoDurableName",
    "NoPlainName",
    "PlainName",
    "PlainNames",
    "PubendTick",
    "Reason",
    "SelectorText",
    "Signed",
    "Version",
    "shortened",
]

COUNT_MAX: Final = 2**62
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
"""A number that is only ever counted up; peers that claim to be near the end of 64 bits are not believed."""
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=COUNT_MAX)]
PubendTick: TypeAlias = Count
"""A position in a pubend's stream."""
Signed: TypeAlias = Annotated[int, msgspec.Meta(ge=-COUNT_MAX, le=COUNT_MAX)]
"""A number that is the sender's own, and comes back to it as it was."""
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=PEER_NAME_CHARS_MAX)]
"""Of a client, or of anything as a client calls it: what does not exist is refused by those who look for it."""
PlainName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{PLAIN_NAME}\Z")]
"""Of a broker or a pubend, as brokers say it to each other."""
NoPlainName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A({PLAIN_NAME})?\Z")]
"""The same, or nothing."""
DurableName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A{DURABLE_NAME}\Z")]
"""Of a durable subscription, as brokers say it to each other."""
NoDurableName: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"\A({DURABLE_NAME})?\Z")]
"""The same, or nothing."""
NAMES_MAX: Final = 10_000
"""Entries of a list in a frame."""
Names: TypeAlias = Annotated[tuple[Name, ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Names of brokers or pubends, as clients are told them; an overlay has no more of either."""
PlainNames: TypeAlias = Annotated[tuple[PlainName, ...], msgspec.Meta(max_length=NAMES_MAX)]
"""The same, as brokers say it to each other."""
SelectorText: TypeAlias = Annotated[str, msgspec.Meta(max_length=4 * SELECTOR_CHARS_MAX)]
"""More than can be parsed, so that who writes too long a selector is told what is wrong with it."""
_REASON_CHARS_MAX: Final = 4_096
Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=_REASON_CHARS_MAX)]
"""Why something is not done, for people to read; `shortened` to fit."""


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A control frame; encoded as an array that starts with its tag."""


def shortened(reason: str) -> str:
    """The reason as it may be said: it may quote what a peer wrote, or list all that there is."""
    return reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[: _REASON_CHARS_MAX - 1]}…"
