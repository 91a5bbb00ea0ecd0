"""Clauses about SUBSCRIBE and UNSUBSCRIBE."""

from __future__ import annotations

from typing import Final

from bench.stomp.clause import EVERY_VERSION, SINCE_1_1, Need, Section
from bench.stomp.raw import SilentError
from bench.stomp.stage import NotApplicableError, Stage, alive, left_in, same

__all__ = ["SECTION"]

SECTION: Final = Section("subscribe")
_clause: Final = SECTION.clause
_MANY: Final = 100


@_clause(Need.MUST, "SUBSCRIBE without a destination is refused by ERROR", versions=EVERY_VERSION)
def _no_destination(stage: Stage) -> str:
    return str(stage.connect().refused("SUBSCRIBE", [("id", "0")]))


@_clause(Need.MUST, "SUBSCRIBE without an id is refused by ERROR", versions=SINCE_1_1)
def _no_id(stage: Stage) -> str:
    return str(stage.connect().refused("SUBSCRIBE", [("destination", stage.topic())]))


@_clause(Need.MUST, "SUBSCRIBE needs no id", versions=("1.0",))
def _id_optional(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.ask("SUBSCRIBE", [("destination", topic)])
    session.send(topic, "x")
    same(session.message().body, b"x", "the body")


@_clause(Need.SHOULD, "an id that another subscription of the connection has is refused by ERROR", versions=SINCE_1_1)
def _id_taken(stage: Stage) -> str:
    session = stage.connect()
    session.subscribe(stage.topic(), name="0")
    return str(session.refused("SUBSCRIBE", [("id", "0"), ("destination", stage.topic())]))


@_clause(Need.MUST, "connections do not share their ids", versions=SINCE_1_1)
def _ids_by_connection(stage: Stage) -> None:
    topics = stage.topic(), stage.topic()
    sessions = stage.connect(), stage.connect()
    for session, topic in zip(sessions, topics, strict=True):
        session.subscribe(topic, name="0")
        session.send(topic, topic)
    for session, topic in zip(sessions, topics, strict=True):
        same(session.message().body, topic.encode(), "the body")
        session.nothing_comes("a message of another connection")


@_clause(Need.MUST, "an id may be used again after UNSUBSCRIBE", versions=SINCE_1_1)
def _id_again(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    for _ in range(3):
        session.subscribe(topic, name="0")
        session.ask("UNSUBSCRIBE", [("id", "0")])
    session.subscribe(topic, name="0")
    session.send(topic, "x")
    same(session.message().body, b"x", "the body")
    session.nothing_comes("delivered twice")


@_clause(Need.MUST, "two subscriptions to one topic get each message twice, each under its own id", versions=SINCE_1_1)
def _two_to_one_topic(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    identifiers = [session.subscribe(topic), session.subscribe(topic)]
    session.send(topic, "x")
    same(sorted(session.message().get("subscription") or "" for _ in range(2)), identifiers, "the subscriptions")


@_clause(Need.SHOULD, f"a connection may have {_MANY} subscriptions", versions=EVERY_VERSION)
def _many(stage: Stage) -> None:
    session = stage.connect()
    topics = [stage.topic() for _ in range(_MANY)]
    for topic in topics:
        session.subscribe(topic)
    for topic in topics:
        session.send(topic, topic)
    same(sorted(session.bodies(_MANY)), sorted(topic.encode() for topic in topics), "the bodies")


@_clause(Need.SHOULD, "an unknown ack mode is refused by ERROR", versions=SINCE_1_1)
def _unknown_ack_mode(stage: Stage) -> str:
    headers = [("id", "0"), ("destination", stage.topic()), ("ack", "sometimes")]
    return str(stage.connect().refused("SUBSCRIBE", headers))


@_clause(Need.MUST, "without an ack header the mode is auto: nothing has to be acknowledged", versions=EVERY_VERSION)
def _auto_by_default(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue)
    session.send(queue, "x")
    session.message()
    # The receipt says that the server is done with what was before.
    session.disconnect()
    left_in(stage, queue, [])


@_clause(Need.MUST, "ack:auto: what was sent to the client counts as received", versions=EVERY_VERSION)
def _auto(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue, "auto")
    for each in range(5):
        session.send(queue, str(each))
    session.bodies(5)
    session.disconnect()
    left_in(stage, queue, [])


@_clause(Need.MUST, "a receipt for SUBSCRIBE says that messages sent from then on are received", versions=EVERY_VERSION)
def _effective_at_receipt(stage: Stage) -> None:
    sender = stage.connect()
    for _ in range(20):
        session, topic = stage.connect(), stage.topic()
        session.subscribe(topic)
        sender.send(topic, "x")
        same(session.message().body, b"x", "the body")


@_clause(Need.MUST, "after UNSUBSCRIBE no more messages come", versions=EVERY_VERSION)
def _unsubscribe(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    identifier = session.subscribe(topic)
    session.send(topic, "before")
    session.message()
    session.ask("UNSUBSCRIBE", [("id", identifier)])
    session.send(topic, "after")
    session.nothing_comes("a message after UNSUBSCRIBE")


@_clause(Need.MUST, "UNSUBSCRIBE ends one subscription, and others to the same topic go on", versions=SINCE_1_1)
def _unsubscribe_one(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    first, second = session.subscribe(topic), session.subscribe(topic)
    session.ask("UNSUBSCRIBE", [("id", first)])
    session.send(topic, "x")
    same(session.message().get("subscription"), second, "the subscription")
    session.nothing_comes("a message of the subscription that was ended")


@_clause(Need.MUST, "UNSUBSCRIBE by destination", versions=("1.0",))
def _unsubscribe_by_destination(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.ask("SUBSCRIBE", [("destination", topic)])
    session.ask("UNSUBSCRIBE", [("destination", topic)])
    session.send(topic, "after")
    session.nothing_comes("a message after UNSUBSCRIBE")


@_clause(Need.MUST, "UNSUBSCRIBE without an id is refused by ERROR", versions=SINCE_1_1)
def _unsubscribe_without_id(stage: Stage) -> str:
    session = stage.connect()
    session.subscribe(stage.topic())
    return str(session.refused("UNSUBSCRIBE"))


@_clause(Need.MUST, "UNSUBSCRIBE with neither id nor destination is refused by ERROR", versions=("1.0",))
def _unsubscribe_without_anything(stage: Stage) -> str:
    return str(stage.connect().refused("UNSUBSCRIBE"))


@_clause(Need.SHOULD, "UNSUBSCRIBE of what is not subscribed is refused by ERROR", versions=EVERY_VERSION)
def _unsubscribe_unknown(stage: Stage) -> str:
    return str(stage.connect().refused("UNSUBSCRIBE", [("id", "none")]))


@_clause(Need.MUST, "what was not acknowledged before UNSUBSCRIBE is not consumed", versions=EVERY_VERSION)
def _unsubscribe_unacknowledged(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    identifier = session.subscribe(queue, "client")
    session.send(queue, "x")
    session.message()
    session.ask("UNSUBSCRIBE", [("id", identifier)])
    # It may wait for the end of the connection, since it could still be acknowledged.
    session.drop()
    left_in(stage, queue, ["x"])


@_clause(Need.MAY, "a message may still be acknowledged after UNSUBSCRIBE", versions=SINCE_1_1)
def _ack_after_unsubscribe(stage: Stage) -> str:
    queue = stage.queue()
    session = stage.connect()
    identifier = session.subscribe(queue, "client-individual")
    session.send(queue, "x")
    frame = session.message()
    session.ask("UNSUBSCRIBE", [("id", identifier)])
    session.write("ACK", [*session.ack_headers(frame), ("receipt", "late")])
    try:
        answer = session.connection.frame()
    except SilentError:
        raise NotApplicableError("neither accepted nor refused") from None
    return str(answer)


@_clause(Need.SHOULD, "headers of SUBSCRIBE that the server does not know are ignored", versions=EVERY_VERSION)
def _unknown_headers(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, headers=[("no-such-option", "x"), ("word", "a.b")])
    alive(session)
