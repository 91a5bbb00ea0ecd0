"""Messages that applications send and receive: attributes to select by, and a payload.

A message is checked where it is created: a broker three hops away that found a bad attribute could only drop the
message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

from penstock.model.errors import InvalidMessageError, LimitError
from penstock.model.expiry import lifetime_ms
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    CONTENT_TYPE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    STRING_CHARS_MAX,
)
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue

__all__ = ["Message", "Payload", "are_plain", "checked_content_type", "checked_payload"]

Payload: TypeAlias = bytes | bytearray | memoryview
"""Types that a message accepts as its payload; it stores ``bytes``."""

_KINDS: Final = frozenset({str, int, float, bool, type(None)})
_NAMES_KEPT_MAX: Final = 4_096
_names: Final[set[str]] = set()
"""Names of attributes that have passed the check, so that it need not be repeated for every message; a program with
more names than are kept has the others checked each time."""
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_QUOTED_CHARS_MAX: Final = 40


@dataclass(slots=True, frozen=True, init=False, repr=False)
class Message:
    """What a publisher sends and a subscriber receives: attributes, and a payload that no broker looks into.

    Messages compare and hash by value as Python does, so the integer 1, the float 1.0 and true are equal here, although
    a selector tells true from 1. The order of the attributes does not matter.
    """

    attributes: Mapping[str, AttributeValue]
    """Attribute values by name: a private, read-only copy."""
    payload: bytes = b""
    """The content, opaque to brokers."""
    content_type: str = ""
    """The payload's media type, for example ``application/json``; empty if unspecified."""
    expires: float | None = None
    """How many seconds after its publication it is not delivered any more; None if it does not expire."""

    def __init__(
        self, attributes: Attributes, payload: Payload = b"", content_type: str = "", expires: float | None = None
    ) -> None:
        """Check everything, and keep an immutable copy; the lifetime is rounded to milliseconds."""
        checked = _checked_attributes(attributes, reserved_allowed=False)
        if len(_names) + len(checked) <= _NAMES_KEPT_MAX:
            _names.update(checked)
        _fill(self, checked, payload, content_type, expires)

    @classmethod
    def system(
        cls, attributes: Attributes, payload: Payload = b"", content_type: str = "", expires: float | None = None
    ) -> Message:
        """Make a system message, which may have reserved attributes."""
        message = cls.__new__(cls)
        _fill(message, _checked_attributes(attributes, reserved_allowed=True), payload, content_type, expires)
        return message

    def __hash__(self) -> int:
        """Hash by value, which the mapping proxy inside cannot do itself."""
        return hash((frozenset(self.attributes.items()), self.payload, self.content_type, self.expires))

    def __repr__(self) -> str:
        """Show the payload by its size only: it may be megabytes."""
        parts = [repr(dict(self.attributes))]
        if self.payload:
            parts.append(f"payload=<{len(self.payload):,} bytes>")
        if self.content_type:
            parts.append(f"content_type={self.content_type!r}")
        if self.expires is not None:
            parts.append(f"expires={self.expires!r}")
        return f"Message({', '.join(parts)})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy as a call: the mapping proxy supports neither, and this may be a system message."""
        return Message.system, (dict(self.attributes), self.payload, self.content_type, self.expires)


def _fill(
    message: Message,
    attributes: dict[str, AttributeValue],
    payload: Payload,
    content_type: str,
    expires: float | None,
) -> None:
    if expires is not None:
        expires = lifetime_ms(expires) / 1_000
        if len(attributes) >= ATTRIBUTES_MAX:
            # The lifetime travels as one more.
            raise LimitError(
                "the number of attributes, with that for the lifetime,", len(attributes) + 1, ATTRIBUTES_MAX
            )
    object.__setattr__(message, "attributes", MappingProxyType(attributes))
    object.__setattr__(message, "payload", checked_payload(payload))
    object.__setattr__(message, "content_type", checked_content_type(content_type))
    object.__setattr__(message, "expires", expires)


def _checked_attributes(attributes: object, *, reserved_allowed: bool) -> dict[str, AttributeValue]:
    """A copy of the attributes, checked in one pass that does next to nothing for a valid attribute."""
    if not isinstance(attributes, Mapping):
        raise InvalidMessageError(f"attributes must be a mapping of names to values, not {_type_of(attributes)}")
    if len(attributes) > ATTRIBUTES_MAX:
        raise LimitError("the number of attributes", len(attributes), ATTRIBUTES_MAX)
    copied: dict[Any, Any] = dict(attributes)
    for name, value in copied.items():
        # ``isprintable`` rules out control characters and surrogates in one call; only other names get a closer look.
        if type(name) is not str or not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
            _check_name(name)
        if name[0] == RESERVED_PREFIX and not reserved_allowed:
            _refuse_reserved(name)
        kind = type(value)
        if kind is str:
            # ``isascii`` just reads a flag, and proves without encoding that the text can be encoded.
            if len(value) > STRING_CHARS_MAX or not value.isascii():
                _check_text(f"attribute {_quoted(name)}", value, STRING_CHARS_MAX)
        elif kind is int:
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                _refuse_integer(name, value)
        elif kind is not float and kind is not bool and value is not None:
            _refuse_type(name, value)
    return copied


def are_plain(attributes: dict[str, AttributeValue]) -> bool:
    """Whether all names are valid for an application, and all values of an allowed type; values may be out of range.

    False only means that ``Message`` has to look more closely. Much cheaper than that: nothing runs per attribute.
    """
    if not _names.issuperset(attributes):
        return False
    # The types of the names, too: a name of another type may equal one that is kept.
    return _KINDS.issuperset(map(type, chain(attributes, attributes.values())))


def checked_payload(payload: object) -> bytes:
    """The payload as bytes, if it is of an allowed type and size."""
    if not isinstance(payload, bytes | bytearray | memoryview):
        hint = "; encode text first, for example with .encode()" if isinstance(payload, str) else ""
        raise InvalidMessageError(f"the payload must be bytes, bytearray or memoryview, not {_type_of(payload)}{hint}")
    size = payload.nbytes if isinstance(payload, memoryview) else len(payload)
    if size > PAYLOAD_BYTES_MAX:
        raise LimitError("the payload's size in bytes", size, PAYLOAD_BYTES_MAX)
    # No copy if it is bytes already.
    return bytes(payload)


def checked_content_type(content_type: object) -> str:
    """The content type, if it is a short text in ASCII."""
    if type(content_type) is not str:
        raise InvalidMessageError(f"the content type must be a str, not {_type_of(content_type)}")
    if content_type:
        _check_text("the content type", content_type, CONTENT_TYPE_CHARS_MAX)
        # It travels in headers of line-based protocols, where a line break would start another header.
        _check_no_control("the content type", content_type)
    if not content_type.isascii():
        raise InvalidMessageError(f"the content type {content_type!r} is not ASCII, as media types are")
    return content_type


def _check_name(name: object) -> None:
    if type(name) is not str:
        raise InvalidMessageError(f"the name of an attribute must be a str, not {_type_of(name)} ({_quoted(name)})")
    if not name:
        raise InvalidMessageError("the name of an attribute must not be empty")
    what = f"the name of attribute {_quoted(name)}"
    _check_text(what, name, NAME_CHARS_MAX)
    _check_no_control(what, name)


def _check_text(what: str, text: str, chars_max: int) -> None:
    if len(text) > chars_max:
        raise LimitError(f"{what}, in characters,", len(text), chars_max)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessageError(
            f"{what} has a lone surrogate at character {error.start + 1}, which UTF-8 cannot encode"
        ) from None


def _check_no_control(what: str, text: str) -> None:
    if found := _CONTROL_CHARACTER.search(text):
        raise InvalidMessageError(
            f"{what} has the control character {found.group()!r} at character {found.start() + 1}; "
            "control characters are not allowed there"
        )


def _refuse_reserved(name: str) -> NoReturn:
    raise InvalidMessageError(
        f"attribute {_quoted(name)} is reserved: names that start with {RESERVED_PREFIX!r} belong to the system"
    )


def _refuse_integer(name: str, value: int) -> NoReturn:
    # The number itself is not shown: Python refuses to print integers of thousands of digits.
    raise InvalidMessageError(
        f"attribute {_quoted(name)} is an int of {value.bit_length():,} bits and a sign; "
        f"integers must be from {INTEGER_MIN} to {INTEGER_MAX} (64 bits with the sign)"
    )


def _refuse_type(name: str, value: object) -> NoReturn:
    raise InvalidMessageError(
        f"attribute {_quoted(name)} is of type {_type_of(value)}; "
        f"values must be exactly str, int, float, bool or None{_hint(value)}"
    )


def _hint(value: object) -> str:
    """How to convert the value to an allowed type, if there is an obvious way."""
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return f": convert it with {base.__name__}()"
    if callable(getattr(value, "item", None)):
        return ": convert it with .item()"
    if isinstance(value, bytes | bytearray | memoryview):
        return ": bytes belong in the payload"
    return ""


def _type_of(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _quoted(value: object) -> str:
    """The value's representation, short enough for an error message."""
    text = repr(value[:_QUOTED_CHARS_MAX] if isinstance(value, str) else value)
    return text if len(text) <= 2 * _QUOTED_CHARS_MAX else f"{text[: 2 * _QUOTED_CHARS_MAX]}…"
