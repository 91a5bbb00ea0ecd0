"""Brokers are asked at their admin ports, and whatever answers there is not trusted, but told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.admin import AdminError, Answer, ask, ask_all, call_admin
from penstock.lab.demo_overlay import free_ports
from penstock.live.admin_token import make_token
from penstock.live.overlay import BrokerPlace, Overlay, Security

KEY = "key"
APPLIED = b'{"result": "applied", "more": 3}'


class _Broker(BaseHTTPRequestHandler):
    """Answers what its server was told to, and keeps what it was asked."""

    def do_POST(self) -> None:
        self.server.asked = self.path, self.headers["Authorization"]  # type: ignore[attr-defined]
        code, content = self.server.answer  # type: ignore[attr-defined]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(code: int, content: bytes) -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), _Broker) as server:
        server.answer = code, content  # type: ignore[attr-defined]
        server.timeout = 30
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield server
        thread.join()


def asked_of(server: HTTPServer) -> tuple[str, str | None]:
    asked: tuple[str, str | None] = server.asked  # type: ignore[attr-defined]
    return asked


def overlay(port: int, *, token: str = KEY, **place: Any) -> tuple[Overlay, BrokerPlace]:
    broker = BrokerPlace("b1", 1, 7001, admin_port=port, **place)
    return Overlay("test", {"b1": broker}, security=Security(admin_token=token)), broker


def call(port: int, **options: Any) -> dict[str, Any]:
    return call_admin(*overlay(port, **options), "POST", "/ship", without="call somebody")


def test_all_are_asked_the_same_with_the_token() -> None:
    with answering(200, APPLIED) as server:
        whole, place = overlay(server.server_port)
        told = ask_all(whole, [place], "POST", "/tune", {"a": "1 2"})
    assert told == [Answer("b1", "applied", "", {"result": "applied", "more": 3})]
    assert asked_of(server) == ("/tune?a=1+2", f"Bearer {KEY}")


def test_a_token_that_the_broker_has_made_is_found_beside_its_store(tmp_path: Path) -> None:
    with answering(200, APPLIED) as server:
        whole, place = overlay(server.server_port, token="", data=tmp_path)
        token = make_token(whole, place)
        call_admin(whole, place, "POST", "/ship", without="")
    assert asked_of(server) == ("/ship", f"Bearer {token}")


def test_who_finds_no_token_is_told_what_to_do_if_one_is_asked_for(tmp_path: Path) -> None:
    with (
        answering(401, b"") as server,
        pytest.raises(AdminError, match=r"there is no token in .* run this as the user"),
    ):
        call(server.server_port, token="", data=tmp_path)


def test_without_a_token_none_is_shown_and_a_wildcard_is_dialled_at_the_host() -> None:
    with answering(503, b'{"result": "failed", "reason": "full"}') as server:
        told = call(server.server_port, token="", admin_host="0.0.0.0")  # noqa: S104 - nothing is bound here
    assert (told, asked_of(server)) == ({"result": "failed", "reason": "full"}, ("/ship", None))


@pytest.mark.parametrize(
    ("code", "content", "result", "reason"),
    [
        (401, b'{"error": "no"}', "refused", "rejected the admin_token in this file"),
        (409, b'{"result": "refused", "reason": "not so"}', "refused", "not so"),
        (404, b"Not Found", "unreachable", "not a broker that supports this request (HTTP 404)"),
        (200, b"[1, 2]", "unreachable", "not a broker that supports this request (HTTP 200)"),
        (200, b"{}", "unreachable", "not a broker"),
        (200, b"\xff", "unreachable", "not a broker"),
    ],
)
def test_what_is_no_good_answer_is_told(code: int, content: bytes, result: str, reason: str) -> None:
    with answering(code, content) as server:
        answer = ask(*overlay(server.server_port), "POST", "/ship", without="")
    assert (answer.result, reason in answer.reason) == (result, True)


@pytest.mark.parametrize(("code", "content", "result"), [(401, b"", "refused"), (200, b"not JSON", "unreachable")])
def test_who_cannot_go_on_without_an_answer_gets_an_error(code: int, content: bytes, result: str) -> None:
    with answering(code, content) as server, pytest.raises(AdminError) as caught:
        call(server.server_port)
    assert caught.value.result == result


def test_who_has_no_admin_port_or_does_not_run_is_unreachable() -> None:
    with pytest.raises(AdminError, match="has no admin_port; call somebody"):
        call(0)
    whole, place = overlay(0)
    (answer,) = ask_all(whole, [place], "POST", "/tune", {})
    assert (answer.result, answer.reason) == ("unreachable", "has no admin_port")
    (port,) = free_ports(1)
    with pytest.raises(AdminError, match=f"127.0.0.1:{port}") as caught:
        call(port)
    assert caught.value.result == "unreachable"
