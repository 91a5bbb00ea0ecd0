"""Identifiers of messages, which the publisher assigns.

A `MessageId` is publisher (u32) · broker (u32) · timestamp in ms (u48) · counter (u16): 16 bytes, big-endian, so that
the ids a publisher made at one broker sort by time. Its text is 26 characters of Crockford's base32: no look-alike
characters, safe in URLs, and sorted like the bytes.

MisuseError
└── InvalidMessageIdError    bytes, text or parts that are not an identifier
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from penstock.model.errors import MisuseError

__all__ = [
    "MESSAGE_ID_BYTES",
    "MESSAGE_ID_CHARS",
    "InvalidMessageIdError",
    "MessageId",
    "MessageIdSource",
    "id_text",
]

MESSAGE_ID_BYTES: Final = 16
"""Length of an identifier as bytes."""
MESSAGE_ID_CHARS: Final = 26
"""Length of an identifier as text: 130 bits for 128, so the first character is at most 7."""

_U16_MAX: Final = 2**16 - 1
_U32_MAX: Final = 2**32 - 1
_U48_MAX: Final = 2**48 - 1
_U64_MAX: Final = 2**64 - 1

_PACKED: Final = Struct(">IIQ")

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Encoding ten bits at a time halves the cost of making the text.
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SHIFTS: Final = range(120, -1, -10)
_DIGITS: Final = {
    **{char: digit for digit, char in enumerate(_ALPHABET)},
    **{char.lower(): digit for digit, char in enumerate(_ALPHABET)},
    **dict.fromkeys("IiLl", 1),
    **dict.fromkeys("Oo", 0),
}


class InvalidMessageIdError(MisuseError):
    """Bytes, text or parts that are not an identifier of a message."""


@dataclass(slots=True, frozen=True, order=True)
class MessageId:
    """Who published a message, at which broker, and when: unique, and ordered like its bytes."""

    publisher: int
    """Number of the publisher, 32 bits."""
    broker: int
    """Number of the broker it was connected to, 32 bits."""
    timestamp_ms: int
    """The publisher's clock with its skew adjustment, 48 bits."""
    counter: int
    """Breaks ties within a millisecond, 16 bits."""

    def __post_init__(self) -> None:
        """Check that every part is an integer that fits its bits."""
        _check_part("publisher", self.publisher, _U32_MAX)
        _check_part("broker", self.broker, _U32_MAX)
        _check_part("timestamp_ms", self.timestamp_ms, _U48_MAX)
        _check_part("counter", self.counter, _U16_MAX)

    @classmethod
    def from_bytes(cls, data: bytes) -> MessageId:
        """Read an identifier from its 16 bytes."""
        if len(data) != MESSAGE_ID_BYTES:
            raise InvalidMessageIdError(f"a message id has {MESSAGE_ID_BYTES} bytes, not {len(data)}")
        return cls._from_number(int.from_bytes(data, "big"))

    @classmethod
    def from_halves(cls, high: int, low: int) -> MessageId:
        """The identifier with these unsigned 64-bit halves."""
        _check_part("high half", high, _U64_MAX)
        _check_part("low half", low, _U64_MAX)
        return cls._from_number(high << 64 | low)

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read the text form; lower case is fine, and so are I or L for 1 and O for 0, as people copy them."""
        return cls._from_number(_number_from_text(text))

    @classmethod
    def _from_number(cls, number: int) -> MessageId:
        return cls(number >> 96, number >> 64 & _U32_MAX, number >> 16 & _U48_MAX, number & _U16_MAX)

    def halves(self) -> tuple[int, int]:
        """The identifier as two unsigned 64-bit numbers, for columns: who and where, then when."""
        return self.publisher << 32 | self.broker, self.timestamp_ms << 16 | self.counter

    def to_bytes(self) -> bytes:
        """The 16 bytes, which sort like the identifiers."""
        return _PACKED.pack(self.publisher, self.broker, self.timestamp_ms << 16 | self.counter)

    def __str__(self) -> str:
        """The text form: 26 characters to print, copy, sort and parse."""
        return id_text(self._number())

    def _number(self) -> int:
        high, low = self.halves()
        return high << 64 | low


def id_text(number: int) -> str:
    """The text form of the identifier with these 128 bits.

    >>> id_text(1)
    '00000000000000000000000001'
    """
    return "".join([_PAIRS[number >> shift & 0x3FF] for shift in _SHIFTS])


# For parts that are known to be valid: setting the slots takes a third of the time of the constructor with its checks.
_new: Final = object.__new__
_set_publisher: Final = MessageId.__dict__["publisher"].__set__
_set_broker: Final = MessageId.__dict__["broker"].__set__
_set_timestamp_ms: Final = MessageId.__dict__["timestamp_ms"].__set__
_set_counter: Final = MessageId.__dict__["counter"].__set__


class MessageIdSource:
    """Makes the identifiers of one publisher at one broker, strictly increasing whatever its clock does."""

    def __init__(self, publisher: int, broker: int, *, after: MessageId | None = None) -> None:
        """Continue above ``after``, the publisher's last identifier, if it had one before a restart or a move."""
        _check_part("publisher", publisher, _U32_MAX)
        _check_part("broker", broker, _U32_MAX)
        if after is not None and after.publisher != publisher:
            raise InvalidMessageIdError(f"publisher {publisher} cannot continue after publisher {after.publisher}")
        self._publisher, self._broker = publisher, broker
        self._timestamp_ms, self._counter = (0, -1) if after is None else (after.timestamp_ms, after.counter)
        self._skew_ms = 0

    @property
    def skew_ms(self) -> int:
        """The correction added to the publisher's clock: δ, the broker's clock minus the publisher's."""
        return self._skew_ms

    def adjust(self, skew_ms: int) -> None:
        """Use a newly measured skew; identifiers never go back because of it."""
        assert type(skew_ms) is int, f"skew_ms is {skew_ms!r}, not a whole number of milliseconds"
        self._skew_ms = skew_ms

    def next(self, now_ms: int) -> MessageId:
        """Make the identifier of a message that is published now."""
        timestamp_ms, counter = now_ms + self._skew_ms, 0
        if timestamp_ms <= self._timestamp_ms:
            # Same millisecond, or the clock was set back: stay and count; a full counter borrows from the future.
            timestamp_ms, counter = self._timestamp_ms, self._counter + 1
            if counter > _U16_MAX:
                timestamp_ms, counter = timestamp_ms + 1, 0
        if timestamp_ms > _U48_MAX:
            _check_part("timestamp_ms", timestamp_ms, _U48_MAX)
        assert timestamp_ms > self._timestamp_ms or counter > self._counter
        self._timestamp_ms = timestamp_ms
        self._counter = counter
        made = _new(MessageId)
        _set_publisher(made, self._publisher)
        _set_broker(made, self._broker)
        _set_timestamp_ms(made, timestamp_ms)
        _set_counter(made, counter)
        return made


def _check_part(name: str, value: int, value_max: int) -> None:
    # A float would pass the comparison and break the shifts, a numpy integer would overflow in them.
    if type(value) is not int:
        raise InvalidMessageIdError(f"{name} of a message id must be an int, not {type(value).__name__} ({value!r})")
    if not 0 <= value <= value_max:
        bits = value_max.bit_length()
        raise InvalidMessageIdError(f"{name} of a message id is {value}, outside 0 to {value_max} ({bits} bits)")


def _number_from_text(text: str) -> int:
    if len(text) != MESSAGE_ID_CHARS:
        raise InvalidMessageIdError(
            f"a message id has {MESSAGE_ID_CHARS} characters, not {len(text)}: {_excerpt(text)!r}"
        )
    number = 0
    for position, char in enumerate(text, start=1):
        digit = _DIGITS.get(char)
        if digit is None:
            raise InvalidMessageIdError(
                f"character {position} of message id {text!r} is {char!r}; only 0-9 and A-Z without U are used"
            )
        number = number << 5 | digit
    if number >> 128:
        raise InvalidMessageIdError(
            f"message id {text!r} begins with {text[0]!r}; the first character is 0 to 7, as there are only 128 bits"
        )
    return number


def _excerpt(text: str) -> str:
    return text if len(text) <= 2 * MESSAGE_ID_CHARS else f"{text[: 2 * MESSAGE_ID_CHARS]}…"
