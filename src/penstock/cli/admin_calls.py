"""Asks the admin API of brokers: finds it by the overlay file, and shows its token."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from typing import Any, Final

import msgspec

from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.errors import PenstockError

__all__ = ["AdminError", "call_admin"]

_ANSWER_BYTES_MAX: Final = 1024 * 1024
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing is bound here


class AdminError(PenstockError):
    """A broker that cannot be asked: ``unreachable``, or ``refused`` without the right token; says why."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


def call_admin(
    overlay: Overlay, place: BrokerPlace, method: str, path: str, *, seconds_max: float, without: str
) -> dict[str, Any]:
    """The answer of a broker, which has at least a ``result``; raises ``AdminError``.

    ``without`` is what to do about a broker that has no admin port.
    """
    if not place.admin_port:
        raise AdminError("unreachable", f"has no admin_port; {without}")
    # Who binds to all addresses is found at the one that others dial.
    host = place.host if place.admin_host in _ANYWHERE else place.admin_host
    connection = HTTPConnection(host, place.admin_port, timeout=seconds_max)
    token = overlay.security.admin_token
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        with connection.getresponse() as answer:
            return _read(answer.status, answer.read(_ANSWER_BYTES_MAX))
    except (OSError, HTTPException) as error:
        where = f"{host}:{place.admin_port}"
        raise AdminError("unreachable", f"{where}: {error or type(error).__name__}") from None
    finally:
        connection.close()


def _read(status: int, content: bytes) -> dict[str, Any]:
    if status == 401:
        raise AdminError("refused", "the admin_token of the file is not the one that the broker asks for")
    try:
        told = msgspec.json.decode(content, type=dict[str, Any])
        return {**told, "result": str(told["result"])}
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        reason = f"what answers there (with {status}) is no broker that can do this"
        raise AdminError("unreachable", reason) from None
