"""What operators ask of a node over its admin API: to be emptied of its clients, to end, and to let some stay.

``/drain`` says how far a drain is; POST with ``to=NAME=CLIENTS`` for each broker of the overlay that can take clients
begins one, with how many it has; POST without any lets clients in again. Where a broker is, the overlay says. POST to
``/finish`` ends the node in order. POST to ``/pin`` and ``/unpin`` with ``client=NAME`` lets a client stay where it is,
or be moved again; what is pinned so lasts until the node ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain, Operation, Pin, Unpin
from penstock.live.errors import ConfigError
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Overlay
from penstock.model.errors import MisuseError

__all__ = ["Operated", "operation_pages"]

_NAME_CHARS_MAX: Final = 200
_TARGETS_MAX: Final = 1_000
_DIGITS_MAX: Final = 9


class Operated(Protocol):
    """What is operated: a node."""

    overlay: Overlay

    def operate(self, operation: Operation) -> None:
        """Do what the operator wants; raises ``MisuseError`` if that cannot be."""

    def finish(self) -> None:
        """End in order."""

    def status(self) -> NodeStatus:
        """How it is."""


def operation_pages(subject: Operated) -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """The pages by path; all but ``/drain`` take POST only."""

    def answered(operation: Operation) -> Response:
        try:
            subject.operate(operation)
        except MisuseError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        return JSONResponse({"result": "done", "drain": _drain_of(subject)})

    async def drain(request: Request) -> Response:
        if request.method != "POST":
            return JSONResponse({"result": "told", "drain": _drain_of(subject)})
        try:
            named = request.query_params.getlist("to")[:_TARGETS_MAX]
            targets = tuple(_target(subject.overlay, text) for text in named)
        except (ConfigError, ValueError) as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=400)
        return answered(Drain(targets))

    async def finish(_request: Request) -> Response:
        subject.finish()
        return JSONResponse({"result": "done"})

    async def pin(request: Request) -> Response:
        name = request.query_params.get("client", "")
        if not 0 < len(name) <= _NAME_CHARS_MAX:
            return JSONResponse({"result": "refused", "reason": f"{name!r} is no name of a client"}, status_code=400)
        return answered(Pin(name) if request.url.path == "/pin" else Unpin(name))

    return {"/drain": drain, "/finish": finish, "/pin": pin, "/unpin": pin}


def _target(overlay: Overlay, text: str) -> Target:
    # No address: clients show their tokens to whomever they are sent to.
    broker, _, clients = text.partition("=")
    if not broker or not (clients.isascii() and clients.isdigit()) or len(clients) > _DIGITS_MAX:
        raise ValueError(f"{text!r} is not NAME=CLIENTS")
    return Target(broker, overlay.place_of(broker).address, int(clients))


def _drain_of(subject: Operated) -> dict[str, Any]:
    broker = subject.status().broker
    return {"clients": broker.clients, **to_builtins(broker.migration.drain)}
