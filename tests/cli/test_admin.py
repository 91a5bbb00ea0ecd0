"""Asking brokers at their admin ports: whatever answers, there is an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock.cli.admin import Answer, ask_all
from penstock.lab.demo_overlay import free_ports
from penstock.live.overlay import BrokerPlace, Overlay, Security

KEY = "key"


class _Broker(BaseHTTPRequestHandler):
    reply = (200, b'{"result": "applied", "more": 3}')
    asked: tuple[str, ...] = ()

    def do_POST(self) -> None:
        type(self).asked = self.command, self.path, self.headers.get("Authorization", "")
        self.send_response(self.reply[0])
        self.end_headers()
        self.wfile.write(self.reply[1])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(code: int, content: bytes) -> Iterator[int]:
    _Broker.reply = code, content
    with HTTPServer(("127.0.0.1", 0), _Broker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(place: BrokerPlace, token: str = KEY) -> Answer:
    overlay = Overlay("test", {place.name: place}, security=Security(admin_token=token))
    (answer,) = ask_all(overlay, [place], "POST", "/tune", {"a": "1 2"})
    return answer


@pytest.mark.parametrize("admin_host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - nothing is bound here
def test_a_broker_is_asked_with_the_token_wherever_it_is_bound(admin_host: str) -> None:
    with answering(200, b'{"result": "applied", "more": 3}') as port:
        answer = ask(BrokerPlace("b1", 1, 7001, admin_host=admin_host, admin_port=port))
        assert answer == Answer("b1", "applied", "", {"result": "applied", "more": 3})
        assert _Broker.asked[2] == "Bearer key"
        ask(BrokerPlace("b1", 1, 7001, admin_port=port), token="")
        assert _Broker.asked == ("POST", "/tune?a=1+2", "")


@pytest.mark.parametrize(
    ("code", "content", "result", "reason"),
    [
        (401, b"", "refused", "the admin_token of the file is not"),
        (409, b'{"result": "refused", "reason": "not so"}', "refused", "not so"),
        (404, b"Not Found", "unreachable", "what answers there (with 404) is no broker"),
        (200, b"[1]", "unreachable", "is no broker"),
        (200, b"\xff", "unreachable", "is no broker"),
    ],
)
def test_what_is_no_good_answer_is_told(code: int, content: bytes, result: str, reason: str) -> None:
    with answering(code, content) as port:
        answer = ask(BrokerPlace("b1", 1, 7001, admin_port=port))
    assert (answer.result, reason in answer.reason) == (result, True)


def test_who_cannot_be_reached_is_told_with_the_address() -> None:
    (port,) = free_ports(1)
    answer = ask(BrokerPlace("b1", 1, 7001, admin_port=port))
    assert (answer.result, f"127.0.0.1:{port}" in answer.reason) == ("unreachable", True)
    assert ask(BrokerPlace("b1", 1, 7001)).reason == "has no admin_port"
