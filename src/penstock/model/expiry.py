"""The lifetime of a message: how it travels with it, and when it is over.

A message with a lifetime has the reserved attribute ``$expires``: how many milliseconds after the time in its
identifier it expires. The lifetime, not the time of its end, so that messages that are otherwise alike still have equal
attributes, which brokers decode and match only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final

from penstock.model.errors import InvalidMessageError
from penstock.model.values import Attributes, AttributeValue

__all__ = ["EXPIRES", "LIFETIME_MS_MAX", "expired_places", "expires_at_ms", "is_lifetime", "lifetime_ms"]

EXPIRES: Final = "$expires"
"""The attribute that holds the lifetime in milliseconds; the only reserved one that applications cause to be set."""
LIFETIME_MS_MAX: Final = 100 * 366 * 24 * 3_600 * 1_000
"""The longest lifetime, about a hundred years."""
_TIME: Final = slice(8, 14)
"""Where the identifier at the start of a body has its time, in milliseconds."""


def lifetime_ms(expires: object) -> int:
    """Converts a lifetime in seconds, to at least a millisecond; raises ``InvalidMessageError`` if it is none.

    >>> lifetime_ms(30.0), lifetime_ms(0.0001)
    (30000, 1)
    """
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise InvalidMessageError(f"expires must be a number of seconds, not {type(expires).__name__}")
    if not isfinite(expires) or not 0 < expires <= LIFETIME_MS_MAX / 1_000:
        raise InvalidMessageError(
            f"expires is {expires!r} seconds; it must be more than 0 and at most {LIFETIME_MS_MAX // 1_000:,}"
        )
    return max(round(expires * 1_000), 1)


def is_lifetime(value: AttributeValue) -> bool:
    """Whether the attribute ``$expires`` may have this value."""
    return type(value) is int and 0 < value <= LIFETIME_MS_MAX


def expires_at_ms(body: bytes, attributes: Attributes) -> int | None:
    """When an encoded message with these attributes expires, by the clock of its publisher's broker; None if never."""
    value = attributes.get(EXPIRES)
    if type(value) is not int:
        return None
    return int.from_bytes(body[_TIME]) + value


def expired_places(bodies: Sequence[bytes], attributes: Sequence[Attributes], *, now_ms: int) -> list[int]:
    """The places of the messages that have expired; one lookup per message, as long as none has a lifetime."""
    for each in attributes:
        if EXPIRES in each:
            break
    else:
        return []
    found: list[int] = []
    for place, each in enumerate(attributes):
        end_ms = expires_at_ms(bodies[place], each)
        if end_ms is not None and end_ms <= now_ms:
            found.append(place)
    return found
