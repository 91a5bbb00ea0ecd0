"""Operator commands in the admin API of a node: drain its clients, stop it, pin clients to it, move pubends to it.

``/drain`` shows the progress of a drain; POST with ``to=NAME=CLIENTS`` starts one, with a ``to`` for each broker of the
overlay that can take clients and the number of clients it has; POST without ``to`` lets clients in again. The addresses
of brokers come from the overlay. POST to ``/finish`` stops the node in order. POST to ``/pin`` and ``/unpin`` with
``client=NAME`` keeps a client where it is, or lets it be moved again; pins last until the node stops. ``/pubend`` shows
the pubends that this broker has, and those that it is a candidate for; POST with ``pubend=NAME`` and ``to=CANDIDATE``
asks for one of the latter to move.
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
from penstock.model.errors import MisuseError, PenstockError
from penstock.protocol.status import CandidacyStatus

__all__ = ["READ_PATHS", "Candidates", "Operated", "operation_pages"]

READ_PATHS: Final = ("/drain", "/pubend")
"""Pages that also answer GET, and only tell then."""

_NAME_CHARS_MAX: Final = 200
_TARGETS_MAX: Final = 1_000
_DIGITS_MAX: Final = 9


class Candidates(Protocol):
    """The homes of pubends that a node may run."""

    async def ship(self) -> dict[str, dict[str, Any]]:
        """Have the homes that run here ship to the lake; figures by home."""

    async def move(self, pubend: str, to: str) -> None:
        """Ask for a pubend to move to a candidate; raises ``PenstockError`` if it cannot."""


class Operated(Protocol):
    """The node that operators command."""

    overlay: Overlay

    @property
    def homes(self) -> Candidates:
        """The homes of pubends that it may run."""

    def operate(self, operation: Operation) -> None:
        """Carry out an operator's command; raises ``MisuseError`` if that is not possible."""

    def finish(self) -> None:
        """Stop the node in order."""

    def status(self) -> NodeStatus:
        """The node's current status."""


def operation_pages(subject: Operated) -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """The pages by path; all but ``READ_PATHS`` take POST only."""

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
            return JSONResponse(
                {"result": "refused", "reason": f"{name!r} is not a valid client name"}, status_code=400
            )
        return answered(Pin(name) if request.url.path == "/pin" else Unpin(name))

    pages = {"/drain": drain, "/finish": finish, "/pin": pin, "/unpin": pin}
    return {**pages, "/pubend": _pubend_page(subject)}


def _pubend_page(subject: Operated) -> Callable[[Request], Awaitable[Response]]:
    async def pubend(request: Request) -> Response:
        if request.method != "POST":
            return JSONResponse({"result": "told", "pubends": to_builtins(_pubends_of(subject))})
        try:
            await subject.homes.move(request.query_params.get("pubend", ""), request.query_params.get("to", ""))
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        except PenstockError as error:
            # The database could not be asked.
            return JSONResponse({"result": "failed", "reason": str(error)}, status_code=503)
        return JSONResponse({"result": "done"})

    return pubend


def _target(overlay: Overlay, text: str) -> Target:
    # Addresses come from the overlay: clients show their tokens wherever they are sent.
    broker, _, clients = text.partition("=")
    if not broker or not (clients.isascii() and clients.isdigit()) or len(clients) > _DIGITS_MAX:
        raise ValueError(f"{text!r} is not NAME=CLIENTS")
    return Target(broker, overlay.place_of(broker).address, int(clients))


def _pubends_of(subject: Operated) -> list[CandidacyStatus]:
    """The guaranteed pubends of a broker as if it were their only candidate, and those that it is a candidate for."""
    node = subject.status()
    own = [
        CandidacyStatus(
            pubend,
            candidates=[node.name],
            holder=node.name,
            replicas=node.store.get("replicas", -1),
            held_back=node.broker.guaranteed.held_back,
        )
        for pubend in node.broker.guaranteed.pubends
    ]
    return [*own, *node.broker.candidacies]


def _drain_of(subject: Operated) -> dict[str, Any]:
    broker = subject.status().broker
    return {"clients": broker.clients, **to_builtins(broker.migration.drain)}
