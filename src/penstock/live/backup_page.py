"""The page of the admin API through which a command has a running broker back up its store.

POST to ``/backup`` with ``to=FOLDER`` begins, GET tells how far it is, DELETE ends it. At most one is under way.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.live.backup import Backup
from penstock.live.errors import ConfigError

__all__ = ["BackedUpNode", "backup_page"]


class BackedUpNode(Protocol):
    """The node whose store is backed up."""

    def back_up(self, folder: Path) -> Backup:
        """Begin to copy the store into a folder; raises ``ConfigError`` if that cannot be."""


def backup_page(subject: BackedUpNode) -> Callable[[Request], Awaitable[Response]]:
    """The page, which remembers the backup that was begun last."""
    last: Backup | None = None

    async def page(request: Request) -> Response:
        nonlocal last
        if request.method == "POST":
            if last is not None and not last.is_over:
                return _refused(f"a backup into {last.folder} is under way")
            try:
                last = subject.back_up(Path(request.query_params.get("to", "")))
            except ConfigError as error:
                return _refused(str(error))
        if last is None:
            return _refused("there is no backup")
        last.asked_s = time.monotonic()
        if request.method == "DELETE":
            last.is_cancelled = True
        return JSONResponse({"result": last.state, **last.as_dict()})

    return page


def _refused(reason: str) -> Response:
    return JSONResponse({"result": "refused", "reason": reason}, status_code=409)
