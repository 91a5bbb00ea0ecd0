"""Metrics, health and status of a node over HTTP, on the same event loop, and a way to make it reread its file.

``/metrics`` for Prometheus, ``/health`` (200, or 503 on the way out) and ``/status`` as JSON. ``/overlay`` says what
has changed in the overlay file since the node read it; with POST the node puts that into force. A request brings no
overlay, only the digest of the file that is meant. ``/tune?name=value`` says what that would change in the parameters
of congestion control, and lists them; with POST the node changes them. ``/limit`` shows the limit on all that is
published, and who is slowed down; with POST it is changed. POST to ``/ship`` makes it ship to its lake at once; what
operators can do besides is in ``operations``. A bearer token protects all pages, if there is one; without it the node
binds them to loopback only.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hmac import compare_digest
from types import TracebackType
from typing import Any, Final, Protocol, Self

import uvicorn
from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.live.errors import ConfigError
from penstock.live.limiting import set_limit
from penstock.live.membership import OverlayChange
from penstock.live.metrics import registry_of, rendered
from penstock.live.operations import Operated, operation_pages
from penstock.live.shipping.errors import ShipError
from penstock.live.tuning import Tunable, tune

__all__ = ["AdminServer", "Subject", "application"]

_STOP_S_MAX: Final = 2
"""Time that requests under way get at the end."""
_CONCURRENT_MAX: Final = 64
"""Requests at a time; more are answered with 503."""


class Subject(Tunable, Operated, Protocol):
    """What is shown: a node."""

    @property
    def is_serving(self) -> bool:
        """Whether it does its work."""

    def status(self) -> dict[str, Any]:
        """How it is."""

    def reread(self, *, digest: str = "", is_trial: bool = False) -> OverlayChange:
        """Put its overlay file into force, or say what would change."""

    async def ship(self) -> dict[str, Any]:
        """Ship to its lake what waits."""


def application(subject: Subject, *, token: str = "") -> Starlette:
    """The routes."""
    registry = registry_of(subject)

    async def metrics(_request: Request) -> Response:
        return Response(rendered(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(_request: Request) -> Response:
        healthy = subject.is_serving
        return JSONResponse({"status": "ok" if healthy else "stopping"}, status_code=200 if healthy else 503)

    async def status(_request: Request) -> Response:
        return JSONResponse(subject.status())

    async def overlay(request: Request) -> Response:
        is_trial = request.method != "POST"
        try:
            change = subject.reread(digest=request.query_params.get("sha256", ""), is_trial=is_trial)
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        result = "unchanged" if not change else "changed" if is_trial else "applied"
        return JSONResponse({"result": result, "change": change.as_dict()})

    async def ship(_request: Request) -> Response:
        try:
            return JSONResponse({"result": "shipped", "shipped": await subject.ship()})
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        except ShipError as error:
            return JSONResponse({"result": "failed", "reason": str(error)}, status_code=503)

    async def parameters(request: Request) -> Response:
        is_trial = request.method != "POST"
        try:
            tuning = tune(subject, request.query_params, is_trial=is_trial)
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        result = "unchanged" if not tuning else "changed" if is_trial else "applied"
        return JSONResponse({"result": result, **tuning.as_dict()})

    shown = {"/metrics": metrics, "/health": health, "/status": status}
    routes = [Route(path, _guarded(page, token)) for path, page in shown.items()]
    changed = {"/overlay": overlay, "/tune": parameters, "/limit": _limit_page(subject)}
    routes += [Route(path, _guarded(page, token), methods=["GET", "POST"]) for path, page in changed.items()]
    for path, page in operation_pages(subject).items():
        methods = ["GET", "POST"] if path == "/drain" else ["POST"]
        routes.append(Route(path, _guarded(page, token), methods=methods))
    return Starlette(routes=[*routes, Route("/ship", _guarded(ship, token), methods=["POST"])])


def _limit_page(subject: Subject) -> Callable[[Request], Awaitable[Response]]:
    async def limit(request: Request) -> Response:
        if request.method == "POST":
            try:
                set_limit(subject, request.query_params.get("aup", ""))
            except ConfigError as error:
                return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        settings = subject.overlay.limit
        figures = subject.status()["broker"]["mechanisms"].get("ajil", {})
        told = {"policy": {} if settings is None else to_builtins(settings.aup), "limit": figures}
        return JSONResponse({"result": "applied" if request.method == "POST" else "unchanged", **told})

    return limit


class AdminServer:
    """Serves one node's pages; use it with ``async with``, or ``start`` and ``stop``."""

    def __init__(self, subject: Subject, *, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        self._host, self._port = host, port
        config = uvicorn.Config(
            application(subject, token=token),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=_CONCURRENT_MAX,
            timeout_graceful_shutdown=_STOP_S_MAX,
        )
        self._server = _QuietServer(config)
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; raises ``ConfigError`` if the address cannot be had."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            self._socket = socket.create_server((self._host, self._port), family=family)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"the admin API cannot listen at {self._host}:{self._port}: {reason}") from None
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="admin")

    async def stop(self) -> None:
        """Answer what was asked, and end."""
        if self._task is None or self._socket is None:
            return
        self._server.should_exit = True
        await self._task
        self._socket.close()
        self._task = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port where it really listens."""
        assert self._socket is not None, "the admin server has not started"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)


class _QuietServer(uvicorn.Server):
    """Leaves signals to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _guarded(page: Callable[[Request], Awaitable[Response]], token: str) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        shown = request.headers.get("authorization", "")
        if token and not compare_digest(shown.encode(), f"Bearer {token}".encode()):
            return JSONResponse({"error": "a bearer token is needed"}, status_code=401)
        return await page(request)

    return guarded
