"""Whatever happens on the way, every subscriber gets what it is owed, once and in order: chance draws the harms.

The oracle is the pubend's disk: what a subscriber must have is what lies in the log from its start on and matches. The
publisher repeats what was not acknowledged, the subscribers come back with the positions they were told. Durable ones
come back anywhere with nothing but their names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlay import Overlay, TestClient, chain, ring
from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f

PATIENT_MS = 10_000_000
"""Nobody is taken for dead: the clients here say nothing of themselves."""
HEAL_MS = 30_000
SELECTORS = ("", "kind = 0", "kind = 1", "kind > 0", "number > 3")


def wants(selector: str, message: dict[str, AttributeValue]) -> bool:
    kind, number = message["kind"], message["number"]
    assert isinstance(kind, int)
    assert isinstance(number, int)
    match selector:
        case "kind = 0" | "kind = 1":
            return kind == int(selector[-1])
        case "kind > 0":
            return kind > 0
        case "number > 3":
            return number > 3
        case _:
            return True


@dataclass
class Subscriber:
    """A client that comes back with its positions, as the real one does."""

    broker: str
    selector: str
    client: TestClient | None = None
    read: int = 0
    position: int | None = None
    start: int | None = None
    got: list[tuple[int, AttributeValue]] = field(default_factory=list)

    def connect(self, overlay: Overlay) -> None:
        self.client, self.read = overlay.client(self.broker), 0
        positions = [] if self.position is None else [("pb.a", self.position)]
        self.client.subscribe(1, self.selector, *positions, resumes=self.position is not None)

    def listen(self) -> None:
        """Takes in what has come, also by a connection that has ended since."""
        assert self.client is not None
        frames, self.read = self.client.heard[self.read :], len(self.client.heard)
        for frame in frames:
            match frame:
                case f.Subscribed(starts=starts) if starts and self.position is None:
                    self.start = self.position = dict(starts)["pb.a"]
                case f.Deliver():
                    for tick, body in zip(frame.ticks, frame.bodies, strict=True):
                        self.got.append((tick, decode_attributes(body)["number"]))
                        self.position = max(self.position or 0, tick + 1)
                case f.Horizons() if self.position is not None and (bool(frame.numbers) == frame.is_only):
                    self.position = max(self.position, frame.tick)
                case _:
                    pass


@dataclass
class DurableSubscriber:
    """A client that vanishes, and comes back at any broker with its name and without positions."""

    name: str
    selector: str
    client: TestClient | None = None
    read: int = 0
    start: int | None = None
    """Where this life began."""
    reached: int = 0
    """Everything below it has come in this life."""
    acknowledged: int | None = None
    """What it has acknowledged in all its lives."""
    known: int = 0
    """Where the pubend's disk says it is, when it came back."""
    got: list[tuple[int, AttributeValue]] = field(default_factory=list)

    def connect(self, overlay: Overlay, broker: str) -> None:
        value = overlay.disks["pb"].recovered().values.get(f"durable/pb.a/{self.name}")
        self.known = 0 if value is None else msgspec.msgpack.decode(value)[0]
        self.client, self.read, self.start, self.reached, self.got = overlay.client(broker), 0, None, 0, []
        self.client.durable(1, self.name, self.selector)

    def vanish(self, overlay: Overlay) -> None:
        if self.client is not None and self.client.broker in overlay.brokers:
            overlay.leave(self.client)
        self.client = None

    def listen(self) -> None:
        if self.client is None:
            return
        frames, self.read = self.client.heard[self.read :], len(self.client.heard)
        for frame in frames:
            match frame:
                case f.Subscribed(starts=starts) if starts and self.start is None:
                    self.start = self.reached = dict(starts)["pb.a"]
                    self.check_start()
                case f.Deliver():
                    for tick, body in zip(frame.ticks, frame.bodies, strict=True):
                        self.got.append((tick, decode_attributes(body)["number"]))
                        self.reached = tick + 1
                case f.Horizons() if self.start is not None and (bool(frame.numbers) == frame.is_only):
                    self.reached = max(self.reached, frame.tick)
                case f.Refused():
                    raise AssertionError(f"{self.name} at {self.client.broker} was refused: {frame.reason}")
                case _:
                    pass

    def check_start(self) -> None:
        assert self.start is not None
        assert self.start >= self.known, "nothing comes again of which the pubend knows that it was acknowledged"
        assert self.acknowledged is None or self.start <= self.acknowledged, "nothing is left out"

    def acknowledge(self, overlay: Overlay) -> None:
        if self.client is not None and self.start is not None and self.client.broker in overlay.brokers:
            self.client.acknowledge("pb.a", self.reached, 1)
            self.acknowledged = max(self.acknowledged or 0, self.reached)

    def check(self, log: list[tuple[int, dict[str, AttributeValue]]], *, is_over: bool = False) -> None:
        """What has come in this life is what lies in the log from its start on; all of it, if it is over."""
        owed = [
            (tick, message["number"])
            for tick, message in log
            if self.start is not None and tick >= self.start and wants(self.selector, message)
        ]
        assert self.got == (owed if is_over else owed[: len(self.got)]), f"{self.name} of {self.selector!r}"


class Story:
    """An overlay with a publisher and subscribers, to which things happen."""

    def __init__(self, overlay: Overlay, hosts: list[str]) -> None:
        self.overlay = overlay
        self.wires = overlay.links()
        self.subscribers = [
            Subscriber(host, SELECTORS[place % len(SELECTORS)]) for place, host in enumerate(hosts, start=1)
        ]
        self.durables = [DurableSubscriber("D", ""), DurableSubscriber("E", "kind > 0")]
        self.sent: list[dict[str, AttributeValue]] = []
        self.acknowledged = 0
        for each in self.subscribers:
            each.connect(overlay)
        self.publisher = overlay.client("pb", publisher=b"me")

    def happen(self, what: str, number: int) -> None:  # noqa: C901
        overlay = self.overlay
        if what == "publish":
            self.publish(number % 3 + 1, number)
        elif what == "wait":
            overlay.wait([5, 60, 400, 1_100, 2_500][number % 5])
        elif what == "lose":
            overlay.loses = f.KnowledgeMessage if overlay.loses is None else None
        elif what == "hold":
            overlay.syncs = False
        elif what == "sync":
            overlay.syncs = True
            overlay.sync()
        elif what == "clog":
            overlay.clog(*self.direction(number))
        elif what == "unclog":
            overlay.unclog(*self.direction(number))
        elif what == "cut" and self.wires[number % len(self.wires)] in overlay.links():
            overlay.cut(*self.wires[number % len(self.wires)])
        elif what == "link":
            self.link(*self.wires[number % len(self.wires)])
        elif what == "crash" and len(overlay.brokers) > 1:
            self.crash(sorted(overlay.brokers)[number % len(overlay.brokers)])
        elif what == "start":
            self.start()
        elif what == "reconnect":
            self.reconnect(self.subscribers[number % len(self.subscribers)])
        elif what in {"vanish", "return", "acknowledge"}:
            self.happen_to(self.durables[number % 2], what, number // 2)
        self.listen()
        self.hear_acknowledgements()
        overlay.check_invariants()

    def listen(self) -> None:
        for each in self.subscribers:
            each.listen()
        for durable in self.durables:
            durable.listen()

    def happen_to(self, durable: DurableSubscriber, what: str, number: int) -> None:
        durable.check(self.log())
        if what == "acknowledge":
            durable.acknowledge(self.overlay)
        elif what == "vanish":
            durable.vanish(self.overlay)
        else:
            # Who has begun, and has not vanished, is taken over from; a claim that is on its way might come later.
            if durable.start is None:
                durable.vanish(self.overlay)
            durable.connect(self.overlay, sorted(self.overlay.brokers)[number % len(self.overlay.brokers)])

    def log(self) -> list[tuple[int, dict[str, AttributeValue]]]:
        """What is durable at the pubend."""
        found, _, damaged = self.overlay.disks["pb"].read("pb.a", 1_000_000 << 16, 2**62, 2**40)
        assert damaged is None
        return [(tick, decode_attributes(body)) for tick, body in found]

    def publish(self, count: int, kind: int) -> None:
        messages: list[dict[str, AttributeValue]] = [
            {"number": len(self.sent) + place, "kind": (kind + place) % 3} for place in range(count)
        ]
        self.sent += messages
        if "pb" in self.overlay.brokers:
            self.publisher.publish(*messages)

    def hear_acknowledgements(self) -> None:
        for frame in self.publisher.heard:
            if isinstance(frame, f.PublishAck):
                self.acknowledged = max(self.acknowledged, frame.sequence)

    def direction(self, number: int) -> tuple[str, str]:
        first, second = self.wires[number // 2 % len(self.wires)]
        return (first, second) if number % 2 else (second, first)

    def link(self, first: str, second: str) -> None:
        brokers = self.overlay.brokers
        if first in brokers and second in brokers and (first, second) not in self.overlay.links():
            self.overlay.link(first, second)

    def crash(self, name: str) -> None:
        self.hear_acknowledgements()
        self.overlay.crash(name)

    def start(self) -> None:
        overlay = self.overlay
        missing = [name for name in overlay.settings if name not in overlay.brokers]
        overlay.wait(1)
        for name in missing:
            overlay.start(name)
        for wire in self.wires:
            self.link(*wire)
        for each in self.subscribers:
            if each.broker in missing:
                each.connect(overlay)
        if "pb" in missing:
            self.publisher = overlay.client("pb", publisher=b"me")
            self.publisher.published[""] = self.acknowledged
            if repeated := self.sent[self.acknowledged :]:
                self.publisher.publish(*repeated)

    def reconnect(self, subscriber: Subscriber) -> None:
        if subscriber.broker in self.overlay.brokers:
            assert subscriber.client is not None
            self.overlay.leave(subscriber.client)
            subscriber.connect(self.overlay)

    def heal(self) -> None:
        self.overlay.loses = None
        self.happen("start", 0)
        for number in range(2 * len(self.wires)):
            self.happen("unclog", number)
        for number in range(len(self.wires)):
            self.happen("link", number)
        self.happen("sync", 0)
        for each in self.durables:
            if each.client is None or each.client.connection not in self.connections():
                each.connect(self.overlay, "sb")
        self.publish(2, 0)
        self.overlay.wait(HEAL_MS)
        self.happen("sync", 0)

    def connections(self) -> set[int]:
        return {each for broker in self.overlay.brokers.values() for each in broker._connections.peers}

    def check(self) -> None:
        log = self.log()
        assert [message["number"] for _, message in log] == list(range(len(self.sent))), "each is in the log once"
        assert self.acknowledged == len(self.sent), "everything is acknowledged"
        for each in self.subscribers:
            assert each.start is not None, "every subscription has begun"
            owed = [
                (tick, message["number"])
                for tick, message in log
                if tick >= each.start and wants(each.selector, message)
            ]
            assert each.got == owed, f"subscriber of {each.selector!r} at {each.broker}"
        for durable in self.durables:
            assert durable.start is not None, "every durable subscription has begun"
            durable.check(log, is_over=True)


HARMS = ("publish", "publish", "wait", "wait", "lose", "hold", "sync", "clog", "unclog", "cut", "link", "reconnect")
ABSENCES = ("vanish", "return", "return", "acknowledge", "acknowledge")
stories = st.lists(st.tuples(st.sampled_from((*HARMS, *ABSENCES, "crash", "start")), st.integers(0, 59)), max_size=30)
calm = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def tell(overlay: Overlay, hosts: list[str], happenings: list[tuple[str, int]]) -> None:
    story = Story(overlay, hosts)
    for what, number in happenings:
        story.happen(what, number)
    story.heal()
    story.check()


@calm
@given(stories)
def test_in_a_chain_every_subscriber_gets_what_it_is_owed(happenings: list[tuple[str, int]]) -> None:
    tell(chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS), ["sb", "sb", "ib", "pb"], happenings)


@calm
@given(stories)
def test_in_a_ring_every_subscriber_gets_what_it_is_owed(happenings: list[tuple[str, int]]) -> None:
    tell(ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS), ["sb", "sb", "ab", "cb"], happenings)


@calm
@given(stories)
def test_with_tiny_bounds_every_subscriber_gets_what_it_is_owed(happenings: list[tuple[str, int]]) -> None:
    overlay = chain(
        "pb",
        "ib",
        "sb",
        guaranteed=True,
        silent_ms=PATIENT_MS,
        link_outbox_bytes=1_500,
        client_outbox_bytes=200_000,
        cache_bytes=1_000,
        receive_window_bytes=300,
        receive_window_ms=300,
        catch_ups_max=1,
    )
    tell(overlay, ["sb", "sb", "ib", "sb"], happenings)
