"""Asks brokers at their admin ports, several at a time, and makes an answer of whatever comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from penstock.live.overlay import BrokerPlace, Overlay

__all__ = ["Answer", "ask_all"]

_ASK_S_MAX: Final = 10.0
_AT_ONCE_MAX: Final = 16
"""Brokers that are asked at a time."""
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing is bound here


@dataclass(slots=True, frozen=True)
class Answer:
    """What one broker made of a request."""

    name: str
    result: str
    """As the broker says; ``refused`` or ``unreachable`` otherwise."""
    reason: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    """All that it said."""


def ask_all(
    overlay: Overlay, places: Iterable[BrokerPlace], method: str, path: str, query: Mapping[str, str]
) -> list[Answer]:
    """The same request to all of them."""
    target = f"{path}?{urlencode(query)}" if query else path
    with ThreadPoolExecutor(_AT_ONCE_MAX) as pool:
        return list(pool.map(lambda place: _ask(overlay, place, method, target), places))


def _ask(overlay: Overlay, place: BrokerPlace, method: str, target: str) -> Answer:
    if not place.admin_port:
        return Answer(place.name, "unreachable", "has no admin_port")
    # Who binds to all addresses is found at the one that others dial.
    host = place.host if place.admin_host in _ANYWHERE else place.admin_host
    connection = HTTPConnection(host, place.admin_port, timeout=_ASK_S_MAX)
    token = overlay.security.admin_token
    try:
        connection.request(method, target, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return _read(place.name, answer.status, answer.read(_ANSWER_BYTES_MAX))
    except (OSError, HTTPException) as error:
        return Answer(place.name, "unreachable", f"{host}:{place.admin_port}: {error or type(error).__name__}")
    finally:
        connection.close()


def _read(name: str, status: int, content: bytes) -> Answer:
    if status == 401:
        return Answer(name, "refused", "the admin_token of the file is not the one that the broker asks for")
    try:
        told = msgspec.json.decode(content, type=dict[str, Any])
        return Answer(name, str(told["result"]), str(told.get("reason", "")), told)
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        return Answer(name, "unreachable", f"what answers there (with {status}) is no broker that can do this")
