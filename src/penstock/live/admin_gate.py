"""Who may ask what of the admin API: whoever shows the token, and no page of a browser that does not belong to it.

Nobody is trusted for the address it comes from: every page in the operator's browser, and every user of the machine,
comes from loopback. A request must name the broker as it is known (``Host``), so that a name that an attacker lets
point here is refused; one that changes something must not come from a page of somebody else (``Origin``).
"""

from __future__ import annotations

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
_ANYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - nothing is bound here


class AdminGate:
    """Lets requests through, or says why not."""

    def __init__(self, token: str, hosts: Iterable[str] = ()) -> None:
        """Without a token nobody gets through; ``hosts`` are the names and addresses by which the broker is known."""
        self._token = token
        self._hosts = {host.lower() for host in hosts if host not in _ANYWHERE}

    def guarded(self, page: Page) -> Page:
        """The page for who has the token."""

        async def guarded(request: Request) -> Response:
            return self._misled(request) or self._unproven(request) or await page(request)

        return guarded

    def open(self, page: Page, named: Page) -> Page:
        """The first page for everybody, and the second, which names others, for who shows the token."""

        async def opened(request: Request) -> Response:
            if "authorization" in request.headers:
                return await self.guarded(named)(request)
            return self._misled(request) or await page(request)

        return opened

    def _misled(self, request: Request) -> Response | None:
        """The answer to who did not mean to ask this broker, or was made to."""
        host = request.headers.get("host", "")
        name = _name_of(f"//{host}")
        server = request.scope.get("server") or ("", 0)
        if not (is_loopback(name) or name in self._hosts or name == server[0]):
            return _refused(421, f"this broker is not known as {host!r}, but as its host or admin_host of the overlay")
        origin = request.headers.get("origin")
        if request.method != "GET" and origin is not None and origin != f"{request.url.scheme}://{host}":
            return _refused(403, f"a page of {origin!r} may not change anything here")
        return None

    def _unproven(self, request: Request) -> Response | None:
        if not self._token:
            return _refused(403, _OFF)
        shown = request.headers.get("authorization", "")
        if not compare_digest(shown.encode(), f"Bearer {self._token}".encode()):
            return _refused(401, "a bearer token is needed")
        return None


def _name_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _refused(code: int, reason: str) -> Response:
    return JSONResponse({"result": "refused", "reason": reason}, status_code=code)
