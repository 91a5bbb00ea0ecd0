"""Asks brokers at their admin ports: finds them and their tokens by the overlay file, and trusts no answer.

``call_admin`` raises what goes wrong, for commands that cannot go on without an answer; ``ask`` and ``ask_all`` make an
answer of that, too, for those that show a row for each broker.
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
from penstock.model.errors import PenstockError

__all__ = ["AdminError", "Answer", "ask", "ask_all", "call_admin"]

_ASK_S_MAX: Final = 10.0
_AT_ONCE_MAX: Final = 16
"""Brokers that are asked at a time."""
_ANSWER_BYTES_MAX: Final = 1024 * 1024
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing is bound here


class AdminError(PenstockError):
    """A broker that cannot be asked: ``unreachable``, or ``refused`` without the right token; says why."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


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
    overlay: Overlay,
    places: Iterable[BrokerPlace],
    method: str,
    path: str,
    query: Mapping[str, str],
    *,
    without: str = "",
) -> list[Answer]:
    """The same request to all of them, several at a time."""
    target = f"{path}?{urlencode(query)}" if query else path
    with ThreadPoolExecutor(_AT_ONCE_MAX) as pool:
        return list(pool.map(lambda place: ask(overlay, place, method, target, without=without), places))


def ask(
    overlay: Overlay, place: BrokerPlace, method: str, target: str, *, seconds_max: float = _ASK_S_MAX, without: str
) -> Answer:
    """The answer of a broker, or why there is none; for the rest see ``call_admin``."""
    try:
        told = call_admin(overlay, place, method, target, seconds_max=seconds_max, without=without)
    except AdminError as error:
        return Answer(place.name, error.result, str(error))
    return Answer(place.name, told["result"], str(told.get("reason", "")), told)


def call_admin(
    overlay: Overlay, place: BrokerPlace, method: str, target: str, *, seconds_max: float = _ASK_S_MAX, without: str
) -> dict[str, Any]:
    """All that a broker answers, which has at least a ``result``; raises ``AdminError``.

    ``target`` is a path with its query; ``without`` is what to do about a broker that has no admin port.
    """
    if not place.admin_port:
        raise AdminError("unreachable", "; ".join(filter(None, ("has no admin_port", without))))
    # Who binds to all addresses is found at the one that others dial.
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
    """The token, or why there is none: whether that is the trouble, the broker says, if it runs at all."""
    try:
        return find_token(overlay, place), ""
    except ConfigError as error:
        return "", str(error)


def _read(status: int, content: bytes, lack: str) -> dict[str, Any]:
    if status == 401:
        raise AdminError("refused", lack or "the broker asks for another token than the admin_token of this file")
    try:
        told = msgspec.json.decode(content, type=dict[str, Any])
        return {**told, "result": str(told["result"])}
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        reason = f"what answers there (with {status}) is no broker that can do this"
        raise AdminError("unreachable", reason) from None
