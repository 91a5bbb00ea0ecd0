"""Renders messages as MESSAGE frames: once for each message and version, whoever gets it.

What differs between subscriptions (their identifier, the ``ack`` header) comes first in a frame, and everything else
after it. So one message for many subscriptions of a connection is one text joined by many short ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.model.body import decode_attributes, decode_id
from penstock.model.expiry import EXPIRES, expires_at_ms
from penstock.model.message_id import MESSAGE_ID_BYTES, id_text
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue
from penstock.protocol.stomp import Version, encode_headers
from penstock.stomp.destinations import DESTINATION
from penstock.stomp.messages import NO_ATTRIBUTES, OWN_PREFIX, PUBEND, as_text, header_name

__all__ = ["TICK", "Rendered", "Rendering"]

TICK: Final = "penstock-tick"
"""The header with the position of a message in the stream of its pubend."""
_CACHE_BYTES: Final = 16 * 1024 * 1024
"""Connections get a message at different times: as much as may be on its way should fit, or it is rendered again."""
_CACHED_BYTES_MAX: Final = _CACHE_BYTES // 64
_SHOWN_MAX: Final = 4_096
_HEADS_MAX: Final = 1_024
_TAILS_MAX: Final = 2_048
_COUNTER: Final = slice(MESSAGE_ID_BYTES - 2, MESSAGE_ID_BYTES)
"""Where the identifier at the start of a message has its counter."""
_TAIL_CHARS: Final = 3
_TIMESTAMP: Final = 2**48 - 1
"""The bits of an identifier that have its time, without the counter."""
_COUNTED: Final = 1 << 5 * _TAIL_CHARS
"""The last characters of an identifier's text say nothing but its counter, if that is less than this."""
_OWN: Final = NO_ATTRIBUTES | {DESTINATION}
_CHANGING: Final = re.compile(r"[\s:\\]")
"""What some version changes or leaves out in the name of a header."""
_NO_NUL: Final = "�"
"""What stands for NUL, which no header can have."""
_shown: set[str] = {DESTINATION}
"""Names of attributes that are headers, too, as far as they were met: one look tells it of all of a message."""


class Rendered(NamedTuple):
    """A MESSAGE frame without the headers that come first."""

    rest: bytes
    has_destination: bool
    """Whether the message says where it was sent; a native one need not."""
    message_id: str
    pubend: str
    tick: int


class Rendering:
    """The frames that were rendered last, by version; shared by all connections of a broker."""

    def __init__(self) -> None:
        self._versions = {version: VersionRendering(version) for version in Version}

    def at(self, version: Version) -> VersionRendering:
        """The frames of one version."""
        return self._versions[version]


class VersionRendering:
    """The frames of one version that were rendered last."""

    def __init__(self, version: Version) -> None:
        self._version = version
        # Messages are wanted by many at about the same time, and then never again. So the older half goes at once,
        # which costs nothing for each message; to move what is used to an end would.
        self._recent: dict[bytes, Rendered] = {}
        self._older: dict[bytes, Rendered] = {}
        self._recent_bytes = 0
        self._large: tuple[bytes, Rendered] | None = None
        """The last one that is too large for these: subscriptions that get it at the same time share it."""

    def render(self, body: bytes, pubend: str, tick: int, *, is_guaranteed: bool) -> Rendered:
        """The frame of an encoded message from this place."""
        found = self._recent.get(body) or self._older.get(body)
        if found is None and self._large is not None and self._large[0] == body:
            found = self._large[1]
        # With the place: who makes frames by hand may send the same message to several pubends.
        if found is None or found.tick != tick or found.pubend != pubend:
            found = _rendered(body, pubend, tick, self._version, is_guaranteed=is_guaranteed)
            self._keep(body, found)
        return found

    def _keep(self, body: bytes, rendered: Rendered) -> None:
        size = len(rendered.rest) + len(body)
        if size > _CACHED_BYTES_MAX:
            self._large = body, rendered
            return
        self._recent[body] = rendered
        self._recent_bytes += size
        if self._recent_bytes > _CACHE_BYTES // 2:
            self._older, self._recent, self._recent_bytes = self._recent, {}, 0


def _rendered(body: bytes, pubend: str, tick: int, version: Version, *, is_guaranteed: bool) -> Rendered:
    attributes = decode_attributes(body)
    end = MESSAGE_ID_BYTES + 4 + int.from_bytes(body[MESSAGE_ID_BYTES : MESSAGE_ID_BYTES + 4])
    start = end + 1 + body[end]
    message_id, timestamp = _identity(body)
    has_destination = type(attributes.get(DESTINATION)) is str
    payload = body[start:]
    # In these is nothing to escape.
    own = f"message-id:{message_id}\ncontent-length:{len(payload)}\ntimestamp:{timestamp}\n{PUBEND}:{pubend}\n"
    if is_guaranteed:
        own += f"persistent:true\n{TICK}:{tick}\n"
    if EXPIRES in attributes:
        own += f"expires:{expires_at_ms(body, attributes)}\n"
    is_all_shown = has_destination and _shown.issuperset(attributes)
    headers = {
        name: value if type(value) is str else as_text(value) or ""
        for name, value in (attributes if is_all_shown else _shown_of(attributes)).items()
        if value is not None
    }
    if start > end + 1:
        headers["content-type"] = body[end + 1 : start].decode(errors="replace")
    rest = b"%b%b\n%b\0" % (own.encode(), _lines(headers, version), payload)
    return Rendered(rest, has_destination, message_id, pubend, tick)


def _identity(body: bytes) -> tuple[str, str]:
    """The text of the identifier of a message, and its time."""
    counter = int.from_bytes(body[_COUNTER])
    if counter >= _COUNTED:
        identifier = decode_id(body)
        return str(identifier), str(identifier.timestamp_ms)
    # Messages that are sent together differ by their counters alone.
    head, timestamp = _head(body[: _COUNTER.start])
    return head + _tail(counter), timestamp


@lru_cache(_HEADS_MAX)
def _head(start: bytes) -> tuple[str, str]:
    number = int.from_bytes(start) << 16
    return id_text(number)[:-_TAIL_CHARS], str(number >> 16 & _TIMESTAMP)


@lru_cache(_TAILS_MAX)
def _tail(counter: int) -> str:
    return id_text(counter)[-_TAIL_CHARS:]


def _shown_of(attributes: Attributes) -> Attributes:
    """By the names of their headers, without what belongs to the system, or would be taken for the broker's own."""
    destination = attributes.get(DESTINATION)
    # First, so that no other name is taken for it. What is no text does not say where a message was sent.
    shown: dict[str, AttributeValue] = {DESTINATION: destination} if type(destination) is str else {}
    shown |= {
        header_name(name): value
        for name, value in attributes.items()
        if not name.startswith(RESERVED_PREFIX) and not _is_own(name)
    }
    if len(_shown) + len(shown) <= _SHOWN_MAX:
        _shown.update(filter(_is_plain, shown))
    return shown


def _is_plain(name: str) -> bool:
    """Whether all versions have this name for a header."""
    return not _CHANGING.search(name)


def _lines(headers: Mapping[str, str], version: Version) -> bytes:
    """The lines of the headers, without what headers of this version cannot have."""
    if version is not Version.V1_0:
        try:
            return encode_headers(headers, version)
        except ValueError:
            # Hardly ever, so that nothing is looked for before.
            pass
    clean: dict[str, str] = {}
    for name, value in headers.items():
        shown = _name(name, version)
        if shown and (shown == name or not _is_own(shown)):
            clean.setdefault(shown, _clean(value, version))
    return encode_headers(clean, version)


def _is_own(name: str) -> bool:
    return name in _OWN or name.startswith(OWN_PREFIX)


def _name(name: str, version: Version) -> str:
    """The name of the header for an attribute; empty if this version cannot have one."""
    clean = _clean(name, version)
    return clean.replace(":", "_").strip() if version is Version.V1_0 else clean


def _clean(text: str, version: Version) -> str:
    """The text without what a header of this version cannot have."""
    if "\0" in text:
        text = text.replace("\0", _NO_NUL)
    if version is Version.V1_0:
        text = text.replace("\r", " ").replace("\n", " ")
    return text
