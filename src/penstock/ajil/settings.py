"""A broker's settings for the limit: the initial policy, and what makes a group ([Ajil] section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.errors import AupError

__all__ = ["LimitSettings"]


@dataclass(slots=True, frozen=True)
class LimitSettings:
    """The limit on an overlay."""

    aup: Aup = UNLIMITED
    """The policy in force until a newer one is heard of."""
    attribute: str = "topic"
    """The attribute whose value is the group of a message."""

    def __post_init__(self) -> None:
        if not self.attribute or len(self.attribute) > 255:
            raise AupError(f"attribute is {self.attribute!r}, must have 1 to 255 characters")
