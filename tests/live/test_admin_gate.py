"""Who gets through to the admin API, and who does not, wherever it comes from."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from penstock.live.admin_gate import AdminGate, Page

KEY = "key"
BEARER = {"authorization": f"Bearer {KEY}"}
LOCAL = {"host": "127.0.0.1:9001"}


async def page(_request: Request) -> Response:
    return PlainTextResponse("page")


async def named(_request: Request) -> Response:
    return PlainTextResponse("with names")


def request(method: str, headers: dict[str, str], server: str = "127.0.0.1") -> Request:
    scope = {"type": "http", "method": method, "path": "/", "query_string": b"", "scheme": "http"}
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({**scope, "headers": encoded, "server": (server, 9001)})


def answered(guarded: Page, asking: Request) -> Response:
    async def answer() -> Response:
        return await guarded(asking)

    return asyncio.run(answer())


def asked(gate: AdminGate, headers: dict[str, str], method: str = "GET", server: str = "127.0.0.1") -> int:
    return answered(gate.guarded(page), request(method, headers, server)).status_code


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer ", "Bearer other", "Basic key", "key", "Bearer key ", "Bearer k\u00e9y"]
)
def test_without_the_token_nobody_gets_through(shown: str, method: str) -> None:
    assert asked(AdminGate(KEY), LOCAL | {"authorization": shown}, method) == 401
    assert asked(AdminGate(KEY), LOCAL, method) == 401
    assert asked(AdminGate(KEY), LOCAL | BEARER, method) == 200


def test_where_there_is_no_token_nobody_gets_through_and_is_told_why() -> None:
    answer = answered(AdminGate("").guarded(page), request("POST", LOCAL | {"authorization": "Bearer "}))
    assert answer.status_code == 403
    assert "set [security] admin_token" in json.loads(bytes(answer.body))["reason"]


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:9001", 200),
        ("127.0.0.1", 200),
        ("[::1]:9001", 200),
        ("localhost:9001", 200),
        ("pb1.example:9001", 200),
        ("PB1.example", 200),
        ("10.1.2.3:9001", 200),
        ("10.9.9.9:9001", 200),
        ("attacker.example:9001", 421),
        ("127.0.0.1.attacker.example", 421),
        ("localhost.attacker.example", 421),
        ("0.0.0.0:9001", 421),
        ("", 421),
        ("[", 421),
        ("[::::]", 421),
        ("[1.2]", 421),
        ("user@pb1.example", 421),
        ("attacker.example@127.0.0.1", 421),
        ("127.0.0.1/", 421),
        ("pb1.example@attacker.example", 421),
    ],
)
def test_a_request_names_the_broker_as_it_is_known(host: str, code: int) -> None:
    gate = AdminGate(KEY, ("pb1.example", "10.1.2.3", "0.0.0.0", ""))  # noqa: S104 - nothing is bound here
    assert asked(gate, {"host": host} | BEARER, server="10.9.9.9") == code
    assert asked(gate, BEARER) == 421


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("http://127.0.0.1:9001", 200),
        ("http://127.0.0.1:9002", 403),
        ("https://127.0.0.1:9001", 403),
        ("http://attacker.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_page_of_somebody_else_changes_nothing(origin: str, code: int) -> None:
    assert asked(AdminGate(KEY), LOCAL | BEARER | {"origin": origin}, "POST") == code


@pytest.mark.parametrize("header", ["host", "origin"])
def test_a_header_that_is_there_twice_does_not_hide_behind_the_first(header: str) -> None:
    once = {**LOCAL, **BEARER, "origin": "http://127.0.0.1:9001"}
    asking = request("POST", once)
    asking.scope["headers"].append((header.encode(), b"http://attacker.example"))
    assert answered(AdminGate(KEY).guarded(page), asking).status_code in {403, 421}


def test_an_open_page_has_names_for_who_shows_the_token() -> None:
    opened = AdminGate(KEY).open(page, named)

    def answer(headers: dict[str, str]) -> tuple[int, bytes]:
        found = answered(opened, request("GET", headers))
        return found.status_code, bytes(found.body)

    assert answer(LOCAL) == (200, b"page")
    assert answer(LOCAL | BEARER) == (200, b"with names")
    assert answer(LOCAL | {"authorization": "Bearer other"})[0] == 401
    assert answer({"host": "attacker.example"})[0] == 421
