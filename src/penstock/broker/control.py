"""What all control frames have in common: how they are encoded, and which numbers in them are believed."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

__all__ = ["COUNT_MAX", "Control", "Count", "PubendTick", "Version"]

COUNT_MAX: Final = 2**62
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
"""A number that is only ever counted up; peers that claim to be near the end of 64 bits are not believed."""
Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=COUNT_MAX)]
PubendTick: TypeAlias = Count
"""A position in a pubend's stream."""


class Control(msgspec.Struct, frozen=True, array_like=True):
    """A control frame; encoded as an array that starts with its tag."""
