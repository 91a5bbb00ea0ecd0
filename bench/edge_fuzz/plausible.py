"""Plays clients and neighbours that say nearly only valid things: they get far into a broker, and then go wrong."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from bench.shapes import PUBENDS, STARTED_MS, any_frame, any_tick
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame

__all__ = ["OVERLAY", "Client", "Neighbour", "Plausible"]

OVERLAY: Final = "fuzz"
_CLIENT_KINDS: Final = (
    f.Subscribe,
    f.Subscribe,
    f.Subscribe,
    f.Unsubscribe,
    f.Acknowledge,
    f.Acknowledge,
    f.Settle,
    f.Settle,
    f.Forget,
    f.ReadRequest,
    f.SurveyRequest,
    f.StatusRequest,
    f.TraceRequest,
    f.Rewound,
    f.Heartbeat,
    f.Moved,
    f.MoveFailed,
    f.Join,
    f.Join,
    f.Verdicts,
)
_LINK_KINDS: Final = (
    f.FilterProbe,
    f.Remembered,
    f.FilterApplied,
    f.Nack,
    f.Nack,
    f.Positions,
    f.Positions,
    f.StreamOpen,
    f.StreamOpened,
    f.StreamTaken,
    f.StreamSettle,
    f.StreamSettle,
    f.StreamSettled,
    f.StreamForget,
    f.StreamForgotten,
    f.CongestionQuery,
    f.CongestionAlert,
    f.LogRequest,
    f.LogSpan,
    f.TraceQuestion,
    f.TraceAnswer,
    f.MechanismMessage,
    f.Heartbeat,
    f.FilterAck,
    f.Carried,
    f.WorkAsk,
    f.WorkAsk,
    f.WorkJoined,
    f.WorkLeave,
    f.WorkVerdicts,
    f.WorkOutcomes,
)


class Plausible:
    """Makes what one peer says; a share of its values is odd."""

    def __init__(self, rng: Random, *, destinations: tuple[str, ...] = ()) -> None:
        """Its messages go to one of these destinations, as STOMP clients know them, if there are any."""
        self._rng = rng
        self._destinations = destinations
        self._odd_share = rng.choice((0.0, 0.0, 0.005, 0.03))
        self.identity = (0, 0)
        """The numbers of publisher and broker in its messages, once it has been welcomed."""
        self._messages = 0

    def opening(self) -> list[f.Frame]:
        """The frames with which it introduces itself."""
        raise NotImplementedError

    def part(self) -> bytes:
        """The bytes of one more frame."""
        raise NotImplementedError

    def _bodies(self) -> list[bytes]:
        bodies = []
        for _ in range(self._rng.choice((1, 1, 2, 5))):
            self._messages += 1
            values = {"x": self._rng.randrange(5), "class": self._rng.choice(("S", ""))}
            if self._destinations:
                values["destination"] = self._rng.choice(self._destinations)
            bodies.append(encode_body(MessageId(*self.identity, STARTED_MS, self._messages), Message(values, b"p")))
        return bodies

    def _control(self, kind: type[Any], **given: object) -> bytes:
        return encode_frame(any_frame(self._rng, kind, odd_share=self._odd_share, **given))


class Client(Plausible):
    """A client that publishes and subscribes."""

    def __init__(self, rng: Random, *, destinations: tuple[str, ...] = ()) -> None:
        super().__init__(rng, destinations=destinations)
        self._publisher = rng.choice((b"", b"publisher", bytes(16)))
        self._sent: Counter[str] = Counter()
        """How many messages it has sent to each pubend."""

    def opening(self) -> list[f.Frame]:
        """Its hello, as a client."""
        name = self._rng.choice(("mallory", "client"))
        return [f.Hello(f.PROTOCOL_VERSION, "client", name, OVERLAY, publisher=self._publisher)]

    def part(self) -> bytes:
        """A batch of messages, or any other frame that clients send."""
        rng = self._rng
        if rng.random() >= 0.4:
            return self._control(rng.choice(_CLIENT_KINDS))
        pubend = rng.choice(("", "b1.a", "b1.log", "b2.a", "b2.log", "nowhere"))
        bodies = [] if rng.random() < 0.2 else self._bodies()
        first = self._sent[pubend] + 1
        self._sent[pubend] += len(bodies)
        if self._publisher and rng.random() < self._odd_share:
            first = rng.choice((0, 2**62, 2**63, 2**64 - 1))
        return encode_frame(f.Publish(first, bodies, pubend))


class Neighbour(Plausible):
    """A broker with a link."""

    def __init__(self, rng: Random, name: str) -> None:
        super().__init__(rng)
        self._name = name
        self._incarnation, self._states, self._updates, self._version = rng.randrange(1, 2**20), 0, 0, 0
        self._tick = any_tick(rng)
        self._round, self._carried = 1, 0
        self.identity = (9, 2)

    def opening(self) -> list[f.Frame]:
        """Its hello, and its links and pubends."""
        hello = f.Hello(f.PROTOCOL_VERSION, "broker", self._name, OVERLAY, self._incarnation)
        return [hello, self._link_state()]

    def part(self) -> bytes:
        """News of filters, links and streams."""
        rng = self._rng
        makers = (
            *(self._update, self._update, self._forward, self._knowledge, self._knowledge),
            *(self._log_answer, self._carry, self._carry, self._settle, self._handed),
        )
        if rng.random() < 0.5:
            return rng.choice(makers)()
        if rng.random() < 0.05:
            return encode_frame(self._link_state())
        kind = rng.choice(_LINK_KINDS)
        given = {"host": self._name} if "host" in kind.__struct_fields__ and rng.random() < 0.5 else {}
        return self._control(kind, **given)

    def _link_state(self) -> f.LinkState:
        self._states += 1
        own = (f"{self._name}.a", f"{self._name}.log")
        neighbours = self._rng.choice((("b1",), ("b1", "b3"), ()))
        return f.LinkState(self._name, self._incarnation, self._states, neighbours, own, own[:1], int(self._name[1:]))

    def _update(self) -> bytes:
        self._updates += 1
        self._version += 1
        given: dict[str, object] = {"sequence": self._updates, "host": self._name, "incarnation": self._incarnation}
        base = self._rng.choice((-1, self._version - 1))
        return self._control(f.FilterUpdate, **given, version=self._version, base=base)

    def _forward(self) -> bytes:
        bodies = self._bodies()
        return encode_frame(f.Forward(f"{self._name}.a", self._ticks(len(bodies)), bodies))

    def _knowledge(self) -> bytes:
        rng, bodies = self._rng, self._bodies() if self._rng.random() < 0.7 else []
        first = self._tick + 1
        ticks = self._ticks(len(bodies))
        self._tick += rng.choice((0, 1 << 16, 1_000 << 16))
        pubend = f"{self._name}.log" if rng.random() < 0.9 else rng.choice(PUBENDS)
        return encode_frame(
            f.KnowledgeMessage(
                pubend,
                min(first, self._tick),
                self._tick,
                ticks,
                bodies,
                kind=rng.choice(list(f.KnowledgeKind)),
                versions=rng.choice(((), (("b1", 1, 0),), (("b1", 1, 1), ("b3", 1, 1)))),
                is_whole=rng.random() < 0.5,
            )
        )

    def _log_answer(self) -> bytes:
        bodies = self._bodies()
        first = self._tick + 1
        ticks = self._ticks(len(bodies))
        number, host = self._rng.randrange(4), self._rng.choice(("b1", "b3"))
        span, is_compacted = (first, self._tick), self._rng.random() < 0.2
        pubend = f"{self._name}.log"
        return encode_frame(f.LogAnswer(pubend, host, number, span, ticks, bodies, is_compacted=is_compacted))

    def _carry(self) -> bytes:
        """Messages of one of its own publishers, or a question; now and then it begins anew, or skips some."""
        rng = self._rng
        if is_first := not self._carried or rng.random() < 0.1:
            self._round += 1
        if rng.random() < self._odd_share:
            self._carried += rng.choice((-1, 1, 2**40))
        bodies = self._bodies() if rng.random() < 0.8 else []
        after = max(self._carried, 0)
        numbers = (self._round, after, after + 1 + (rng.random() < 0.1))
        self._carried += len(bodies)
        pubend, publisher = rng.choice(("b1.log", "b1.log", "b1.a", "b3.a")), rng.choice((b"me", b"me", b""))
        return encode_frame(
            f.Carry(pubend, self._name, publisher, "feed", numbers, bodies, is_first=is_first, asks=rng.random() < 0.3)
        )

    def _handed(self) -> bytes:
        """Messages for a member of a group at the broker, or farther on."""
        rng = self._rng
        bodies = self._bodies()
        member, host = rng.choice((b"me", bytes(16))), rng.choice(("b1", "b3"))
        numbers = (rng.randrange(3), rng.randrange(3), rng.randrange(3), rng.randrange(9))
        attempts = [rng.randrange(1, 4) for _ in bodies]
        ticks = self._ticks(len(bodies))
        return encode_frame(f.Handed(f"{self._name}.log", host, member, numbers, ticks, attempts, bodies))

    def _settle(self) -> bytes:
        """An answer to what was carried here, for a round that may be the present one: rounds begin with the time."""
        rng = self._rng
        given: dict[str, object] = {"pubend": f"{self._name}.log", "host": "b1"}
        if rng.random() < 0.5:
            given["round"] = STARTED_MS + rng.randrange(100)
        return self._control(f.Carried, **given)

    def _ticks(self, count: int) -> list[int]:
        first = self._tick + 1
        self._tick += count
        return list(range(first, first + count))
