"""Clauses about SEND and MESSAGE: what must be there, and what passes through unchanged."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Check, Need, Section
from bench.stomp.raw import UnmetError
from bench.stomp.stage import NotApplicableError, Session, Stage, left_in, needed, same

__all__ = ["SECTION"]

SECTION: Final = Section("message")
_clause: Final = SECTION.clause
_BINARY: Final = bytes(range(1, 256)) + b"\xff\xfe\xc3\x28"
_EXACT: Final = {
    "plain": "value",
    "upper-Case": "Upper",
    "with.dot": "a.b",
    "under_score": "a_b",
    "integer": "42",
    "leading-zeros": "007",
    "fraction": "1.50",
    "exponent": "1e3",
    "negative-zero": "-0",
    "large": "123456789012345678901234567890",
    "infinite": "Infinity",
    "nan": "NaN",
    "true": "true",
    "shouted": "TRUE",
    "null": "null",
    "quoted": "'it''s'",
    "underscored-number": "1_000",
    "plus": "+5",
    "arabic": "٣",
    "json": '{"a"=[1,2]}',
}


def _subscribed(stage: Stage, ack: str = "") -> tuple[Session, str]:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, ack)
    return session, topic


@_clause(Need.MUST, "SEND without a destination is refused by ERROR", versions=EVERY_VERSION)
def _no_destination(stage: Stage) -> str:
    return str(stage.connect().refused("SEND", [], b"x"))


@_clause(Need.MUST, "SEND with a transaction that was not begun is refused by ERROR", versions=EVERY_VERSION)
def _unknown_transaction(stage: Stage) -> str:
    topic = stage.topic()
    session = stage.connect()
    session.subscribe(topic)
    error = stage.connect().refused("SEND", [("destination", topic), ("transaction", "none")], b"x")
    session.nothing_comes("delivered all the same")
    return str(error)


@_clause(Need.MUST, "MESSAGE has the destination", versions=EVERY_VERSION)
def _destination(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, "x")
    needed(session.message(), "destination")


@_clause(Need.SHOULD, "the destination of MESSAGE is that of SEND", versions=EVERY_VERSION)
def _same_destination(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    queue = stage.queue()
    session.subscribe(queue)
    for destination in (topic, queue):
        session.send(destination, "x")
        same(needed(session.message(), "destination"), destination, "the destination")


@_clause(Need.MUST, "MESSAGE has a message-id that no other message has", versions=EVERY_VERSION)
def _message_id(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    for _ in range(20):
        session.send(topic, "x")
    identifiers = [needed(session.message(), "message-id") for _ in range(20)]
    same(len(set(identifiers)), 20, "the number of different message-ids")
    return f"as {identifiers[0]}"


def _has_ack_header(mode: str) -> Check:
    def check(stage: Stage) -> None:
        session = stage.connect()
        queue = stage.queue()
        session.subscribe(queue, mode)
        session.send(queue, "x")
        needed(session.message(), "ack")

    return check


for _mode in ("client", "client-individual"):
    SECTION.add(
        f"ack-header-{_mode}", Need.MUST, f"MESSAGE has an ack header if the mode is {_mode}", _has_ack_header(_mode)
    )


@_clause(Need.MAY, "MESSAGE needs no ack header if the mode is auto")
def _ack_header_auto(stage: Stage) -> str | None:
    session, topic = _subscribed(stage)
    session.send(topic, "x")
    value = session.message().get("ack")
    return None if value is None else f"it has ack:{value}"


@_clause(Need.SHOULD, "MESSAGE with a body has its content-length", versions=EVERY_VERSION)
def _content_length(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, "größer")
    same(needed(session.message(), "content-length"), "8", "content-length")
    session.ask("SEND", [("destination", topic)], b"hello")
    same(needed(session.message(), "content-length"), "5", "content-length of a message sent without")


@_clause(Need.MUST, "content-type passes through", versions=EVERY_VERSION)
def _content_type(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    for kind in ("text/plain", "application/json;charset=utf-8", 'multipart/mixed; boundary="x=y"', "image/png"):
        session.send(topic, "x", [("content-type", kind)])
        same(session.message().get("content-type"), kind, "content-type")


@_clause(Need.SHOULD, "MESSAGE has no content-type if SEND had none, so that it is a binary blob", versions=SINCE_1_1)
def _no_content_type(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, "x")
    same(session.message().get("content-type"), None, "content-type")


@_clause(Need.MUST, "a body of any bytes passes through without content-type", versions=EVERY_VERSION)
def _binary_body(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, _BINARY + b"\0" + _BINARY)
    same(session.message().body, _BINARY + b"\0" + _BINARY, "the body")


@_clause(Need.MUST, "a body of any bytes but zero passes through without content-length", versions=EVERY_VERSION)
def _binary_body_without_length(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.ask("SEND", [("destination", topic)], _BINARY)
    same(session.message().body, _BINARY, "the body")


@_clause(Need.MUST, "a text in another encoding passes through as bytes", versions=EVERY_VERSION)
def _other_encoding(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    body = "größer".encode("utf-16")
    session.send(topic, body, [("content-type", "text/plain;charset=utf-16")])
    same(session.message().body, body, "the body")


@_clause(Need.MUST, "user defined headers pass through exactly", versions=EVERY_VERSION)
def _user_headers(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    wanted = {name: value for name, value in _EXACT.items() if stage.version != "1.0" or value.isascii()}
    session.send(topic, "x", wanted.items())
    frame = session.message()
    different = [
        f"{name}:{value} became {frame.get(name)}" for name, value in wanted.items() if frame.get(name) != value
    ]
    if different:
        raise UnmetError("; ".join(different))
    return f"{len(wanted)} headers"


@_clause(Need.MUST, "user defined headers pass through queues exactly, too")
def _user_headers_in_queues(stage: Stage) -> None:
    queue = stage.queue()
    stage.connect().send(queue, "x", _EXACT.items())
    session = stage.connect()
    session.subscribe(queue)
    frame = session.message()
    same({name: frame.get(name) for name in _EXACT}, _EXACT, "the headers")


@_clause(Need.MUST, "a sender cannot forge the subscription, message-id or ack of MESSAGE", versions=SINCE_1_1)
def _no_forgery(stage: Stage) -> str | None:
    session, queue = stage.connect(), stage.queue()
    identifier = session.subscribe(queue, "client")
    forged = [("subscription", "forged"), ("message-id", "forged"), ("ack", "forged")]
    session.write("SEND", [("destination", queue), *forged], b"x")
    frame = session.connection.frame()
    if frame.command == "ERROR":
        return str(frame)
    same(needed(frame, "subscription"), identifier, "subscription")
    for name in ("message-id", "ack") if stage.version == "1.2" else ("message-id",):
        if needed(frame, name) == "forged":
            raise UnmetError(f"{name} is the forged one")
    session.ack(frame)
    return None


@_clause(Need.SHOULD, "the receipt header of SEND is not passed on", versions=EVERY_VERSION)
def _receipt_not_passed_on(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    session.send(topic, "x")
    same(session.message().get("receipt"), None, "receipt")


@_clause(Need.SHOULD, "messages of one sender arrive in their order", versions=EVERY_VERSION)
def _order(stage: Stage) -> None:
    session, topic = _subscribed(stage)
    sender = stage.connect()
    for each in range(200):
        sender.write("SEND", [("destination", topic)], b"%d" % each)
    same(session.bodies(200), [b"%d" % each for each in range(200)], "the order")


@_clause(Need.SHOULD, "what was received before the client vanished is processed all the same", versions=SINCE_1_1)
def _processed_after_drop(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    for each in range(50):
        session.write("SEND", [("destination", queue)], b"%d" % each)
    # The receipt says that everything before it was received.
    session.send(queue, "last")
    session.drop()
    left_in(stage, queue, [*map(str, range(50)), "last"])


@_clause(Need.MUST, "a message sent by one version is received by every other", versions=EVERY_VERSION)
def _between_versions(stage: Stage) -> None:
    topic = stage.topic()
    receivers = {version: stage.connect(version=version) for version in EVERY_VERSION}
    for receiver in receivers.values():
        receiver.subscribe(topic)
    stage.connect().send(topic, b"\0body", [("word", "a:b\\c"), ("content-type", "text/x")])
    for version, receiver in receivers.items():
        frame = receiver.message()
        found = (frame.get("word"), frame.get("content-type"), frame.body)
        same(found, ("a:b\\c", "text/x", b"\0body"), f"the message at version {version}")


@_clause(Need.MUST, "a line feed in a header does not break the frame for a client of version 1.0")
def _line_feed_to_1_0(stage: Stage) -> str:
    topic = stage.topic()
    receiver = stage.connect(version="1.0")
    receiver.subscribe(topic)
    stage.connect().send(topic, "body", [("word", "a\n\nb\n:c"), ("last", "x")])
    frame = receiver.message()
    same(frame.body, b"body", "the body")
    return f"word is {frame.raw('word')!r}"


@_clause(Need.MUST, "MESSAGE names the subscription", versions=SINCE_1_1)
def _subscription(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, name="my own:name\\1")
    session.send(topic, "x")
    same(session.message().get("subscription"), "my own:name\\1", "subscription")


@_clause(Need.SHOULD, "MESSAGE names the subscription if SUBSCRIBE had an id", versions=("1.0",))
def _subscription_if_named(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, name="mine")
    session.send(topic, "x")
    same(session.message().get("subscription"), "mine", "subscription")


@_clause(Need.MAY, "MESSAGE may carry further headers of the server", versions=SINCE_1_1)
def _server_headers(stage: Stage) -> str:
    session, topic = _subscribed(stage)
    session.send(topic, "x")
    names = [key.decode() for key, _ in session.message().lines]
    others = [name for name in names if name not in ("destination", "message-id", "subscription", "content-length")]
    if not others:
        raise NotApplicableError("none")
    return ", ".join(others)
