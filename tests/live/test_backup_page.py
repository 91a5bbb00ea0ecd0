"""The page through which a running broker is told to back up its store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from starlette.requests import Request

from penstock.live.backup import Backup
from penstock.live.backup_page import backup_page
from penstock.live.errors import ConfigError


class Node:
    def __init__(self) -> None:
        self.begun: list[Backup] = []

    def back_up(self, folder: Path) -> Backup:
        if not folder.is_absolute():
            raise ConfigError("not there")
        self.begun.append(Backup(folder))
        return self.begun[-1]


class Pages:
    def __init__(self) -> None:
        self.node = Node()
        self._page = backup_page(self.node)

    def ask(self, method: str, query: str = "") -> tuple[int, dict[str, Any]]:
        scope = {"type": "http", "method": method, "path": "/backup", "query_string": query.encode(), "headers": []}

        async def answered() -> tuple[int, dict[str, Any]]:
            answer = await self._page(Request(scope))
            return answer.status_code, json.loads(bytes(answer.body))

        return asyncio.run(answered())


def test_a_backup_begins_and_tells_how_far_it_is() -> None:
    pages = Pages()
    assert pages.ask("GET") == (409, {"result": "refused", "reason": "there is no backup"})
    code, told = pages.ask("POST", "to=/b.unfinished")
    assert (code, told["result"], told["folder"]) == (200, "copying", "/b.unfinished")
    pages.node.begun[0].note(1, 3)
    pages.node.begun[0].asked_s = 0.0
    assert pages.ask("GET")[1]["pages_done"] == 2
    # Whoever asks keeps it going.
    assert pages.node.begun[0].asked_s > 0.0
    pages.node.begun[0].finish()
    assert pages.ask("GET")[1]["result"] == "done"


def test_there_is_one_at_a_time() -> None:
    pages = Pages()
    pages.ask("POST", "to=/a.unfinished")
    assert pages.ask("POST", "to=/b.unfinished") == (
        409,
        {"result": "refused", "reason": "a backup into /a.unfinished is under way"},
    )
    pages.node.begun[0].fail("why")
    assert pages.ask("POST", "to=/b.unfinished")[0] == 200
    assert [str(each.folder) for each in pages.node.begun] == ["/a.unfinished", "/b.unfinished"]


def test_it_can_be_ended_and_what_cannot_be_is_refused() -> None:
    pages = Pages()
    assert pages.ask("POST", "to=b") == (409, {"result": "refused", "reason": "not there"})
    assert pages.ask("DELETE")[0] == 409
    pages.ask("POST", "to=/a.unfinished")
    assert pages.ask("DELETE")[0] == 200
    assert pages.node.begun[0].is_cancelled
