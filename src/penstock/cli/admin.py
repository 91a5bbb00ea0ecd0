"""Sends requests to brokers' admin ports: takes addresses and tokens from the overlay file, and trusts no answer.

``call_admin`` raises ``AdminError``, for commands that cannot continue without an answer; ``ask`` and ``ask_all`` turn
the error into an ``Answer``, for commands that show a row per broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from penstock.live.admin_token import find_token
from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import PenstockError

__all__ = ["AdminError", "Answer", "ask", "ask_all", "call_admin"]

_ASK_S_MAX: Final = 10.0
_AT_ONCE_MAX: Final = 16
"""Brokers asked at a time."""
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_answer: Final = msgspec.json.Decoder(dict[str, Any])
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing is bound here


class AdminError(PenstockError):
    """A request failed: ``result`` is ``unreachable``, or ``refused`` without the right token; the message says why."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


@dataclass(slots=True, frozen=True)
class Answer:
    """One broker's answer to a request."""

    name: str
    result: str
    """The broker's own word; ``refused`` or ``unreachable`` if the request failed."""
    reason: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    """The whole decoded answer."""


def ask_all(
    overlay: Overlay,
    places: Iterable[BrokerPlace],
    method: str,
    path: str,
    query: Mapping[str, str],
    *,
    without: str = "",
) -> list[Answer]:
    """Send the same request to all these brokers, several at a time."""
    target = f"{path}?{urlencode(query)}" if query else path
    with ThreadPoolExecutor(_AT_ONCE_MAX) as pool:
        return list(pool.map(lambda place: ask(overlay, place, method, target, without=without), places))


def ask(
    overlay: Overlay, place: BrokerPlace, method: str, target: str, *, seconds_max: float = _ASK_S_MAX, without: str
) -> Answer:
    """Return a broker's answer, or why it failed; for the arguments see ``call_admin``."""
    try:
        told = call_admin(overlay, place, method, target, seconds_max=seconds_max, without=without)
    except AdminError as error:
        return Answer(place.name, error.result, str(error))
    return Answer(place.name, told["result"], str(told.get("reason", "")), told)


def call_admin(
    overlay: Overlay, place: BrokerPlace, method: str, target: str, *, seconds_max: float = _ASK_S_MAX, without: str
) -> dict[str, Any]:
    """Return a broker's whole answer, which has at least a ``result``; raises ``AdminError``.

    ``target`` is a path with its query; ``without`` tells users what to do about a broker without an admin port.
    """
    if not place.admin_port:
        raise AdminError("unreachable", "; ".join(filter(None, ("has no admin_port", without))))
    # A broker that binds to all addresses is reachable at the one that others dial.
    host = place.host if place.admin_host in _ANYWHERE else place.admin_host
    connection = HTTPConnection(host, place.admin_port, timeout=seconds_max)
    token, lack = _token(overlay, place)
    try:
        connection.request(method, target, headers={"Authorization": f"Bearer {token}"} if token else {})
        with connection.getresponse() as answer:
            return _read(answer.status, answer.read(_ANSWER_BYTES_MAX), lack)
    except (OSError, HTTPException) as error:
        where = f"{host}:{place.admin_port}"
        raise AdminError("unreachable", f"{where}: {error or type(error).__name__}") from None
    finally:
        connection.close()


def _token(overlay: Overlay, place: BrokerPlace) -> tuple[str, str]:
    """The token, or why it is missing; only the broker's answer tells whether that matters."""
    try:
        return find_token(overlay, place), ""
    except ConfigError as error:
        return "", str(error)


def _read(status: int, content: bytes, lack: str) -> dict[str, Any]:
    if status == 401:
        raise AdminError("refused", lack or "the broker rejected the admin_token in this file")
    try:
        told = decoded(_answer.decode, content)
        return {**told, "result": str(told["result"])}
    except (UnreadableError, KeyError):
        reason = f"not a broker that supports this request (HTTP {status})"
        raise AdminError("unreachable", reason) from None
