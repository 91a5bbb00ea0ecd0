"""Clauses of no specification: what ActiveMQ documents of its STOMP, what RabbitMQ does, and what programs rely on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from bench.stomp.clause import EXTENSION, Check, Need, Section
from bench.stomp.raw import Headers, ServerFrame, SilentError, UnmetError, encode
from bench.stomp.stage import NotApplicableError, Session, Stage, ended, expect, left_in, needed, same

__all__ = ["SECTIONS"]

_SELECTOR: Final = Section("selector")
_HEADER: Final = Section("header")
_QUEUE: Final = Section("queue")
_TOPIC: Final = Section("topic")
_DURABLE: Final = Section("durable")
_NACK: Final = Section("nack")
SECTIONS: Final = (_SELECTOR, _HEADER, _QUEUE, _TOPIC, _DURABLE, _NACK)
_HERE: Final = (EXTENSION,)
_DEAD_S: Final = 30.0

_QUOTES: Final[tuple[dict[str, str], ...]] = (
    {"symbol": "IBM", "price": "99.5", "volume": "700", "urgent": "true"},
    {"symbol": "SUN", "price": "100.5", "volume": "1000", "urgent": "false"},
    {"symbol": "AT&T", "price": "7", "volume": "20", "urgent": "true", "remark": "it's 5% off"},
)
"""Messages of which selectors pick some; as texts, 700 would be more than 1000."""


def _picks(selector: str, *wanted: str) -> Check:
    """Which of the quotes a selector picks from a topic, by their symbols."""

    def check(stage: Stage) -> None:
        session, topic = stage.connect(), stage.topic()
        session.subscribe(topic, headers=[("selector", selector)])
        # The first connection must not know more than the second one.
        sender = stage.connect()
        for quote in _QUOTES:
            sender.send(topic, quote["symbol"], quote.items())
        found = [session.message().body.decode() for _ in wanted]
        found += [frame.body.decode() for frame in session.until_quiet()]
        same(found, list(wanted), "what was picked")

    return check


for _name, _selector, _wanted in (
    ("text", "symbol = 'IBM'", ("IBM",)),
    ("text-not-equal", "symbol <> 'IBM'", ("SUN", "AT&T")),
    ("integer", "volume > 100", ("IBM", "SUN")),
    ("integer-by-value", "volume >= 1000", ("SUN",)),
    ("decimal", "price > 99.0", ("IBM", "SUN")),
    ("decimal-header-integer-literal", "price < 100", ("IBM", "AT&T")),
    ("integer-header-decimal-literal", "volume < 700.5", ("IBM", "AT&T")),
    ("integer-equal", "volume = 20", ("AT&T",)),
    ("boolean-literal", "urgent = TRUE", ("IBM", "AT&T")),
    ("boolean-as-text", "urgent = 'true'", ("IBM", "AT&T")),
    ("between", "volume BETWEEN 10 AND 800", ("IBM", "AT&T")),
    ("in", "symbol IN ('IBM', 'AT&T')", ("IBM", "AT&T")),
    ("not-in", "symbol NOT IN ('IBM', 'AT&T')", ("SUN",)),
    ("like", "symbol LIKE '_U%'", ("SUN",)),
    ("like-escape", "remark LIKE '%5!% off' ESCAPE '!'", ("AT&T",)),
    ("is-null", "remark IS NULL", ("IBM", "SUN")),
    ("is-not-null", "remark IS NOT NULL", ("AT&T",)),
    ("and-or-not", "symbol = 'SUN' OR (volume < 800 AND NOT symbol = 'IBM')", ("SUN", "AT&T")),
    ("arithmetic", "price * volume > 50000.0", ("IBM", "SUN")),
    ("absent-header", "nothing = 'x'", ()),
    ("quote-in-literal", "remark = 'it''s 5% off'", ("AT&T",)),
):
    _SELECTOR.add(
        _name, Need.EXTENSION, f"a selector picks messages: {_selector}", _picks(_selector, *_wanted), versions=_HERE
    )


@_SELECTOR.clause(Need.EXTENSION, "a selector that is none is refused by ERROR", versions=_HERE)
def _malformed(stage: Stage) -> str:
    headers = [("id", "0"), ("destination", stage.topic()), ("selector", "volume > > 5")]
    return str(stage.connect().refused("SUBSCRIBE", headers))


@_SELECTOR.clause(Need.EXTENSION, "a selector on a queue leaves other messages to others", versions=_HERE)
def _on_a_queue(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue, "client-individual", [("selector", "colour = 'red'")])
    for colour in ("red", "blue", "red"):
        session.send(queue, colour, [("colour", colour)])
    for _ in range(2):
        frame = session.message()
        same(frame.body, b"red", "the body")
        session.ack(frame)
    session.nothing_comes("a message that was not selected")
    session.disconnect()
    left_in(stage, queue, ["blue"])


@_SELECTOR.clause(Need.EXTENSION, "each subscription to a topic has a selector of its own", versions=_HERE)
def _one_each(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    names = {
        session.subscribe(topic, headers=[("selector", f"colour = '{colour}'")]): colour for colour in ("red", "blue")
    }
    for colour in ("red", "blue"):
        session.send(topic, colour, [("colour", colour)])
    for _ in range(2):
        frame = session.message()
        same(frame.body.decode(), names[needed(frame, "subscription")], "the body")


@_SELECTOR.clause(Need.EXTENSION, "a selector may look at the content of escaped headers", versions=_HERE)
def _escaped(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, headers=[("selector", "path = 'a:b\\c'")])
    session.send(topic, "other", [("path", "a")])
    session.send(topic, "wanted", [("path", "a:b\\c")])
    same(session.message().body, b"wanted", "the body")


def _passes(destination_kind: str, headers: Sequence[tuple[str, str]]) -> Check:
    def check(stage: Stage) -> None:
        session = stage.connect()
        destination = stage.queue() if destination_kind == "queue" else stage.topic()
        session.subscribe(destination)
        session.send(destination, "x", headers)
        frame = session.message()
        same([(name, frame.get(name)) for name, _ in headers], list(headers), "the headers")

    return check


for _header_name, _header_value in (
    ("correlation-id", "request 7/ä"),
    ("reply-to", "/queue/answers"),
    ("priority", "7"),
    ("type", "quote"),
    ("persistent", "true"),
):
    _HEADER.add(
        f"{_header_name}-passes",
        Need.EXTENSION,
        f"{_header_name} of SEND is a header of MESSAGE",
        _passes("queue", [(_header_name, _header_value)]),
        versions=_HERE,
    )


@_HEADER.clause(Need.EXTENSION, "persistent:false is accepted, and the message delivered", versions=_HERE)
def _not_persistent(stage: Stage) -> None:
    session = stage.connect()
    for destination in (stage.topic(), stage.queue()):
        session.subscribe(destination)
        session.send(destination, "x", [("persistent", "false")])
        same(session.message().body, b"x", "the body")


@_HEADER.clause(Need.EXTENSION, "a request is answered at its reply-to, with its correlation-id", versions=_HERE)
def _request_and_reply(stage: Stage) -> None:
    requests, replies = stage.queue(), stage.queue()
    client, service = stage.connect(), stage.connect()
    client.subscribe(replies)
    service.subscribe(requests)
    client.send(requests, "question", [("reply-to", replies), ("correlation-id", "7")])
    request = service.message()
    service.send(needed(request, "reply-to"), "answer", [("correlation-id", needed(request, "correlation-id"))])
    answer = client.message()
    same((answer.body, answer.get("correlation-id")), (b"answer", "7"), "the answer")


def _in(seconds: float) -> Headers:
    return [("expires", str(int((time.time() + seconds) * 1_000)))]


@_HEADER.clause(Need.EXTENSION, "a message that has not expired is delivered, with its expires header", versions=_HERE)
def _not_expired(stage: Stage) -> None:
    session, queue = stage.connect(), stage.queue()
    session.subscribe(queue)
    expires = dict(_in(60))["expires"]
    session.send(queue, "x", [("expires", expires)])
    same(session.message().get("expires"), expires, "expires")


@_HEADER.clause(Need.EXTENSION, "expires:0 means never", versions=_HERE)
def _never_expires(stage: Stage) -> None:
    session, queue = stage.connect(), stage.queue()
    session.send(queue, "x", [("expires", "0")])
    session.subscribe(queue)
    same(session.message().body, b"x", "the body")


@_HEADER.clause(Need.EXTENSION, "a message that expired in a queue is not delivered", versions=_HERE)
def _expired_in_a_queue(stage: Stage) -> None:
    session, queue = stage.connect(), stage.queue()
    session.send(queue, "short", _in(0.7))
    session.send(queue, "long", _in(60))
    # It must grow old in the queue.
    deadline_s = time.monotonic() + 1.2
    session.nothing_comes("delivered without a subscription", deadline_s - time.monotonic())
    session.subscribe(queue)
    same([frame.body for frame in session.until_quiet(0.6)], [b"long"], "what was delivered")


@_HEADER.clause(Need.EXTENSION, "a message that had expired when it was sent is not delivered", versions=_HERE)
def _expired_at_once(stage: Stage) -> str | None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic)
    session.write("SEND", [("destination", topic), ("receipt", "r"), *_in(-5)], b"old")
    frame = session.connection.frame()
    if frame.command == "ERROR":
        return str(frame)
    if frame.command == "MESSAGE":
        raise UnmetError(f"delivered: {frame}")
    session.nothing_comes("delivered")
    return None


@_TOPIC.clause(Need.EXTENSION, "a message on a topic goes to every subscriber", versions=_HERE)
def _to_all(stage: Stage) -> None:
    topic = stage.topic()
    sessions = [stage.connect() for _ in range(5)]
    for session in sessions:
        session.subscribe(topic)
    sessions[0].send(topic, "x")
    for session in sessions:
        same(session.message().body, b"x", "the body")


@_TOPIC.clause(Need.EXTENSION, "who subscribes to a topic later does not get what was sent before", versions=_HERE)
def _not_before(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.send(topic, "early")
    session.subscribe(topic)
    session.nothing_comes("sent before SUBSCRIBE")
    session.send(topic, "late")
    same(session.message().body, b"late", "the body")


@_TOPIC.clause(Need.EXTENSION, "topics are told apart by their whole names", versions=_HERE)
def _told_apart(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic)
    name = topic.removeprefix(stage.target.topic_prefix)
    for other in (f"{topic}x", stage.target.topic_prefix + name.upper(), topic[:-1], f"{topic}.x"):
        session.send(other, "other")
    session.send(topic, "x")
    same(session.message().body, b"x", "the body")


@_TOPIC.clause(Need.EXTENSION, "a topic and a queue of one name are two destinations", versions=_HERE)
def _beside_queues(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    queue = stage.target.queue_prefix + topic.removeprefix(stage.target.topic_prefix)
    session.subscribe(topic)
    session.send(queue, "for the queue")
    session.nothing_comes("a message of the queue came from the topic")
    session.send(topic, "for the topic")
    same(session.message().body, b"for the topic", "the body")
    session.disconnect()
    left_in(stage, queue, ["for the queue"])


@_TOPIC.clause(Need.EXTENSION, "a topic may be read with ack:client-individual", versions=_HERE)
def _acknowledged(stage: Stage) -> None:
    session, topic = stage.connect(), stage.topic()
    session.subscribe(topic, "client-individual")
    for each in range(3):
        session.send(topic, str(each))
        session.ack(session.message())


def _is_refused(destination: str) -> Check:
    def check(stage: Stage) -> str:
        error = stage.connect().refused("SEND", [("destination", destination)], b"x")
        stage.connect().refused("SUBSCRIBE", [("id", "0"), ("destination", destination)])
        return str(error)

    return check


for _name, _destination in (
    ("unknown-prefix", "/nowhere/x"),
    ("exchange", "/exchange/amq.direct/x"),
    ("no-prefix", "just-a-name"),
    ("no-name", "/topic/"),
):
    _TOPIC.add(
        f"{_name}-refused",
        Need.EXTENSION,
        f"the destination {_destination} is refused by ERROR",
        _is_refused(_destination),
        versions=_HERE,
    )


@_QUEUE.clause(Need.EXTENSION, "a message in a queue waits for a consumer", versions=_HERE)
def _waits(stage: Stage) -> None:
    queue = stage.queue()
    sender = stage.connect()
    for each in range(5):
        sender.send(queue, str(each))
    sender.disconnect()
    session = stage.connect()
    session.subscribe(queue)
    same(session.bodies(5), [b"%d" % each for each in range(5)], "the bodies")


@_QUEUE.clause(Need.EXTENSION, "each message of a queue goes to one consumer, and all of them work", versions=_HERE)
def _one_consumer_each(stage: Stage) -> str:
    queue = stage.queue()
    consumers = [stage.connect() for _ in range(3)]
    for consumer in consumers:
        consumer.subscribe(queue, "client-individual")
    sender = stage.connect()
    for each in range(60):
        sender.send(queue, str(each))
    shares = [_all_acknowledged(consumer) for consumer in consumers]
    same(sorted(int(body) for share in shares for body in share), list(range(60)), "what was delivered")
    if not all(shares):
        raise UnmetError(f"shares of {[len(share) for share in shares]}")
    return f"shares of {', '.join(str(len(share)) for share in shares)}"


def _all_acknowledged(session: Session) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        try:
            frame = session.message(0.6)
        except SilentError:
            return bodies
        session.ack(frame)
        bodies.append(frame.body)


@_QUEUE.clause(Need.EXTENSION, "what a consumer that vanished did not acknowledge goes to another one", versions=_HERE)
def _goes_to_others(stage: Stage) -> None:
    queue = stage.queue()
    first = stage.connect()
    first.subscribe(queue, "client-individual")
    for each in range(4):
        first.send(queue, str(each))
    first.bodies(4)
    second = stage.connect()
    second.subscribe(queue, "client-individual")
    first.drop()
    same(sorted(second.bodies(4)), [b"0", b"1", b"2", b"3"], "what the other one gets")


@_QUEUE.clause(Need.EXTENSION, "a message that comes again says redelivered:true", versions=_HERE)
def _redelivered_header(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue, "client")
    session.send(queue, "x")
    first = session.message()
    session.drop()
    session = stage.connect()
    session.subscribe(queue, "client")
    same((first.get("redelivered") or "false", session.message().get("redelivered")), ("false", "true"), "redelivered")


@_QUEUE.clause(Need.EXTENSION, "a message that comes again has the same message-id, headers and body", versions=_HERE)
def _same_again(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue, "client")
    session.send(queue, b"\0x", [("word", "value"), ("content-type", "text/x")])
    first = session.message()
    session.drop()
    session = stage.connect()
    session.subscribe(queue, "client")
    second = session.message()
    for name in ("word", "content-type", "destination"):
        same(second.get(name), first.get(name), name)
    same(second.body, first.body, "the body")
    if (first.get("message-id") or "").rpartition(":")[0] != (second.get("message-id") or "").rpartition(":")[0]:
        raise UnmetError(f"message-id was {first.get('message-id')}, and is {second.get('message-id')}")


def _limited(header: str) -> Check:
    def check(stage: Stage) -> None:
        session, queue = stage.connect(), stage.queue()
        session.subscribe(queue, "client-individual", [(header, "2")])
        for each in range(6):
            session.send(queue, str(each))
        frames = session.until_quiet()
        same(len(frames), 2, "the number of messages without ACK")
        session.ack(frames[0])
        same(len(session.until_quiet()), 1, "the number of messages after one ACK")

    return check


for _header_name in ("activemq.prefetchSize", "prefetch-count"):
    _QUEUE.add(
        _header_name,
        Need.EXTENSION,
        f"{_header_name} bounds how many messages are delivered before they are acknowledged",
        _limited(_header_name),
        versions=_HERE,
    )


@_QUEUE.clause(Need.EXTENSION, "1,000 messages go through a queue with client-individual, in order", versions=_HERE)
def _a_thousand(stage: Stage) -> None:
    queue = stage.queue()
    sender, session = stage.connect(), stage.connect()
    for each in range(999):
        sender.write("SEND", [("destination", queue)], b"%d" % each)
    sender.send(queue, "999")
    session.subscribe(queue, "client-individual")
    for each in range(1_000):
        frame = session.message()
        same(frame.body, b"%d" % each, "the next message")
        session.write("ACK", session.ack_headers(frame))
    session.disconnect()
    left_in(stage, queue, [])


class _Durable:
    """A durable subscription of a topic, as one of the brokers asks for it."""

    def __init__(self, stage: Stage, *, connecting: Headers, subscribing: Headers, name: str) -> None:
        self.stage = stage
        self.topic = stage.topic()
        self._connecting = list(connecting)
        self._subscribing = list(subscribing)
        self._name = name

    def attach(self, more: Headers = ()) -> Session:
        session = self._connect()
        session.subscribe(self.topic, "client-individual", [*self._subscribing, *more], name=self._name)
        return session

    def _connect(self) -> Session:
        deadline_s = time.monotonic() + self.stage.target.patience_s
        while True:
            try:
                return self.stage.connect(headers=self._connecting)
            except UnmetError:
                # The server may not have noticed yet that our last connection is gone.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def forget(self, session: Session) -> None:
        if self._connecting:
            # ActiveMQ forgets a subscription only while nobody is attached to it.
            session.ask("UNSUBSCRIBE", [("id", self._name)])
        session.ask("UNSUBSCRIBE", [("id", self._name), *self._subscribing, *self._connecting])
        session.disconnect()


def _by_activemq(stage: Stage) -> _Durable:
    client = stage.unique("client")
    named = [("activemq.subscriptionName", stage.unique("durable"))]
    return _Durable(stage, connecting=[("client-id", client)], subscribing=named, name="d")


def _by_rabbitmq(stage: Stage) -> _Durable:
    headers = [("durable", "true"), ("auto-delete", "false")]
    return _Durable(stage, connecting=[], subscribing=headers, name=stage.unique("durable"))


def _taken(session: Session, number: int) -> list[bytes]:
    """The bodies of the next messages, which are acknowledged."""
    bodies: list[bytes] = []
    for _ in range(number):
        frame = session.message()
        session.ack(frame)
        bodies.append(frame.body)
    session.nothing_comes("one message too many")
    return bodies


def _kept(durable: _Durable) -> None:
    session, sender = durable.attach(), durable.stage.connect()
    sender.send(durable.topic, "here")
    same(_taken(session, 1), [b"here"], "what came while attached")
    session.disconnect()
    for each in range(3):
        sender.send(durable.topic, f"away {each}")
    session = durable.attach()
    same(_taken(session, 3), [b"away 0", b"away 1", b"away 2"], "what came after the return")
    durable.forget(session)


def _forgotten(durable: _Durable) -> None:
    durable.forget(durable.attach())
    durable.stage.connect().send(durable.topic, "x")
    session = durable.attach()
    session.nothing_comes("kept for a subscription that was ended")
    durable.forget(session)


def _unacknowledged(durable: _Durable) -> None:
    session, sender = durable.attach(), durable.stage.connect()
    for each in range(3):
        sender.send(durable.topic, str(each))
    frames = [session.message() for _ in range(3)]
    session.ack(frames[1])
    session.drop()
    session = durable.attach()
    same(sorted(_taken(session, 2)), [b"0", b"2"], "what came again")
    durable.forget(session)


def _selected(durable: _Durable) -> None:
    only_red = [("selector", "colour = 'red'")]
    durable.attach(only_red).disconnect()
    sender = durable.stage.connect()
    for colour in ("red", "blue", "red"):
        sender.send(durable.topic, colour, [("colour", colour)])
    session = durable.attach(only_red)
    same(_taken(session, 2), [b"red", b"red"], "what came after the return")
    durable.forget(session)


for _made_by, _make, _how in (
    ("activemq", _by_activemq, "by client-id and activemq.subscriptionName"),
    ("rabbitmq", _by_rabbitmq, "by durable:true and auto-delete:false"),
):
    for _name, _text, _try in (
        ("kept", "keeps messages while its client is away", _kept),
        ("forgotten", "ends by UNSUBSCRIBE", _forgotten),
        ("unacknowledged", "gets again what was not acknowledged", _unacknowledged),
        ("selected", "may have a selector", _selected),
    ):
        _DURABLE.add(
            f"{_made_by}-{_name}",
            Need.EXTENSION,
            f"a durable subscription ({_how}) {_text}",
            lambda stage, make=_make, run=_try: run(make(stage)),  # type: ignore[misc]
            versions=_HERE,
        )


@_DURABLE.clause(Need.EXTENSION, "two durable names of one client have their own messages", versions=_HERE)
def _activemq_two_names(stage: Stage) -> None:
    client = [("client-id", stage.unique("client"))]
    topics = stage.topic(), stage.topic()
    session = stage.connect(headers=client)
    for number, topic in enumerate(topics):
        named = [("activemq.subscriptionName", f"name{number}")]
        session.subscribe(topic, "client-individual", named, name=str(number))
        session.send(topic, topic)
    frames = [session.message() for _ in topics]
    found = sorted((needed(frame, "subscription"), frame.body.decode()) for frame in frames)
    same(found, [("0", topics[0]), ("1", topics[1])], "what each of them gets")


@_NACK.clause(Need.EXTENSION, "a message refused again and again becomes a dead letter", versions=_HERE)
def _dead_letter(stage: Stage) -> str:
    if not stage.target.dead_letters:
        raise NotApplicableError("we do not know where dead letters go")
    dead = stage.connect()
    dead.subscribe(stage.target.dead_letters, "client-individual")
    session, queue = stage.connect(), stage.queue()
    session.subscribe(queue, "client-individual")
    body = stage.unique("refused")
    session.send(queue, body, [("word", "value"), ("content-type", "text/x"), ("persistent", "true")])
    refusals = 0
    while refusals < stage.target.deliveries_max:
        try:
            frame = session.message(2.0)
        except SilentError:
            break
        session.ack(frame, command="NACK")
        refusals += 1
    letter = _letter(dead, body)
    same((letter.get("word"), letter.get("content-type")), ("value", "text/x"), "headers of the dead letter")
    return f"after {refusals} NACK: {letter}"


def _letter(dead: Session, body: str) -> ServerFrame:
    deadline_s = time.monotonic() + _DEAD_S
    while (left_s := deadline_s - time.monotonic()) > 0:
        frame = dead.message(left_s)
        if frame.body.decode(errors="replace") == body:
            dead.ack(frame)
            return frame
    raise UnmetError("no dead letter came")


@_NACK.clause(Need.EXTENSION, "a message given back by NACK comes again, to this consumer or another", versions=_HERE)
def _comes_again(stage: Stage) -> None:
    queue = stage.queue()
    session = stage.connect()
    session.subscribe(queue, "client-individual")
    session.send(queue, "x")
    session.ack(session.message(), command="NACK")
    same(session.message().body, b"x", "what comes again")


@_TOPIC.clause(
    Need.EXTENSION, "a subscriber that reads nothing does not keep others from getting messages", versions=_HERE
)
def _slow_subscriber(stage: Stage) -> None:
    topic = stage.topic()
    slow, quick, sender = stage.connect(), stage.connect(), stage.connect()
    slow.subscribe(topic)
    quick.subscribe(topic)
    body = b"x" * 10_000
    for _ in range(300):
        sender.write("SEND", [("destination", topic), ("content-length", "10000")], body)
    same(len(quick.bodies(300)), 300, "the number of messages of the quick one")


@_HEADER.clause(Need.EXTENSION, "headers of the server in SEND do no harm", versions=_HERE)
def _headers_of_the_server(stage: Stage) -> None:
    session, queue = stage.connect(), stage.queue()
    session.subscribe(queue)
    odd = [
        ("timestamp", "soon"),
        ("redelivered", "true"),
        ("expires", "never"),
        ("priority", "very"),
        ("persistent", "x"),
    ]
    for header in odd:
        writer = stage.connect()
        writer.write("SEND", [("destination", queue), header, ("receipt", "r")], b"x")
        frame = writer.connection.frame()
        if frame.command == "ERROR":
            writer.connection.closes()
        else:
            expect(frame, "RECEIPT")
            session.message()


@_HEADER.clause(Need.EXTENSION, "CONNECT with a login that is not known says so before anything else", versions=_HERE)
def _unknown_login(stage: Stage) -> str:
    if not stage.target.login:
        raise NotApplicableError("the server lets everybody in")
    connection = stage.raw()
    connection.send(encode("CONNECT", stage.opening(headers=[("login", "nobody"), ("passcode", "nothing")])))
    how = ended(stage, connection)
    if how.startswith("closed"):
        raise UnmetError(how)
    return how
