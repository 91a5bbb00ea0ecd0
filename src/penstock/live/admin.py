"""Serves a node's metrics, health and status over HTTP on its own event loop, and lets operators change settings.

``/metrics`` is for Prometheus, ``/health`` answers 200, or 503 during shutdown, and ``/status`` is JSON. ``/overlay``
shows what has changed in the overlay file since the node read it; POST applies the change. A request carries no
overlay, only the digest of the intended file. ``/tune?name=value`` shows what that would change in the parameters of
congestion control, and lists them; POST changes them; with ``home=NAME`` those of the home of a pubend. ``/limit``
shows the limit on all publishing, and who is being slowed down; POST changes it. POST to ``/ship`` ships to the lake at
once, and POST to ``/backup`` backs up the store (``backup_page``); other operator commands are in ``operations``. All
pages need the bearer token (``admin_token``) except ``/health`` and, on loopback, a ``/metrics`` without client names;
``admin_gate`` says what else a request must satisfy.

Idle connections cannot keep others out: a request for ``/health`` gets through, however many
connections are just held open.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

import uvicorn
from msgspec import to_builtins
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.live.admin_gate import AdminGate, Page
from penstock.live.admin_token import make_token
from penstock.live.backup_page import BackedUpNode, backup_page
from penstock.live.errors import ConfigError
from penstock.live.limiting import set_limit
from penstock.live.membership import OverlayChange
from penstock.live.metrics import registry_of, rendered
from penstock.live.node_status import NodeStatus
from penstock.live.operations import READ_PATHS, Operated, operation_pages
from penstock.live.overlay import BrokerPlace, Overlay, is_loopback
from penstock.live.shipping.errors import ShipError
from penstock.live.tuning import Tunable, tune

__all__ = ["CONNECTIONS_MAX", "REQUEST_S_MAX", "AdminServer", "Subject", "application"]

CONNECTIONS_MAX: Final = 64
"""How many connections the admin API has at most; the oldest idle one makes room for a new one."""
REQUEST_S_MAX: Final = 5.0
"""How long a new connection may take to send the head of its first request."""

_FRESH_S: Final = 1.0
"""Metrics without a token are cached for this long, so that repeated requests cost the broker nothing."""
_STOP_S_MAX: Final = 2
"""How long requests in progress may take to finish at shutdown."""
_numbers: Final = count()


class Subject(Tunable, Operated, BackedUpNode, Protocol):
    """The node whose pages are served."""

    @property
    def is_serving(self) -> bool:
        """Whether the node is serving."""

    def status(self) -> NodeStatus:
        """The node's current status."""

    def reread(self, *, digest: str = "", is_trial: bool = False) -> OverlayChange:
        """Apply the node's overlay file, or only report what would change."""

    async def ship(self) -> dict[str, Any]:
        """Ship pending records to the lake."""


def application(subject: Subject, gate: AdminGate, *, is_local: bool = True) -> Starlette:
    """The routes; where only this machine can connect, metrics without names need no token."""
    guarded = gate.guarded

    async def health(_request: Request) -> Response:
        healthy = subject.is_serving
        return JSONResponse({"status": "ok" if healthy else "stopping"}, status_code=200 if healthy else 503)

    async def status(_request: Request) -> Response:
        return JSONResponse(to_builtins(subject.status()))

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
            shipped = await subject.ship()
            return JSONResponse({"result": "shipped", "shipped": shipped, "homes": await subject.homes.ship()})
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        except ShipError as error:
            return JSONResponse({"result": "failed", "reason": str(error)}, status_code=503)

    async def parameters(request: Request) -> Response:
        is_trial = request.method != "POST"
        try:
            texts = dict(request.query_params)
            home = texts.pop("home", "")
            tuning = tune(subject, texts, home=home, is_trial=is_trial)
        except ConfigError as error:
            return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        result = "unchanged" if not tuning else "changed" if is_trial else "applied"
        return JSONResponse({"result": result, **tuning.as_dict()})

    metrics = _metrics_page(subject, names=True)
    nameless = gate.open(_metrics_page(subject, names=False), metrics)
    routes = [Route("/health", health), Route("/status", guarded(status))]
    routes.append(Route("/metrics", nameless if is_local else guarded(metrics)))
    changed = {"/overlay": overlay, "/tune": parameters, "/limit": _limit_page(subject)}
    routes += [Route(path, guarded(page), methods=["GET", "POST"]) for path, page in changed.items()]
    for path, page in operation_pages(subject).items():
        methods = ["GET", "POST"] if path in READ_PATHS else ["POST"]
        routes.append(Route(path, guarded(page), methods=methods))
    routes.append(Route("/backup", guarded(backup_page(subject)), methods=["GET", "POST", "DELETE"]))
    return Starlette(routes=[*routes, Route("/ship", guarded(ship), methods=["POST"])])


def _metrics_page(subject: Subject, *, names: bool) -> Page:
    registry = registry_of(subject, names=names)
    fresh_until_s, text = -1.0, b""

    async def metrics(_request: Request) -> Response:
        nonlocal fresh_until_s, text
        now_s = asyncio.get_running_loop().time()
        if names or now_s >= fresh_until_s:
            fresh_until_s, text = now_s + _FRESH_S, rendered(registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return metrics


def _limit_page(subject: Subject) -> Page:
    async def limit(request: Request) -> Response:
        if request.method == "POST":
            try:
                set_limit(subject, request.query_params.get("aup", ""))
            except ConfigError as error:
                return JSONResponse({"result": "refused", "reason": str(error)}, status_code=409)
        settings = subject.overlay.limit
        broker = subject.status().broker
        told = {
            "policy": {} if settings is None else to_builtins(settings.aup),
            "limit": broker.mechanisms.get("ajil", {}),
            "homes": {name: home.mechanisms.get("ajil", {}) for name, home in broker.homes.items()},
        }
        return JSONResponse({"result": "applied" if request.method == "POST" else "unchanged", **told})

    return limit


class AdminServer:
    """Serves one node's pages; use it with ``async with``, or ``start`` and ``stop``."""

    def __init__(
        self, subject: Subject, *, host: str = "127.0.0.1", port: int = 0, token: str = "", hosts: Iterable[str] = ()
    ) -> None:
        """Serve at an address, to holders of the token; ``hosts`` are more names and addresses of the broker."""
        self._host, self._port = host, port
        gate = AdminGate(token, (host, *hosts))
        config = uvicorn.Config(
            application(subject, gate, is_local=is_loopback(host)),
            http=_BoundedProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_STOP_S_MAX,
        )
        self._server = _QuietServer(config)
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, subject: Subject, overlay: Overlay, place: BrokerPlace) -> Self:
        """A server at the address in the overlay; raises ``ConfigError`` if the broker's token cannot be stored."""
        token, hosts = make_token(overlay, place), (place.host, place.bind)
        return cls(subject, host=place.admin_host, port=place.admin_port, token=token, hosts=hosts)

    async def start(self) -> None:
        """Start to listen; raises ``ConfigError`` if the address is not available."""
        try:
            family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
            self._socket = socket.create_server((self._host, self._port), family=family)
        except (OSError, UnicodeError, ValueError, TypeError) as error:
            reason = (error.strerror or error) if isinstance(error, OSError) else "not a valid address"
            raise ConfigError(f"the admin API cannot listen at {self._host}:{self._port}: {reason}") from None
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's signature
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="admin")

    async def stop(self) -> None:
        """Finish the requests in progress, and stop."""
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
        """Host and port on which it actually listens."""
        assert self._socket is not None, "the admin server has not started"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)


class _QuietServer(uvicorn.Server):
    """Leaves signal handling to the program it is part of."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _BoundedProtocol(H11Protocol):
    """One connection, which makes room for itself and must send a request in time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.number: Final = next(_numbers)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, and drop the oldest idle one if there are too many."""
        super().connection_made(transport)
        self._due = self.loop.call_later(REQUEST_S_MAX, self._on_due)
        others = [
            each
            for each in self.connections
            if isinstance(each, _BoundedProtocol) and each is not self and not each.transport.is_closing()
        ]
        if len(others) >= CONNECTIONS_MAX:
            min(others, key=lambda each: (not each.is_idle, each.number)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether the connection has no request in progress."""
        return not self._has_asked or self.cycle.response_complete

    @property
    def _has_asked(self) -> bool:
        # The declared type hides that there is no cycle at first.
        return cast("object | None", self.cycle) is not None

    def _on_due(self) -> None:
        if not self._has_asked and not self.transport.is_closing():
            self.transport.abort()
