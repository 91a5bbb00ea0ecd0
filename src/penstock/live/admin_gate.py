"""Decides which requests the admin API accepts: those with the token, and none from another site's page in a browser.

No source address is trusted: every page in the operator's browser, and every user of the machine, comes from
loopback. A request must use a known name of the broker (``Host``), so that an attacker's domain that resolves to this
machine is refused; one that changes something must not come from another site's page (``Origin``).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from hmac import compare_digest
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.live.overlay import is_loopback

__all__ = ["AdminGate", "Page"]

Page: TypeAlias = Callable[[Request], Awaitable[Response]]

_OFF: Final = "this broker has no admin token: set [security] admin_token, or give it a data folder"
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_ANYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - nothing is bound here


class AdminGate:
    """Lets requests through, or says why not."""

    def __init__(self, token: str, hosts: Iterable[str] = ()) -> None:
        """Without a token nobody gets through; ``hosts`` are the names and addresses by which the broker is known."""
        self._token = token
        self._hosts = {host.lower() for host in hosts if host not in _ANYWHERE}

    def guarded(self, page: Page) -> Page:
        """Wrap a page so that it requires the token."""

        async def guarded(request: Request) -> Response:
            return self._misled(request) or self._unproven(request) or await page(request)

        return guarded

    def open(self, page: Page, named: Page) -> Page:
        """Serve the first page to everybody, and the second, which names clients, to those who show the token."""

        async def opened(request: Request) -> Response:
            if "authorization" in request.headers:
                return await self.guarded(named)(request)
            return self._misled(request) or await page(request)

        return opened

    def _misled(self, request: Request) -> Response | None:
        """The refusal of a request meant for another host, or made by another site's page."""
        host = ", ".join(request.headers.getlist("host"))
        name = _name_of(host)
        server = request.scope.get("server") or ("", 0)
        if not (is_loopback(name) or name in self._hosts or name == server[0]):
            return _refused(421, f"{host!r} is not this broker's host or admin_host in the overlay")
        if request.method != "GET":
            own = f"{request.url.scheme}://{host}"
            for origin in request.headers.getlist("origin"):
                if origin != own:
                    return _refused(403, f"requests from pages of {origin!r} may not change anything")
        return None

    def _unproven(self, request: Request) -> Response | None:
        if not self._token:
            return _refused(403, _OFF)
        shown = request.headers.get("authorization", "")
        if not compare_digest(shown.encode(), f"Bearer {self._token}".encode()):
            return _refused(401, "a bearer token is needed")
        return None


def _name_of(host: str) -> str:
    """The name in a ``Host`` header, without the port; empty if the header is malformed."""
    if not _HOST.fullmatch(host):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _refused(code: int, reason: str) -> Response:
    return JSONResponse({"result": "refused", "reason": reason}, status_code=code)
