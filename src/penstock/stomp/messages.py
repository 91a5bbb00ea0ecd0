"""Turns the headers of SEND frames into messages: which of them are attributes, and of which types.

All headers become attributes, except those that STOMP or this broker gives a meaning of its own. Headers are texts.
With ``infer`` a text that is written exactly as Penstock writes an integer, a float or a boolean becomes one, so what
comes back is the same text; ``NAME;type=int`` (``float``, ``bool``, ``string``) says it for one header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Final, NamedTuple

from penstock.model.body import encode_content
from penstock.model.errors import MisuseError
from penstock.model.expiry import LIFETIME_MS_MAX
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import AttributeValue
from penstock.protocol.stomp import StompError, StompFrame
from penstock.stomp.destinations import DESTINATION, Destination
from penstock.stomp.settings import INFER

__all__ = ["NO_ATTRIBUTES", "OWN_PREFIX", "PUBEND", "Outgoing", "as_text", "header_name", "outgoing"]

OWN_PREFIX: Final = "penstock-"
"""Begins the headers that are this broker's own."""
PUBEND: Final = "penstock-pubend"
"""The header with the pubend of a message."""
_TEXTS: Final = frozenset({DESTINATION, "reply-to", "correlation-id", "type", "JMSXGroupID"})
"""Headers that name something, and remain texts."""
NO_ATTRIBUTES: Final = frozenset(
    {
        "content-length",
        "content-type",
        "receipt",
        "transaction",
        "expires",
        "persistent",
        # What MESSAGE frames have, and clients may pass on without a thought.
        "ack",
        "message-id",
        "redelivered",
        "subscription",
        "timestamp",
    }
)
"""Headers that have a meaning of their own: they become no attributes, and attributes of these names no headers."""
_NAMES_MAX: Final = 4_096
_NAME_CHARS_KEPT: Final = 64
_DESTINATIONS_MAX: Final = 4_096
_names: set[str] = set()
"""Names of headers that become attributes of any type, as far as they were met: one look tells it of a name."""
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_HINTED_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,100}")
_HINTED_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLOAT_CHARS_MAX: Final = 25
_NUMBER_STARTS: Final = frozenset("-0123456789")
_HINT: Final = ";type="
_ESCAPES: Final = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
_ESCAPE: Final = re.compile(r"\\[\\nr]")


class Outgoing(NamedTuple):
    """A message to be published."""

    destination: Destination
    content: bytes
    """All of it but the identifier, encoded."""
    pubend: str
    """The pubend that the client has named; empty if it has not."""
    is_persistent: bool
    """Whether the client wants it to be kept."""


def outgoing(frame: StompFrame, *, types: str, wall_ms: int) -> Outgoing:
    """The message of a SEND frame; raises ``StompError``."""
    headers = frame.headers
    text = headers.get(DESTINATION)
    if text is None:
        raise StompError("SEND has no destination", DESTINATION)
    destination = _destination(text)
    attributes = _attributes(headers, infers=types == INFER)
    pubend = headers.get(PUBEND, "")
    if destination.kind == "pubend":
        # It names where the message is kept, and not what it is about.
        del attributes[DESTINATION]
        pubend = destination.name
    lifetime_s = _lifetime_s(headers, wall_ms)
    content_type = headers.get("content-type", "")
    try:
        content = encode_content(attributes, frame.body, content_type, lifetime_s)
    except MisuseError as error:
        raise StompError(str(error), _blamed(attributes, content_type)) from None
    return Outgoing(destination, content, pubend, headers.get("persistent", "true") != "false")


@lru_cache(_DESTINATIONS_MAX)
def _destination(text: str) -> Destination:
    destination = Destination.parse(text)
    if destination.is_pattern:
        raise StompError(f"destination {text!r} is a pattern, to which nothing can be sent", DESTINATION)
    return destination


def _attributes(headers: Mapping[str, str], *, infers: bool) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    for name, value in headers.items():
        if name in _names:
            attributes[name] = _inferred(value) if infers else value
        elif name in _TEXTS:
            attributes[name] = value
        elif name in NO_ATTRIBUTES or name.startswith(OWN_PREFIX):
            continue
        elif _HINT in name:
            plain, hinted = _hinted(name, value)
            attribute = _attribute_name(plain)
            if attribute in attributes or plain in headers:
                second = name if attribute in attributes else plain
                raise StompError(f"header {second[:100]!r} gives {plain[:100]!r} a second value", second)
            attributes[attribute] = hinted
        else:
            attribute = _attribute_name(name)
            attributes[attribute] = _inferred(value) if infers else value
            if attribute == name and len(_names) < _NAMES_MAX and len(name) <= _NAME_CHARS_KEPT:
                _names.add(name)
    return attributes


def _attribute_name(header: str) -> str:
    r"""The name of the attribute for a header: line breaks, which no attribute's name has, are written as escapes.

    So are backslashes, or else a name could mean two headers.

    >>> print(_attribute_name("a\nb"), _attribute_name("a\\b"))
    a\nb a\\b
    """
    if "\\" not in header and "\n" not in header and "\r" not in header:
        return header
    return header.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def header_name(attribute: str) -> str:
    r"""The name of the header for an attribute. A native client's may have backslashes that escape nothing: they stay.

    >>> header_name(_attribute_name("a\nb")) == "a\nb"
    True
    """
    if "\\" not in attribute:
        return attribute
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], attribute)


def as_text(value: AttributeValue) -> str | None:
    """An attribute as the value of a header; None for null, which is the same as an absent attribute."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]
    if kind is bool:
        return "true" if value else "false"
    return None if value is None else repr(value)


def _inferred(text: str) -> AttributeValue:
    """The number or boolean that is written like this, if there is one."""
    if not text or text[0] not in _NUMBER_STARTS:
        return text == "true" if text in ("true", "false") else text
    if "." not in text and _INTEGER.fullmatch(text):
        number = int(text)
        return number if INTEGER_MIN <= number <= INTEGER_MAX else text
    if len(text) > _FLOAT_CHARS_MAX:
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    # Only what is written as it would be written back: 1.50 and 007 remain texts. So does what is no number.
    return value if repr(value) == text and isfinite(value) else text


def _hinted(name: str, text: str) -> tuple[str, AttributeValue]:
    """The name and the value of a header that says of which type it is."""
    plain, _, kind = name.partition(_HINT)
    if not plain or plain in _TEXTS or plain in NO_ATTRIBUTES or plain.startswith(OWN_PREFIX):
        raise StompError(f"header {name[:100]!r} cannot say of which type it is", name)
    convert = _KINDS.get(kind)
    if convert is None:
        raise StompError(f"header {name[:100]!r} has a type that is none of {', '.join(_KINDS)}", name)
    try:
        return plain, convert(text)
    except ValueError:
        raise StompError(f"header {name[:100]!r} is {text[:100]!r}, which is no {kind}", name) from None


def _integer(text: str) -> int:
    number = int(text) if _HINTED_INTEGER.fullmatch(text) else None
    if number is None or not INTEGER_MIN <= number <= INTEGER_MAX:
        raise ValueError(text)
    return number


def _float(text: str) -> float:
    # Not all that Python takes: nan, 1_000 and other scripts' digits are somebody's mistake.
    number = float(text) if _HINTED_FLOAT.fullmatch(text) else None
    if number is None or not isfinite(number):
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_KINDS: Final[Mapping[str, Callable[[str], AttributeValue]]] = {
    "int": _integer,
    "float": _float,
    "bool": _boolean,
    "string": str,
}


def _lifetime_s(headers: Mapping[str, str], wall_ms: int) -> float | None:
    """How long the message is to live: ``expires`` is a time in milliseconds since 1970, 0 for never."""
    text = headers.get("expires")
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise StompError(f"expires is {text[:100]!r}; it must be a time in milliseconds since 1970", "expires")
    if not int(text):
        return None
    # What has expired on its way here is published all the same, and expires at once: its receipt is owed.
    lifetime_ms = max(int(text) - wall_ms, 1)
    if lifetime_ms > LIFETIME_MS_MAX:
        raise StompError(f"expires is {text}, more than a hundred years from now", "expires")
    return lifetime_ms / 1_000


def _blamed(attributes: Mapping[str, AttributeValue], content_type: str) -> str:
    """The header at fault; empty if it is no single one."""
    for name, value in attributes.items():
        if _is_refused({name: value}, ""):
            return name
    return "content-type" if _is_refused({}, content_type) else ""


def _is_refused(attributes: dict[str, AttributeValue], content_type: str) -> bool:
    try:
        encode_content(attributes, b"", content_type)
    except MisuseError:
        return True
    return False
