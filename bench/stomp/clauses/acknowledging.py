"""Clauses about ACK and NACK, in all three ways of naming a message."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Need, Section
from bench.stomp.raw import SilentError, UnmetError
from bench.stomp.stage import NotApplicableError, Session, Stage, left_in, needed, same

__all__ = ["SECTION"]

SECTION: Final = Section("ack")
_clause: Final = SECTION.clause
_MANY: Final = 100
_DEAD_LETTER_S: Final = 20.0


def _consuming(stage: Stage, ack: str, *bodies: str) -> tuple[Session, str]:
    """A consumer of a queue with these messages."""
    session, queue = stage.connect(), stage.queue()
    session.subscribe(queue, ack)
    for each in bodies:
        # Dead letters of ActiveMQ are those that were persistent.
        session.send(queue, each, [("persistent", "true")])
    return session, queue


@_clause(Need.MUST, "client: ACK acknowledges the message and all before it", versions=SINCE_1_1)
def _client_cumulative(stage: Stage) -> None:
    session, queue = _consuming(stage, "client", "1", "2", "3", "4")
    frames = [session.message() for _ in range(4)]
    session.ack(frames[2])
    session.drop()
    left_in(stage, queue, ["4"])


@_clause(Need.MUST, "client: what was acknowledged one by one is consumed, and the rest is not", versions=EVERY_VERSION)
def _client(stage: Stage) -> None:
    session, queue = _consuming(stage, "client", "1", "2", "3")
    frames = [session.message() for _ in range(3)]
    session.ack(frames[0])
    session.ack(frames[1])
    session.drop()
    left_in(stage, queue, ["3"])


@_clause(Need.MUST, "client: ACK leaves other subscriptions of the connection alone", versions=SINCE_1_1)
def _client_one_subscription(stage: Stage) -> None:
    session = stage.connect()
    queues = stage.queue(), stage.queue()
    for queue in queues:
        session.subscribe(queue, "client")
        session.send(queue, queue)
    frames = {frame.body.decode(): frame for frame in (session.message(), session.message())}
    session.ack(frames[queues[1]])
    session.drop()
    left_in(stage, queues[0], [queues[0]])
    left_in(stage, queues[1], [])


@_clause(Need.MUST, "client-individual: ACK acknowledges one message, and none before it", versions=SINCE_1_1)
def _individual(stage: Stage) -> None:
    session, queue = _consuming(stage, "client-individual", "1", "2", "3", "4")
    frames = [session.message() for _ in range(4)]
    session.ack(frames[2])
    session.ack(frames[0])
    session.drop()
    left_in(stage, queue, ["2", "4"])


@_clause(Need.MUST, f"client-individual: {_MANY} messages are acknowledged in any order", versions=SINCE_1_1)
def _individual_many(stage: Stage) -> None:
    session, queue = _consuming(stage, "client-individual", *map(str, range(_MANY)))
    frames = [session.message() for _ in range(_MANY)]
    for frame in frames[::-2]:
        session.ack(frame)
    session.drop()
    left_in(stage, queue, [frame.body.decode() for frame in frames[::2]])


@_clause(Need.SHOULD, "what was not acknowledged when the connection ends comes again", versions=EVERY_VERSION)
def _redelivered(stage: Stage) -> None:
    session, queue = _consuming(stage, "client", "1", "2")
    session.bodies(2)
    session.drop()
    left_in(stage, queue, ["1", "2"])


@_clause(Need.SHOULD, "what was not acknowledged before DISCONNECT comes again", versions=EVERY_VERSION)
def _redelivered_after_disconnect(stage: Stage) -> None:
    session, queue = _consuming(stage, "client", "1", "2")
    session.bodies(2)
    session.disconnect()
    left_in(stage, queue, ["1", "2"])


@_clause(Need.MUST, "ACK without the headers that name a message is refused by ERROR", versions=EVERY_VERSION)
def _ack_without_name(stage: Stage) -> str:
    session, queue = _consuming(stage, "client", "x")
    session.message()
    error = session.refused("ACK")
    session.drop()
    left_in(stage, queue, ["x"])
    return str(error)


@_clause(Need.MUST, "ACK by message-id alone is refused by ERROR, as the subscription is missing", versions=("1.1",))
def _ack_without_subscription(stage: Stage) -> str:
    session, _ = _consuming(stage, "client", "x")
    return str(session.refused("ACK", [("message-id", needed(session.message(), "message-id"))]))


@_clause(
    Need.SHOULD, "ACK with a subscription that the message does not belong to is refused by ERROR", versions=("1.1",)
)
def _ack_wrong_subscription(stage: Stage) -> str:
    session, _ = _consuming(stage, "client", "x")
    headers = [("message-id", needed(session.message(), "message-id")), ("subscription", "none")]
    return str(session.refused("ACK", headers))


def _wrong_name(stage: Stage, command: str) -> str:
    session, queue = _consuming(stage, "client", "x")
    frame = session.message()
    headers = [
        (name, value if name == "subscription" else "no-such-message") for name, value in session.ack_headers(frame)
    ]
    error = session.refused(command, headers)
    session.drop()
    left_in(stage, queue, ["x"])
    return str(error)


@_clause(Need.SHOULD, "ACK of a message that was never delivered is refused by ERROR", versions=EVERY_VERSION)
def _ack_unknown(stage: Stage) -> str:
    return _wrong_name(stage, "ACK")


@_clause(Need.SHOULD, "NACK of a message that was never delivered is refused by ERROR", versions=SINCE_1_1)
def _nack_unknown(stage: Stage) -> str:
    return _wrong_name(stage, "NACK")


@_clause(Need.MUST, "NACK without the headers that name a message is refused by ERROR", versions=SINCE_1_1)
def _nack_without_name(stage: Stage) -> str:
    session, _ = _consuming(stage, "client", "x")
    session.message()
    return str(session.refused("NACK"))


@_clause(Need.MUST, "one connection cannot acknowledge what another one got", versions=SINCE_1_1)
def _ack_of_others(stage: Stage) -> str:
    session, queue = _consuming(stage, "client", "x")
    frame = session.message()
    other = stage.connect()
    other.subscribe(stage.queue(), "client", name=needed(frame, "subscription"))
    other.write("ACK", session.ack_headers(frame))
    try:
        told = str(other.error())
    except SilentError:
        told = "ignored"
    other.drop()
    session.drop()
    left_in(stage, queue, ["x"])
    return told


@_clause(Need.MAY, "a second ACK of a message is refused by ERROR, or ignored", versions=EVERY_VERSION)
def _ack_twice(stage: Stage) -> str:
    session, queue = _consuming(stage, "client", "1", "2")
    frame, _ = session.message(), session.message()
    session.ack(frame)
    session.write("ACK", [*session.ack_headers(frame), ("receipt", "again")])
    answer = session.connection.frame()
    session.drop()
    left_in(stage, queue, ["2"])
    return str(answer)


@_clause(
    Need.MUST,
    "NACK is accepted, and the message is not consumed by this: it comes again, or is a dead letter",
    versions=SINCE_1_1,
)
def _nack(stage: Stage) -> str:
    session, queue = _consuming(stage, "client-individual", "1", "2")
    frames = [session.message() for _ in range(2)]
    dead = _dead_letters(stage)
    session.ack(frames[0], command="NACK")
    session.ack(frames[1])
    return _whereabouts(session, dead, ["1"], queue)


@_clause(Need.MUST, "client: NACK concerns the message and all before it", versions=SINCE_1_1)
def _nack_cumulative(stage: Stage) -> str:
    session, queue = _consuming(stage, "client", "1", "2", "3")
    frames = [session.message() for _ in range(3)]
    dead = _dead_letters(stage)
    session.ack(frames[1], command="NACK")
    told = _whereabouts(session, dead, ["1", "2"], queue)
    session.drop()
    return told


@_clause(Need.MUST, "client-individual: NACK concerns one message, and none before it", versions=SINCE_1_1)
def _nack_individual(stage: Stage) -> None:
    session, _ = _consuming(stage, "client-individual", "1", "2", "3")
    frames = [session.message() for _ in range(3)]
    session.ack(frames[1], command="NACK")
    again = [frame.body for frame in session.until_quiet(1.0)]
    if b"1" in again or b"3" in again:
        raise UnmetError(f"came again after NACK of 2: {again}")
    session.ack(frames[0])
    session.ack(frames[2])
    for frame in session.until_quiet():
        session.ack(frame)


@_clause(Need.MAY, "NACK is not known", versions=("1.0",))
def _nack_unknown_in_1_0(stage: Stage) -> str:
    session, _ = _consuming(stage, "client", "x")
    session.write("NACK", session.ack_headers(session.message()))
    try:
        return str(session.error())
    except SilentError:
        raise NotApplicableError("known, or ignored") from None


def _dead_letters(stage: Stage) -> Session | None:
    """A session that reads dead letters, if we know where they go."""
    if not stage.target.dead_letters:
        return None
    session = stage.connect()
    session.subscribe(stage.target.dead_letters)
    return session


def _whereabouts(session: Session, dead: Session | None, wanted: list[str], queue: str) -> str:
    """Where messages went that were given back: to us again, or to the dead letters."""
    again = sorted({frame.body.decode() for frame in session.until_quiet(1.0)} & set(wanted))
    if again == wanted:
        return "comes again"
    letters: set[str] = set()
    if dead is not None:
        letters = {frame.body.decode() for frame in dead.until_quiet(1.0)}
        dead.disconnect()
    missing = sorted(set(wanted) - set(again) - letters)
    if not missing:
        return "is a dead letter"
    if dead is None and not again:
        raise NotApplicableError("neither comes again, nor do we know where dead letters go")
    raise UnmetError(
        f"of {wanted}, {again} came again, {sorted(letters)} are dead letters, {missing} are missing from {queue}"
    )


@_clause(
    Need.SHOULD, "an acknowledged message never comes again, also after several connections", versions=EVERY_VERSION
)
def _never_again(stage: Stage) -> None:
    session, queue = _consuming(stage, "client", *map(str, range(10)))
    for number in range(5):
        frame = session.message()
        same(frame.body, b"%d" % (2 * number), "the next message")
        session.ack(frame)
        session.ack(session.message())
        session.drop()
        session = stage.connect()
        session.subscribe(queue, "client")
    session.nothing_comes("came again")
