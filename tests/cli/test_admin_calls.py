"""Brokers are asked at their admin port, and whatever answers there is not trusted."""

from __future__ import annotations

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from penstock.cli.admin_calls import AdminError, call_admin
from penstock.live.overlay import BrokerPlace, Overlay, Security

KEY = "key"


class _Broker(BaseHTTPRequestHandler):
    """Answers what its server was told to."""

    def do_POST(self) -> None:
        self.server.asked = self.path, self.headers["Authorization"]  # type: ignore[attr-defined]
        code, content = self.server.answer  # type: ignore[attr-defined]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's signature
        pass


def ask(port: int, *, token: str = "", **place: Any) -> dict[str, Any]:
    broker = BrokerPlace("b1", 1, 1, admin_port=port, **place)
    overlay = Overlay("test", {"b1": broker}, security=replace(Security(), admin_token=token))
    return call_admin(overlay, broker, "POST", "/ship", seconds_max=5, without="call somebody")


def answered(code: int, content: bytes, **options: Any) -> tuple[dict[str, Any], tuple[str, str | None]]:
    with HTTPServer(("127.0.0.1", 0), _Broker) as server:
        server.answer = code, content  # type: ignore[attr-defined]
        server.timeout = 30
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            return ask(server.server_port, **options), server.asked  # type: ignore[attr-defined]
        finally:
            thread.join()


def test_an_answer_is_a_result_and_more() -> None:
    told, asked = answered(503, b'{"result": "failed", "reason": "full"}', token=KEY)
    assert (told, asked) == ({"result": "failed", "reason": "full"}, ("/ship", f"Bearer {KEY}"))


def test_without_a_token_none_is_shown_and_a_wildcard_is_dialled_at_the_host() -> None:
    _, asked = answered(200, b'{"result": "x"}', admin_host="0.0.0.0")  # noqa: S104 - nothing is bound here
    assert asked == ("/ship", None)


@pytest.mark.parametrize("content", [b"[1, 2]", b"{}", b"\xff", b"not JSON"])
def test_what_is_no_answer_is_told(content: bytes) -> None:
    with pytest.raises(AdminError, match=r"what answers there \(with 200\) is no broker") as caught:
        answered(200, content)
    assert caught.value.result == "unreachable"


def test_a_wrong_token_is_refused() -> None:
    with pytest.raises(AdminError, match="admin_token") as caught:
        answered(401, b'{"error": "no"}')
    assert caught.value.result == "refused"


def test_who_has_no_admin_port_or_does_not_run_is_unreachable() -> None:
    with pytest.raises(AdminError, match="has no admin_port; call somebody"):
        ask(0)
    with HTTPServer(("127.0.0.1", 0), _Broker) as server:
        port = server.server_port
    with pytest.raises(AdminError, match=f"127.0.0.1:{port}") as caught:
        ask(port)
    assert caught.value.result == "unreachable"
