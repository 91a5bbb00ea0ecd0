"""Clauses about BEGIN, COMMIT and ABORT, and what is part of a transaction."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Check, Need, Section
from bench.stomp.raw import Headers, ServerFrame, SilentError
from bench.stomp.stage import NotApplicableError, Session, Stage, expect, left_in, same

__all__ = ["SECTION"]

SECTION: Final = Section("transaction")
_clause: Final = SECTION.clause


def _watched(stage: Stage) -> tuple[Session, Session, str]:
    """A sender, and a subscriber to a topic."""
    topic = stage.topic()
    subscriber = stage.connect()
    subscriber.subscribe(topic)
    return stage.connect(), subscriber, topic


def _part(session: Session, destination: str, body: str, header: Headers) -> None:
    """Send as part of a transaction; without a receipt, which some servers give at COMMIT only."""
    session.write("SEND", [("destination", destination), *header], body.encode())


def _judge(session: Session, frame: ServerFrame, header: Headers, command: str = "ACK") -> None:
    """Acknowledge as part of a transaction, likewise."""
    session.write(command, [*session.ack_headers(frame), *header])


def _consuming(stage: Stage, *bodies: str) -> tuple[Session, str]:
    session, queue = stage.connect(), stage.queue()
    session.subscribe(queue, "client")
    for each in bodies:
        session.send(queue, each)
    return session, queue


@_clause(
    Need.MUST, "what is sent in a transaction is delivered at COMMIT, in order, and not before", versions=EVERY_VERSION
)
def _commit(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    with sender.transaction() as header:
        for each in range(10):
            _part(sender, topic, str(each), header)
        subscriber.nothing_comes("delivered before COMMIT")
    same(subscriber.bodies(10), [b"%d" % each for each in range(10)], "the bodies")


@_clause(Need.MUST, "what is sent in a transaction is dropped at ABORT", versions=EVERY_VERSION)
def _abort(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    with sender.transaction("ABORT") as header:
        _part(sender, topic, "dropped", header)
    sender.send(topic, "after")
    same(subscriber.message().body, b"after", "the body")


@_clause(Need.MUST, "what is sent outside a transaction does not wait for it", versions=EVERY_VERSION)
def _outside(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    with sender.transaction() as header:
        _part(sender, topic, "inside", header)
        sender.send(topic, "outside")
        same(subscriber.message().body, b"outside", "the first body")
    same(subscriber.message().body, b"inside", "the second body")


@_clause(Need.MUST, "transactions of a connection are independent of each other", versions=EVERY_VERSION)
def _two_at_once(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    with sender.transaction("ABORT") as dropped:
        with sender.transaction() as kept:
            _part(sender, topic, "dropped", dropped)
            _part(sender, topic, "kept", kept)
        same(subscriber.message().body, b"kept", "the body")
    subscriber.nothing_comes("aborted, and delivered")


@_clause(Need.MUST, "connections do not share their transactions", versions=EVERY_VERSION)
def _by_connection(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    other = stage.connect()
    with sender.transaction("ABORT", "same") as dropped:
        with other.transaction("COMMIT", "same") as kept:
            _part(sender, topic, "dropped", dropped)
            _part(other, topic, "kept", kept)
        same(subscriber.message().body, b"kept", "the body")
    subscriber.nothing_comes("aborted, and delivered")


@_clause(Need.MUST, "the name of a transaction may be used again after its end", versions=EVERY_VERSION)
def _name_again(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    for end in ("COMMIT", "ABORT", "COMMIT"):
        with sender.transaction(end, "again") as header:
            _part(sender, topic, end, header)
    same(subscriber.bodies(2), [b"COMMIT", b"COMMIT"], "the bodies")


@_clause(Need.SHOULD, "BEGIN with the name of a running transaction is refused by ERROR", versions=EVERY_VERSION)
def _begun_twice(stage: Stage) -> str:
    session = stage.connect()
    session.ask("BEGIN", [("transaction", "t")])
    return str(session.refused("BEGIN", [("transaction", "t")]))


def _refused(command: str, headers: list[tuple[str, str]]) -> Check:
    def check(stage: Stage) -> str:
        return str(stage.connect().refused(command, headers))

    return check


for _command in ("BEGIN", "COMMIT", "ABORT"):
    SECTION.add(
        f"{_command.lower()}-without-name",
        Need.MUST,
        f"{_command} without a transaction header is refused by ERROR",
        _refused(_command, []),
        versions=EVERY_VERSION,
    )
for _command in ("COMMIT", "ABORT"):
    SECTION.add(
        f"{_command.lower()}-unknown",
        Need.MUST,
        f"{_command} of a transaction that was not begun is refused by ERROR",
        _refused(_command, [("transaction", "none")]),
        versions=EVERY_VERSION,
    )


@_clause(Need.MUST, "a transaction cannot be ended twice", versions=EVERY_VERSION)
def _ended_twice(stage: Stage) -> str:
    session = stage.connect()
    with session.transaction(name="t"):
        pass
    return str(session.refused("COMMIT", [("transaction", "t")]))


@_clause(Need.MUST, "DISCONNECT aborts what was not committed", versions=SINCE_1_1)
def _disconnect_aborts(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    sender.ask("BEGIN", [("transaction", "t")])
    _part(sender, topic, "x", [("transaction", "t")])
    sender.disconnect()
    subscriber.nothing_comes("delivered without COMMIT")


@_clause(Need.MUST, "the end of the connection aborts what was not committed", versions=SINCE_1_1)
def _drop_aborts(stage: Stage) -> None:
    sender, subscriber, topic = _watched(stage)
    sender.ask("BEGIN", [("transaction", "t")])
    _part(sender, topic, "x", [("transaction", "t")])
    # Its receipt says that what came before was received.
    sender.ask("BEGIN", [("transaction", "another")])
    sender.drop()
    subscriber.nothing_comes("delivered without COMMIT")


@_clause(Need.MUST, "ACK in a transaction holds from COMMIT on", versions=EVERY_VERSION)
def _ack_committed(stage: Stage) -> None:
    session, queue = _consuming(stage, "1", "2")
    frames = [session.message() for _ in range(2)]
    with session.transaction() as header:
        _judge(session, frames[0], header)
    session.drop()
    left_in(stage, queue, ["2"])


@_clause(Need.MUST, "ACK in a transaction that is aborted does not hold", versions=EVERY_VERSION)
def _ack_aborted(stage: Stage) -> None:
    session, queue = _consuming(stage, "1", "2")
    frames = [session.message() for _ in range(2)]
    with session.transaction("ABORT") as header:
        _judge(session, frames[1], header)
    session.drop()
    left_in(stage, queue, ["1", "2"])


@_clause(Need.SHOULD, "a message whose ACK was aborted can be acknowledged again", versions=EVERY_VERSION)
def _ack_after_abort(stage: Stage) -> None:
    session, queue = _consuming(stage, "1")
    frame = session.message()
    with session.transaction("ABORT") as header:
        _judge(session, frame, header)
    again = session.until_quiet()
    session.ack(again[0] if again else frame)
    session.drop()
    left_in(stage, queue, [])


@_clause(Need.MUST, "ACK in a transaction that never ends does not hold", versions=EVERY_VERSION)
def _ack_never_committed(stage: Stage) -> None:
    session, queue = _consuming(stage, "1")
    session.ask("BEGIN", [("transaction", "t")])
    _judge(session, session.message(), [("transaction", "t")])
    session.ask("BEGIN", [("transaction", "another")])
    session.drop()
    left_in(stage, queue, ["1"])


@_clause(Need.MUST, "SEND and ACK in one transaction hold together", versions=EVERY_VERSION)
def _send_and_ack(stage: Stage) -> None:
    session, queue = _consuming(stage, "job")
    frame = session.message()
    with session.transaction("ABORT") as header:
        _judge(session, frame, header)
        _part(session, queue, "result", header)
    session.drop()
    session = stage.connect()
    session.subscribe(queue, "client")
    frame = session.message()
    same(frame.body, b"job", "the message after ABORT")
    with session.transaction() as header:
        _judge(session, frame, header)
        _part(session, queue, "result", header)
    session.drop()
    left_in(stage, queue, ["result"])


@_clause(Need.MUST, "ACK with a transaction that was not begun is refused by ERROR", versions=EVERY_VERSION)
def _ack_unknown(stage: Stage) -> str:
    session, queue = _consuming(stage, "x")
    error = session.refused("ACK", [*session.ack_headers(session.message()), ("transaction", "none")])
    session.drop()
    left_in(stage, queue, ["x"])
    return str(error)


@_clause(Need.SHOULD, "NACK may be part of a transaction", versions=SINCE_1_1)
def _nack(stage: Stage) -> None:
    session, queue = _consuming(stage, "1", "2")
    frames = [session.message() for _ in range(2)]
    with session.transaction("ABORT") as header:
        _judge(session, frames[0], header, "NACK")
    session.drop()
    left_in(stage, queue, ["1", "2"])


@_clause(Need.MAY, "a receipt within a transaction comes before COMMIT", versions=EVERY_VERSION)
def _receipt_before_commit(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.ask("BEGIN", [("transaction", "t")])
    session.write("SEND", [("destination", topic), ("transaction", "t"), ("receipt", "inside")], b"x")
    try:
        expect(session.connection.frame(1.0), "RECEIPT")
    except SilentError:
        session.write("COMMIT", [("transaction", "t"), ("receipt", "end")])
        session.receipt("inside")
        session.receipt("end")
        raise NotApplicableError("it comes at COMMIT") from None


@_clause(Need.MAY, "a transaction may be open for a while without harm")
def _many_open(stage: Stage) -> str:
    session = stage.connect()
    number = 0
    try:
        for number in range(1, 101):
            session.write("BEGIN", [("transaction", str(number)), ("receipt", str(number))])
            frame = session.connection.frame()
            if frame.command == "ERROR":
                return f"refused after {number - 1}: {frame}"
    except SilentError:
        raise NotApplicableError(f"no answer to the BEGIN number {number}") from None
    return "100 open transactions"
