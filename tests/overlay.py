"""Brokers joined back to back in memory: no clock but the one that is set, no wire but a function call.

Each test of one side of the protocol thereby tests the other side, too. Time moves only when a test says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from random import Random
from typing import Any

from penstock.balancing.metrics import HostFigures
from penstock.broker import Broker, BrokerSettings, Close, Mechanism, Record
from penstock.broker.effects import Commit, Effect, EndLife, Operate, ReadKept, ReadLog
from penstock.broker.figures import Beside
from penstock.broker.outbox import CONTROL_FRAME_BYTES
from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.status import DurableStatus
from penstock.sim.disk import Disk

WOKEN_MAX = 1_000
"""Wakes without any time passing after which a broker is taken to be stuck."""


@dataclass
class TestClient:
    """A client that says what a test tells it to say, and keeps what it hears."""

    __test__ = False
    overlay: Overlay
    connection: int
    broker: str
    heard: list[f.Frame] = field(default_factory=list)
    closed: Close | None = None
    reads: bool = True
    published: Counter[str] = field(default_factory=Counter)
    """How many messages it has sent to each pubend."""
    ids: MessageIdSource | None = None
    """Of its messages; made by the number that its broker has given it."""

    def say(self, *frames: f.Frame) -> None:
        self.overlay.inject(self.connection, list(frames))

    def subscribe(self, number: int, selector: str, *positions: tuple[str, int], resumes: bool = False) -> None:
        self.say(f.Subscribe(number, selector, positions, resumes))

    def durable(self, number: int, name: str, selector: str = "", **wishes: Any) -> None:
        """Subscribes under a durable name."""
        self.say(f.Subscribe(number, selector, durable=name, **wishes))

    def acknowledge(self, pubend: str, tick: int, number: int = -1) -> None:
        """Has everything of a pubend below a tick."""
        numbers = {name: each for said in self.heard if isinstance(said, f.PubendNames) for each, name in said.names}
        self.say(f.Acknowledge(((numbers[pubend], tick),), number))

    def settle(self, pubend: str, below: int, *ticks: int, number: int = 1) -> None:
        """Has everything of a pubend below a tick, and single messages at or above it."""
        numbers = {name: each for said in self.heard if isinstance(said, f.PubendNames) for each, name in said.names}
        self.say(f.Settle(number, numbers[pubend], below, ticks))

    def settled(self, number: int = 1) -> list[tuple[int, tuple[int, ...]]]:
        """What it was told is kept: positions and single messages."""
        return [
            (each.below, each.ticks) for each in self.heard if isinstance(each, f.Settled) and each.number == number
        ]

    def refusals(self) -> list[tuple[str, int, str]]:
        """What could not be granted: the request, its number and why."""
        return [(each.request, each.number, each.reason) for each in self.heard if isinstance(each, f.Refused)]

    def publish(
        self,
        *messages: Mapping[str, AttributeValue],
        pubend: str = "",
        system: bool = False,
        expires: float | None = None,
    ) -> None:
        make = Message.system if system else Message
        ids = self.source()
        made = [make(each, b"payload", expires=expires) for each in messages]
        bodies = [encode_body(ids.next(self.overlay.now_ms), each) for each in made]
        self.say(f.Publish(self.published[pubend] + 1, bodies, pubend))
        self.published[pubend] += len(bodies)

    def source(self, broker: int = 0) -> MessageIdSource:
        """Its identifiers, by the number that it was given; as if made at another broker, if one is named."""
        if self.ids is None:
            welcome = next(each for each in self.heard if isinstance(each, f.Welcome))
            self.ids = MessageIdSource(welcome.publisher, broker or welcome.broker_number)
        return self.ids

    def all(self, kind: type) -> list[f.Frame]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    def numbers(self) -> list[AttributeValue]:
        """The attribute ``number`` of all messages, in the order in which they came."""
        return [each["number"] for each in self.messages()]

    def start_of(self, pubend: str, number: int = 1) -> int:
        """From which tick on nothing is missing, as it was said last."""
        said = [each for each in self.heard if isinstance(each, f.Subscribed) and each.number == number]
        return dict(said[-1].starts)[pubend]

    def horizon(self) -> int:
        """Everything below this tick has come, as far as it was said for all subscriptions."""
        told = [each.tick for each in self.heard if isinstance(each, f.Horizons) and not each.numbers]
        return max(told, default=0)

    def messages(self) -> list[dict[str, AttributeValue]]:
        return [decode_attributes(body) for each in self.heard if isinstance(each, f.Deliver) for body in each.bodies]


class Publisher:
    """A publisher to one pubend that does what brokers tell it: keeps what is not acknowledged, and sends it again."""

    def __init__(self, overlay: Overlay, broker: str, pubend: str, *, name: str = "feed", identity: bytes = b"me"):
        self._overlay, self._pubend = overlay, pubend
        self._name, self._identity = name, identity
        self._ids: MessageIdSource | None = None
        self.bodies: list[bytes] = []
        """All that were not refused: the place of each is its number, from 1 on."""
        self.sent = self.acknowledged = 0
        """The numbers of the last message that was sent, and of the last one that was acknowledged."""
        self.credit_bytes = self.window_bytes = self.full_bytes = 0
        self.reasons: list[str] = []
        self.rewinds: list[f.Rewind] = []
        self._refused: dict[int, str] = {}
        self.refusals: list[str] = []
        self.connect(broker)

    def connect(self, broker: str) -> None:
        """Goes to a broker, with all that is not acknowledged."""
        self.client = self._overlay.client(broker, self._name, publisher=self._identity)
        self._heard = 0
        self.sent = self.acknowledged
        self.window_bytes = 0
        (welcome,) = (each for each in self.client.heard if isinstance(each, f.Welcome))
        is_near = self._pubend in welcome.pubends
        full_bytes = welcome.credit_bytes if is_near else f.carried_credit(welcome.credit_bytes)
        self.credit_bytes = self.full_bytes = full_bytes
        if self._ids is None:
            self._ids = MessageIdSource(welcome.publisher, welcome.broker_number)
        self.go_on()

    def publish(self, *numbers: int, size: int = 0, is_sent: bool = True) -> None:
        """Publishes messages with these numbers as attributes, each at least of a size; or keeps them for later."""
        assert self._ids is not None
        for number in numbers:
            message = Message({"number": number}, bytes(size))
            self.bodies.append(encode_body(self._ids.next(self._overlay.now_ms), message))
        if is_sent:
            self.go_on()

    def go_on(self) -> None:
        """Hears all that was said, and sends what there is credit for."""
        while self._heard < len(self.client.heard) or self._send():
            for frame in self.client.heard[self._heard :]:
                self._heard += 1
                self._hear(frame)

    def ask(self) -> None:
        """Wants an acknowledgement as soon as everything is settled."""
        self.client.say(f.Publish(self.sent + 1, [], self._pubend))
        self.go_on()

    def _send(self) -> bool:
        waiting = self.bodies[self.acknowledged : self.sent]
        room = min(self.credit_bytes, self.window_bytes - sum(map(len, waiting)) if self.window_bytes else 2**40)
        batch: list[bytes] = []
        # A message that is larger than the window goes alone.
        may_be_larger = not waiting and (self.credit_bytes >= self.full_bytes or 0 < self.window_bytes <= room)
        for body in self.bodies[self.sent :]:
            if sum(map(len, batch)) + len(body) > room and (batch or not may_be_larger):
                break
            batch.append(body)
        if not batch or self.client.closed is not None:
            return False
        self.credit_bytes -= sum(map(len, batch))
        first = self.sent + 1
        self.sent += len(batch)
        self.client.say(f.Publish(first, batch, self._pubend))
        return True

    def _hear(self, frame: f.Frame) -> None:
        match frame:
            case f.PublishAck(sequence, credit_bytes, self._pubend):
                assert self.acknowledged <= sequence <= self.sent, f"{sequence} is acknowledged of {self.sent}"
                self.acknowledged = sequence
                self.credit_bytes += credit_bytes
            case f.HeldBack(reason, window_bytes, self._pubend):
                self.reasons.append(reason)
                self.window_bytes = window_bytes
            case f.Refused("publish", number, reason, count, self._pubend):
                self._refused |= dict.fromkeys(range(number, number + count), reason)
            case f.Rewind(number, answer_to, self._pubend):
                self._rewind(frame)
                self.client.say(f.Rewound(answer_to, self._pubend))
            case _:
                pass

    def _rewind(self, frame: f.Rewind) -> None:
        assert self.acknowledged < frame.number <= self.sent + 1
        self.rewinds.append(frame)
        self.credit_bytes += sum(map(len, self.bodies[frame.number - 1 : self.sent]))
        if frame.credit_bytes >= 0:
            self.credit_bytes = frame.credit_bytes
        self.bodies = [body for number, body in enumerate(self.bodies, start=1) if number not in self._refused]
        self.refusals += self._refused.values()
        self._refused = {}
        self.sent = frame.number - 1


class Overlay:
    """Brokers, their links and their clients; ``settle`` lets everything be said that has to be said."""

    def __init__(
        self,
        *settings: BrokerSettings,
        mechanisms: dict[str, list[Mechanism]] | None = None,
        beside: Beside | None = None,
    ) -> None:
        self.now_ms = 1_000_000
        self._beside = beside
        self.brokers: dict[str, Broker] = {}
        self.records: list[Record] = []
        self.loses: type | None = None
        """Frames of this kind get lost on links; but not those that say versions, since a connection loses nothing by
        itself: in truth the sender drops them, and knows."""
        self.clogged: set[tuple[str, str]] = set()
        """Directions of links, from and to, in which data waits while control frames pass."""
        self.delayed: set[tuple[str, str]] = set()
        """Directions of links, from and to, in which everything waits."""
        self.disks: dict[str, Disk] = {}
        self.syncs = True
        """Whether disks do what they are told at once; else commits and reads wait for ``sync``."""
        self._waiting: list[tuple[str, Commit | ReadKept | ReadLog]] = []
        self._numbers = count(1)
        self._ends: dict[int, tuple[str, int]] = {}
        self._links: dict[tuple[str, str], tuple[int, int]] = {}
        self.clients: dict[int, TestClient] = {}
        self.settings = {each.name: each for each in settings}
        for each in settings:
            self.start(each.name, (mechanisms or {}).get(each.name, []))

    def start(self, name: str, mechanisms: list[Mechanism] | None = None) -> Broker:
        disk = self.disks.setdefault(name, Disk())
        self._waiting = [each for each in self._waiting if each[0] != name]
        self.brokers[name] = Broker(
            self.settings[name],
            incarnation=self.now_ms,
            rng=Random(1),
            mechanisms=mechanisms or [],
            recovered=disk.recovered(),
            beside=self._beside,
        )
        return self.brokers[name]

    def sync(self) -> None:
        """Lets disks do all that waits for them."""
        while self._waiting:
            self._store(*self._waiting.pop(0))

    def link(self, first: str, second: str) -> None:
        one, other = next(self._numbers), next(self._numbers)
        self._ends[one], self._ends[other] = (second, other), (first, one)
        self._links[first, second] = (one, other)
        self._act(second, self.brokers[second].connect(other, now_ms=self.now_ms))
        self._act(first, self.brokers[first].connect(one, now_ms=self.now_ms, dialled=second))

    def cut(self, first: str, second: str) -> None:
        one, other = self._links.pop((first, second))
        self._act(first, self.brokers[first].disconnect(one, now_ms=self.now_ms))
        self._act(second, self.brokers[second].disconnect(other, now_ms=self.now_ms))

    def clog(self, first: str, second: str) -> None:
        """Data from the one to the other waits until ``unclog``."""
        self.clogged.add((first, second))

    def unclog(self, first: str, second: str) -> None:
        self.clogged.discard((first, second))
        if first in self.brokers and (peer := self.brokers[first]._connections.links.get(second)) is not None:
            self._carry(first, peer.connection)

    def delay(self, first: str, second: str) -> None:
        """Everything from the one to the other waits until ``undelay``."""
        self.delayed.add((first, second))

    def undelay(self, first: str, second: str) -> None:
        self.delayed.discard((first, second))
        self.unclog(first, second)

    def durables(self, pubend: str) -> dict[str, DurableStatus]:
        """The durable subscriptions that a pubend knows, by name; pubends are called after their brokers."""
        return self.brokers[pubend.partition(".")[0]].status().guaranteed.pubends[pubend].durables

    def crash(self, name: str) -> None:
        del self.brokers[name]
        self._waiting = [each for each in self._waiting if each[0] != name]
        for first, second in [pair for pair in self._links if name in pair]:
            one, other = self._links.pop((first, second))
            survivor, connection = (second, other) if first == name else (first, one)
            self._act(survivor, self.brokers[survivor].disconnect(connection, now_ms=self.now_ms))

    def client(
        self, broker: str, name: str = "somebody", token: str = "", overlay: str = "", publisher: bytes = b""
    ) -> TestClient:
        client = self.stranger(broker)
        client.say(f.Hello(f.PROTOCOL_VERSION, "client", name, overlay, credential=token, publisher=publisher))
        return client

    def stranger(self, broker: str, *, is_movable: bool = True) -> TestClient:
        connection = next(self._numbers)
        client = self.clients[connection] = TestClient(self, connection, broker)
        self._act(broker, self.brokers[broker].connect(connection, now_ms=self.now_ms, is_movable=is_movable))
        return client

    def leave(self, client: TestClient) -> None:
        self._act(client.broker, self.brokers[client.broker].disconnect(client.connection, now_ms=self.now_ms))

    def inject(self, connection: int, frames: list[f.Frame]) -> None:
        broker = self.clients[connection].broker
        self._act(broker, self.brokers[broker].receive(connection, _over_the_wire(frames), now_ms=self.now_ms))

    def lie(self, broker: str, neighbour: str, *frames: f.Frame) -> None:
        """A broker hears from a neighbour what that one, if it were honest, would not have said."""
        connection = self.brokers[broker]._connections.links[neighbour].connection
        said = _over_the_wire(list(frames))
        self._act(broker, self.brokers[broker].receive(connection, said, now_ms=self.now_ms))

    def measure(self, name: str, figures: HostFigures) -> None:
        """Has a broker told what its machine is like."""
        self._act(name, self.brokers[name].measured(figures, now_ms=self.now_ms))

    def wait(self, milliseconds: int) -> None:
        """Lets time pass, with every deadline in its turn."""
        end_ms, woken = self.now_ms + milliseconds, 0
        while True:
            due = [(each.next_deadline(), name) for name, each in self.brokers.items()]
            pending = sorted((due_ms, name) for due_ms, name in due if due_ms is not None and due_ms <= end_ms)
            if not pending:
                break
            due_ms, name = pending[0]
            woken = woken + 1 if due_ms <= self.now_ms else 0
            assert woken < WOKEN_MAX, f"broker {name} wants to be woken at {due_ms} for ever"
            self.now_ms = max(self.now_ms, due_ms)
            self._act(name, self.brokers[name].on_deadline(now_ms=self.now_ms))
        self.now_ms = end_ms

    def run(self, milliseconds: int, *publishers: Publisher, every_ms: int = 10) -> None:
        """Lets time pass while publishers hear and send."""
        for _ in range(milliseconds // every_ms):
            self.wait(every_ms)
            for each in publishers:
                each.go_on()

    def logged(self, pubend: str) -> list[AttributeValue]:
        """The attribute ``number`` of all messages in the log of a pubend, which is called after its broker."""
        disk = self.disks[pubend.partition(".")[0]]
        found, _, _ = disk.read(pubend, 1_000_000 << 16, 2**62, 2**40)
        return [decode_attributes(body)["number"] for _, body in found]

    def links(self) -> list[tuple[str, str]]:
        return list(self._links)

    def check_invariants(self) -> None:
        for broker in self.brokers.values():
            broker.check_invariants()

    def _act(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                self.records.append(effect)
                continue
            if isinstance(effect, Commit | ReadKept | ReadLog):
                # Each disk keeps the order of commits.
                if self.syncs and not (isinstance(effect, Commit) and self._has_commits(name)):
                    self._store(name, effect)
                else:
                    self._waiting.append((name, effect))
                continue
            if isinstance(effect, Operate):
                self._act(name, self.brokers[name].operated(effect.fence, now_ms=self.now_ms))
                continue
            assert not isinstance(effect, EndLife), f"{name}: {effect.reason}"
            self._carry(name, effect.connection)
            if isinstance(effect, Close):
                self._close(effect)

    def _has_commits(self, name: str) -> bool:
        return any(waiting == name and isinstance(effect, Commit) for waiting, effect in self._waiting)

    def _store(self, name: str, effect: Commit | ReadKept | ReadLog) -> None:
        disk, broker = self.disks[name], self.brokers[name]
        if isinstance(effect, Commit):
            disk.apply(effect.changes)
            self._act(name, broker.committed(effect.number, now_ms=self.now_ms))
        elif isinstance(effect, ReadKept):
            kept = disk.read_kept(effect.names)
            self._act(name, broker.kept_read(effect.number, kept, now_ms=self.now_ms))
        else:
            found, last, damaged = disk.read(effect.pubend, effect.first, effect.last, effect.bytes_max)
            self._act(name, broker.log_read(effect.number, found, last, now_ms=self.now_ms, damaged=damaged))

    def _carry(self, name: str, connection: int) -> None:
        client = self.clients.get(connection)
        if client is not None and not client.reads:
            return
        if connection in self._ends and (name, self._ends[connection][0]) in self.delayed:
            return
        while name in self.brokers and (frames := self._taken(name, connection)):
            if client is not None:
                client.heard += _over_the_wire(frames)
                continue
            other, end = self._ends[connection]
            if self.loses is not None:
                frames = [each for each in frames if not self._is_lost(each)]
            if other in self.brokers:
                effects = self.brokers[other].receive(end, _over_the_wire(frames), now_ms=self.now_ms)
                self._act(other, effects)

    def _taken(self, name: str, connection: int) -> list[f.Frame]:
        outbox = self.brokers[name].outbox(connection)
        if connection in self._ends and (name, self._ends[connection][0]) in self.clogged:
            return outbox.take(CONTROL_FRAME_BYTES * len(outbox._control))
        return outbox.take(1_000_000)

    def _is_lost(self, frame: f.Frame) -> bool:
        if self.loses is None or not isinstance(frame, self.loses):
            return False
        return not (isinstance(frame, f.KnowledgeMessage) and (frame.versions or frame.is_whole))

    def _close(self, effect: Close) -> None:
        if effect.connection in self.clients:
            self.clients[effect.connection].closed = effect
            return
        other, end = self._ends[effect.connection]
        self._links = {pair: ends for pair, ends in self._links.items() if effect.connection not in ends}
        if other in self.brokers:
            self._act(other, self.brokers[other].disconnect(end, now_ms=self.now_ms))


def _over_the_wire(frames: list[f.Frame]) -> list[f.Frame]:
    return list(FrameReader().feed(b"".join(map(encode_frame, frames))))


def chain(*names: str, **settings: Any) -> Overlay:
    """Brokers in a row; the first one hosts publishers."""
    overlay = Overlay(*(_settings(names, place, ring=False, **settings) for place in range(len(names))))
    for first, second in pairwise(names):
        overlay.link(first, second)
    return overlay


def ring(*names: str, **settings: Any) -> Overlay:
    """Brokers in a circle; the first one hosts publishers."""
    overlay = Overlay(*(_settings(names, place, ring=True, **settings) for place in range(len(names))))
    for first, second in zip(names, (*names[1:], names[0]), strict=True):
        overlay.link(first, second)
    return overlay


def star(*names: str, pubends: tuple[str, ...], **settings: Any) -> Overlay:
    """Brokers around one called ``hub``; those that are named host a guaranteed pubend each."""
    hub = BrokerSettings(name="hub", number=1, neighbours=names, **settings)
    rays = [
        BrokerSettings(
            name=name,
            number=number,
            pubends=(f"{name}.a",) if name in pubends else (),
            neighbours=("hub",),
            **settings,
        )
        for number, name in enumerate(names, start=2)
    ]
    overlay = Overlay(hub, *rays)
    for name in names:
        overlay.link("hub", name)
    return overlay


def _settings(
    names: tuple[str, ...],
    place: int,
    *,
    ring: bool,
    guaranteed: bool = False,
    pubends: tuple[str, ...] = (),
    **settings: object,
) -> BrokerSettings:
    last = len(names) - 1
    pubends = (pubends or (f"{names[0]}.a",)) if place == 0 else ()
    around = [place - 1, place + 1] if not ring else [(place - 1) % len(names), (place + 1) % len(names)]
    return BrokerSettings(
        name=names[place],
        number=place + 1,
        pubends=pubends,
        best_effort=() if guaranteed else pubends,
        neighbours=tuple(names[each] for each in around if 0 <= each <= last),
        **settings,  # type: ignore[arg-type]
    )
