"""Clauses about receipts, errors and DISCONNECT."""

from __future__ import annotations

import socket
from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Check, Need, Section
from bench.stomp.raw import GoneError, SilentError, TcpTransport, UnmetError, encode
from bench.stomp.stage import NotApplicableError, Stage, alive, expect, left_in, needed, same

__all__ = ["DISCONNECT", "ERROR", "RECEIPT"]

RECEIPT: Final = Section("receipt")
ERROR: Final = Section("error")
DISCONNECT: Final = Section("disconnect")


def _receipt_for(command: str) -> Check:
    """Send a frame of this kind with a receipt, after what it needs."""

    def check(stage: Stage) -> None:
        session, queue = stage.connect(), stage.queue()
        begin = [("transaction", "t")]
        if command in ("COMMIT", "ABORT"):
            session.write("BEGIN", begin)
        if command in ("UNSUBSCRIBE", "ACK", "NACK"):
            session.write("SUBSCRIBE", [("id", "0"), ("destination", queue), ("ack", "client")])
        headers = {
            "SEND": [("destination", queue)],
            "SUBSCRIBE": [("id", "0"), ("destination", queue)],
            "UNSUBSCRIBE": [("id", "0")],
            "BEGIN": begin,
            "COMMIT": begin,
            "ABORT": begin,
        }.get(command, [])
        if command in ("ACK", "NACK"):
            session.write("SEND", [("destination", queue)], b"x")
            headers = session.ack_headers(session.message())
        session.write(command, [*headers, ("receipt", f"for {command}")])
        frame = expect(session.connection.frame(), "RECEIPT")
        same(needed(frame, "receipt-id"), f"for {command}", "receipt-id")

    return check


for _command in ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"):
    RECEIPT.add(
        _command.lower(),
        Need.MUST,
        f"{_command} with a receipt header is answered by RECEIPT",
        _receipt_for(_command),
        versions=SINCE_1_1 if _command == "NACK" else EVERY_VERSION,
    )


@RECEIPT.clause(Need.MUST, "receipt-id is exactly the value of the receipt header", versions=EVERY_VERSION)
def _exact(stage: Stage) -> None:
    session = stage.connect()
    values = ["007", "a b", "x" * 500, "a\\b"]
    if stage.version != "1.0":
        values += ["a:b\nc", " padded ", "größer 🐟"]
    for value in values:
        session.write("SEND", [("destination", stage.topic()), ("receipt", value)], b"x")
        same(expect(session.connection.frame(), "RECEIPT").get("receipt-id"), value, "receipt-id")


@RECEIPT.clause(Need.MUST, "RECEIPT has no body", versions=EVERY_VERSION)
def _no_body(stage: Stage) -> None:
    session = stage.connect()
    session.write("SEND", [("destination", stage.topic()), ("receipt", "r")], b"x")
    same(expect(session.connection.frame(), "RECEIPT").body, b"", "the body")


@RECEIPT.clause(Need.SHOULD, "receipts come in the order of the frames", versions=EVERY_VERSION)
def _in_order(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    for each in range(100):
        session.write("SEND", [("destination", topic), ("receipt", str(each))], b"x")
    receipts = [expect(session.connection.frame(), "RECEIPT").get("receipt-id") for _ in range(100)]
    same(receipts, [*map(str, range(100))], "the order")


@RECEIPT.clause(Need.MUST, "a receipt says that all frames before it were received, too", versions=EVERY_VERSION)
def _cumulative(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    for each in range(100):
        session.write("SEND", [("destination", queue)], b"%d" % each)
    session.send(queue, "100")
    session.drop()
    left_in(stage, queue, [*map(str, range(101))])


@RECEIPT.clause(Need.MUST, "nothing is receipted without being asked", versions=EVERY_VERSION)
def _unasked(stage: Stage) -> None:
    session = stage.connect()
    session.write("SEND", [("destination", stage.topic())], b"x")
    session.write("SUBSCRIBE", [("id", "0"), ("destination", stage.topic())])
    try:
        raise UnmetError(f"unasked: {session.connection.frame(0.3)}")
    except SilentError:
        alive(session)


@ERROR.clause(Need.MUST, "after ERROR the connection is closed, and nothing else is sent or done", versions=SINCE_1_1)
def _closes(stage: Stage) -> None:
    topic = stage.topic()
    session = stage.connect()
    session.subscribe(topic)
    broken = stage.connect()
    broken.connection.send(
        encode("SEND", [], b"broken", version=stage.version)
        + encode("SEND", [("destination", topic), ("receipt", "r")], b"after", version=stage.version)
    )
    expect(broken.connection.frame(), "ERROR")
    try:
        raise UnmetError(f"after ERROR: {broken.connection.frame()}")
    except GoneError:
        session.nothing_comes("a frame after the broken one was processed")


@ERROR.clause(Need.SHOULD, "ERROR has a message header", versions=EVERY_VERSION)
def _message(stage: Stage) -> str:
    session = stage.connect()
    session.write("SEND", [], b"x")
    return needed(session.error(), "message")


@ERROR.clause(Need.SHOULD, "ERROR has the receipt-id of the frame that it is about", versions=EVERY_VERSION)
def _receipt_id(stage: Stage) -> None:
    session = stage.connect()
    session.write("SEND", [("receipt", "about this")], b"x")
    same(session.error().get("receipt-id"), "about this", "receipt-id")


@ERROR.clause(Need.MUST, "a frame that ended in ERROR is not receipted", versions=EVERY_VERSION)
def _no_receipt(stage: Stage) -> None:
    session = stage.connect()
    session.write("SEND", [("receipt", "r")], b"x")
    # This raises if a receipt is there first.
    session.error()
    try:
        raise UnmetError(f"after ERROR: {session.connection.frame(0.3)}")
    except (GoneError, SilentError):
        pass


@ERROR.clause(Need.SHOULD, "ERROR with a body has content-length and content-type", versions=EVERY_VERSION)
def _described(stage: Stage) -> None:
    session = stage.connect()
    session.write("SEND", [], b"x")
    error = session.error()
    if not error.body:
        raise NotApplicableError("ERROR has no body")
    same(needed(error, "content-length"), str(len(error.body)), "content-length")
    needed(error, "content-type")


@ERROR.clause(Need.MUST, "other connections do not notice", versions=EVERY_VERSION)
def _others(stage: Stage) -> None:
    session = stage.connect()
    other = stage.connect()
    other.write("SEND", [], b"x")
    other.error()
    alive(session)


@DISCONNECT.clause(Need.MUST, "DISCONNECT with a receipt is answered by RECEIPT", versions=EVERY_VERSION)
def _receipt(stage: Stage) -> None:
    stage.connect().disconnect()


@DISCONNECT.clause(
    Need.MUST, "the receipt of DISCONNECT says that all frames before were received", versions=EVERY_VERSION
)
def _all_before(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    for each in range(100):
        session.write("SEND", [("destination", queue)], b"%d" % each)
    session.disconnect()
    left_in(stage, queue, [*map(str, range(100))])


@DISCONNECT.clause(Need.MAY, "the server closes the connection after DISCONNECT", versions=EVERY_VERSION)
def _closed(stage: Stage) -> None:
    session = stage.connect()
    session.write("DISCONNECT", [("receipt", "r")])
    session.receipt("r")
    if not session.connection.closes(2.0):
        raise NotApplicableError("left to the client")


@DISCONNECT.clause(
    Need.MAY, "the server closes the connection after DISCONNECT without a receipt", versions=EVERY_VERSION
)
def _closed_without_receipt(stage: Stage) -> None:
    session = stage.connect()
    session.write("DISCONNECT")
    if not session.connection.closes(2.0):
        raise NotApplicableError("left to the client")


@DISCONNECT.clause(Need.SHOULD, "frames after DISCONNECT are not processed", versions=SINCE_1_1)
def _nothing_after(stage: Stage) -> None:
    topic = stage.topic()
    session = stage.connect()
    session.subscribe(topic)
    leaving = stage.connect()
    leaving.connection.send(
        encode("DISCONNECT", [("receipt", "r")], version=stage.version)
        + encode("SEND", [("destination", topic)], b"late", version=stage.version)
    )
    leaving.receipt("r")
    session.nothing_comes("a frame after DISCONNECT was processed")


@DISCONNECT.clause(Need.SHOULD, "no messages come after the receipt of DISCONNECT", versions=SINCE_1_1)
def _no_messages_after(stage: Stage) -> None:
    topic = stage.topic()
    sender, session = stage.connect(), stage.connect()
    session.subscribe(topic)
    session.ask("DISCONNECT")
    sender.send(topic, "late")
    try:
        raise UnmetError(f"after DISCONNECT: {session.connection.frame(0.3)}")
    except (GoneError, SilentError):
        pass


@DISCONNECT.clause(Need.SHOULD, "a client that shuts down its side after DISCONNECT still gets the receipt")
def _half_closed(stage: Stage) -> None:
    transport = TcpTransport(stage.target.host, stage.target.port, patience_s=stage.target.patience_s)
    session = stage.connect(transport=transport)
    session.write("DISCONNECT", [("receipt", "r")])
    transport.socket.shutdown(socket.SHUT_WR)
    session.receipt("r")
