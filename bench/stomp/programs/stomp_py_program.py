"""Drives a server by stomp.py: ``python -m bench.stomp.programs.stomp_py_program SERVER CHECK``."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from queue import Empty, Queue
from typing import Any, Final

import stomp
from bench.stomp.programs.scene import HEADERS, PATIENCE_S, QUIET_S, WrongError, equal, holds, play, unique
from bench.stomp.stage import Target

__all__: list[str] = []

_BINARY: Final = bytes(range(256))


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Keeps what comes, by kind."""

    def __init__(self) -> None:
        self.messages: Queue[Any] = Queue()
        self.receipts: Queue[Any] = Queue()
        self.errors: Queue[Any] = Queue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame)

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)


class _Client:
    """A connection with its listener."""

    def __init__(
        self, target: Target, *, passcode: str = "", heart_beats: tuple[int, int] = (0, 0), **headers: str
    ) -> None:
        self.connection = stomp.Connection12(
            [(target.host, target.port)],
            auto_decode=False,
            heartbeats=heart_beats,
            reconnect_attempts_max=1,
            vhost=target.virtual_host or None,
        )
        self.listener = _Listener()
        self.connection.set_listener("", self.listener)
        self._receipts = 0
        named = {"client-id": headers["client"]} if "client" in headers else {}
        login = target.login or None
        self.connection.connect(login, passcode or target.passcode or None, wait=True, headers=named)

    def message(self) -> Any:
        try:
            return self.listener.messages.get(timeout=PATIENCE_S)
        except Empty:
            raise WrongError("no message came") from None

    def bodies(self, number: int) -> list[bytes]:
        return [self.message().body for _ in range(number)]

    def nothing_comes(self) -> None:
        with suppress(Empty):
            raise WrongError(f"a message came: {self.listener.messages.get(timeout=QUIET_S).body!r}")

    def send(self, destination: str, body: str | bytes, headers: dict[str, str] | None = None, **more: str) -> None:
        """Send a message and wait for its receipt."""
        self.connection.send(destination, body, headers={**(headers or {}), "receipt": self._next()}, **more)
        self._receipted()

    def subscribe(self, destination: str, ack: str = "auto", headers: dict[str, str] | None = None) -> None:
        self.connection.subscribe(destination, id="0", ack=ack, headers={**(headers or {}), "receipt": self._next()})
        self._receipted()

    def ack(self, frame: Any, *, is_taken: bool = True) -> None:
        judge = self.connection.ack if is_taken else self.connection.nack
        judge(frame.headers["ack"], receipt=self._next())
        self._receipted()

    def drop(self) -> None:
        """End the connection without DISCONNECT."""
        self.connection.transport.disconnect_socket()

    def leave(self) -> None:
        self.connection.disconnect(receipt=self._next())
        self._receipted()

    def _next(self) -> str:
        self._receipts += 1
        return f"receipt-{self._receipts}"

    def _receipted(self) -> None:
        try:
            frame = self.listener.receipts.get(timeout=PATIENCE_S)
        except Empty:
            raise WrongError(f"no receipt came, but {list(self.listener.errors.queue)!r}") from None
        equal(frame.headers["receipt-id"], f"receipt-{self._receipts}", "receipt-id")


def _queue(target: Target) -> str:
    return unique(f"{target.queue_prefix}conformance.")


def _subscribed(target: Target) -> tuple[_Client, str]:
    client, topic = _Client(target), unique(f"{target.topic_prefix}conformance.")
    client.subscribe(topic)
    return client, topic


def _consuming(target: Target, ack: str) -> tuple[_Client, str]:
    client, queue = _Client(target), _queue(target)
    client.subscribe(queue, ack)
    for body in ("1", "2", "3"):
        client.send(queue, body)
    return client, queue


def _left(target: Target, queue: str, wanted: list[bytes]) -> None:
    client = _Client(target)
    client.subscribe(queue)
    equal(sorted(client.bodies(len(wanted))), wanted, "what is left in the queue")
    client.nothing_comes()


def _connect(target: Target) -> None:
    holds(_Client(target).connection.is_connected(), "is_connected()")


def _text(target: Target) -> None:
    client, topic = _subscribed(target)
    client.send(topic, "Größe")
    frame = client.message()
    equal((frame.body, frame.headers["destination"]), ("Größe".encode(), topic), "the message")


def _headers(target: Target) -> None:
    client, topic = _subscribed(target)
    client.send(topic, "x", HEADERS)
    found = client.message().headers
    equal({name: found.get(name) for name in HEADERS}, HEADERS, "the headers")


def _content_type(target: Target) -> None:
    client, topic = _subscribed(target)
    client.send(topic, "{}", content_type="application/json;charset=utf-8")
    equal(client.message().headers.get("content-type"), "application/json;charset=utf-8", "content-type")


def _binary(target: Target) -> None:
    client, topic = _subscribed(target)
    client.send(topic, _BINARY)
    equal(client.message().body, _BINARY, "the body")


def _receipt(target: Target) -> None:
    client, topic = _subscribed(target)
    client.send(topic, "x")


def _waits(target: Target) -> None:
    queue = _queue(target)
    sender = _Client(target)
    for body in ("1", "2", "3"):
        sender.send(queue, body)
    sender.leave()
    _left(target, queue, [b"1", b"2", b"3"])


def _client(target: Target) -> None:
    client, queue = _consuming(target, "client")
    frames = [client.message() for _ in range(3)]
    client.ack(frames[1])
    client.drop()
    _left(target, queue, [b"3"])


def _individual(target: Target) -> None:
    client, queue = _consuming(target, "client-individual")
    frames = [client.message() for _ in range(3)]
    client.ack(frames[1])
    client.drop()
    _left(target, queue, [b"1", b"3"])


def _nack(target: Target) -> None:
    client, _ = _consuming(target, "client-individual")
    client.ack(client.message(), is_taken=False)
    client.ack(client.message())


def _transaction(target: Target, *, is_committed: bool) -> None:
    client, topic = _subscribed(target)
    connection = client.connection
    name = connection.begin()
    connection.send(topic, "inside", transaction=name)
    client.nothing_comes()
    (connection.commit if is_committed else connection.abort)(name)
    client.send(topic, "after")
    equal(client.bodies(2 if is_committed else 1), [b"inside", b"after"][not is_committed :], "the bodies")


def _selector(target: Target) -> None:
    client, topic = _Client(target), unique(f"{target.topic_prefix}conformance.")
    client.subscribe(topic, headers={"selector": "colour = 'red' AND size > 9"})
    for colour, size in (("blue", "10"), ("red", "5"), ("red", "10")):
        client.send(topic, f"{colour} {size}", {"colour": colour, "size": size})
    equal(client.message().body, b"red 10", "the body")
    client.nothing_comes()


def _durable(target: Target) -> None:
    topic, name = unique(f"{target.topic_prefix}conformance."), unique("client")
    durable = {"activemq.subscriptionName": "durable"}
    client = _Client(target, client=name)
    client.subscribe(topic, headers=durable)
    client.leave()
    _Client(target).send(topic, "while away")
    client = _Client(target, client=name)
    client.subscribe(topic, headers=durable)
    equal(client.message().body, b"while away", "the body")
    client.leave()


def _unsubscribe(target: Target) -> None:
    client, topic = _subscribed(target)
    client.connection.unsubscribe("0")
    client.send(topic, "x")
    client.nothing_comes()


def _error(target: Target) -> None:
    client = _Client(target)
    client.connection.commit("no such transaction")
    frame = client.listener.errors.get(timeout=PATIENCE_S)
    if not frame.headers.get("message"):
        raise WrongError(f"no message in {frame.headers}")


def _wrong_passcode(target: Target) -> None:
    try:
        _Client(target, passcode="wrong")
    except stomp.exception.ConnectFailedException:
        return
    raise WrongError("let in")


def _heart_beat(target: Target) -> None:
    client = _Client(target, heart_beats=(500, 500))
    time.sleep(3.0)
    holds(client.connection.is_connected(), "is_connected() after six heart-beats")
    topic = unique(f"{target.topic_prefix}conformance.")
    client.subscribe(topic)
    client.send(topic, "x")
    equal(client.message().body, b"x", "the body")


def _disconnect(target: Target) -> None:
    _Client(target).leave()


if __name__ == "__main__":
    play(
        {
            "connect": _connect,
            "text": _text,
            "headers": _headers,
            "content-type": _content_type,
            "binary": _binary,
            "receipt": _receipt,
            "queue": _waits,
            "client": _client,
            "client-individual": _individual,
            "nack": _nack,
            "commit": partial(_transaction, is_committed=True),
            "abort": partial(_transaction, is_committed=False),
            "selector": _selector,
            "durable": _durable,
            "unsubscribe": _unsubscribe,
            "error": _error,
            "wrong-passcode": _wrong_passcode,
            "heart-beat": _heart_beat,
            "disconnect": _disconnect,
        }
    )
    # Threads of connections that are still open must not keep the process.
    os._exit(0)
