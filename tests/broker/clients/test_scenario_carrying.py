"""Whatever happens to doors, links and homes: what roaming publishers publish is stored once, in order, and settled."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlay import Overlay, Publisher, chain, ring
from penstock.protocol import frames as f
from strategies import tries

PATIENT_MS = 10_000_000
HEAL_MS = 40_000
HARMS = ("publish", "publish", "publish", "run", "run", "lose", "hold", "sync", "clog", "unclog", "cut", "link", "roam")
CRASHES = ("crash", "start", "start")
stories = st.lists(st.tuples(st.sampled_from((*HARMS, *CRASHES)), st.integers(0, 59)), max_size=30)
calm = settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Story:
    """Two publishers that go from door to door while harm is done."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.wires = overlay.links()
        self.names = list(overlay.settings)
        overlay.wait(1_000)
        self.publishers = [
            Publisher(overlay, self.names[-1], "pb.a", identity=b"me"),
            Publisher(overlay, self.names[1], "pb.a", identity=b"you"),
        ]
        self.counts = [0, 0]

    def happen(self, what: str, number: int) -> None:
        wire = self.wires[number // 2 % len(self.wires)]
        match what:
            case "publish":
                self.publish(number % 2, 1 + number // 10)
            case "run":
                self.overlay.run((10, 200, 1_500, 4_000)[number % 4], *self.connected())
            case "roam":
                self.roam(self.publishers[number % 2], self.names[number // 2 % len(self.names)])
            case "crash":
                self.crash(self.names[number % len(self.names)])
            case "start":
                self.start()
            case "cut" | "link":
                self.change(wire, is_up=what == "link")
            case _:
                self.impede(what, number, wire if number % 2 else (wire[1], wire[0]))
        self.overlay.check_invariants()

    def change(self, wire: tuple[str, str], *, is_up: bool) -> None:
        if is_up:
            self.link(*wire)
        elif wire in self.overlay.links():
            self.overlay.cut(*wire)

    def impede(self, what: str, number: int, direction: tuple[str, str]) -> None:
        """Makes frames get lost, disks stand still or data wait, or lets them go on."""
        match what:
            case "lose":
                self.overlay.loses = (None, f.Carry, f.Carried)[number % 3]
            case "hold":
                self.overlay.syncs = False
            case "sync":
                self.overlay.syncs = True
                self.overlay.sync()
            case "clog":
                self.overlay.clog(*direction)
            case "unclog":
                self.overlay.unclog(*direction)

    def publish(self, who: int, count: int) -> None:
        base = 1_000_000 * who + self.counts[who]
        self.counts[who] += count
        publisher = self.publishers[who]
        is_connected = publisher in self.connected()
        publisher.publish(*range(base, base + count), is_sent=is_connected)

    def connected(self) -> list[Publisher]:
        brokers = self.overlay.brokers
        return [
            each
            for each in self.publishers
            if each.client.broker in brokers
            and each.client.connection in brokers[each.client.broker]._connections.peers
        ]

    def roam(self, publisher: Publisher, broker: str) -> None:
        if publisher in self.connected():
            publisher.go_on()
            self.overlay.leave(publisher.client)
        if broker in self.overlay.brokers:
            publisher.connect(broker)

    def link(self, first: str, second: str) -> None:
        brokers = self.overlay.brokers
        if first in brokers and second in brokers and (first, second) not in self.overlay.links():
            self.overlay.link(first, second)

    def crash(self, name: str) -> None:
        if name in self.overlay.brokers:
            for each in self.connected():
                each.go_on()
            self.overlay.crash(name)

    def start(self) -> None:
        self.overlay.wait(1)
        for name in self.names:
            if name not in self.overlay.brokers:
                self.overlay.start(name)
        for wire in self.wires:
            self.link(*wire)

    def heal(self) -> None:
        overlay = self.overlay
        overlay.loses = None
        self.start()
        for pair in list(overlay.clogged):
            overlay.unclog(*pair)
        self.happen("sync", 0)
        for publisher in self.publishers:
            if publisher not in self.connected():
                publisher.connect(self.names[-1])
        overlay.run(HEAL_MS, *self.publishers, every_ms=50)

    def check(self) -> None:
        logged = [each for each in self.overlay.logged("pb.a") if isinstance(each, int)]
        for who, publisher in enumerate(self.publishers):
            base = 1_000_000 * who
            mine = [each - base for each in logged if base <= each < base + 1_000_000]
            assert mine == list(range(self.counts[who])), "each is in the log once, and in order"
            assert publisher.acknowledged == self.counts[who], "everything is acknowledged"
            assert publisher.credit_bytes == publisher.full_bytes, "all credit has come back"
            assert publisher.refusals == []


def tell(overlay: Overlay, happenings: list[tuple[str, int]]) -> None:
    story = Story(overlay)
    for what, number in happenings:
        story.happen(what, number)
    story.heal()
    story.check()


@calm
@given(stories)
def test_in_a_chain_everything_is_stored_once_and_in_order(happenings: list[tuple[str, int]]) -> None:
    tell(chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS), happenings)


@calm
@given(stories)
def test_in_a_ring_everything_is_stored_once_and_in_order(happenings: list[tuple[str, int]]) -> None:
    tell(ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS), happenings)


@calm
@given(stories)
def test_with_tiny_bounds_everything_is_stored_once_and_in_order(happenings: list[tuple[str, int]]) -> None:
    bounds = {"link_outbox_bytes": 1_500, "credit_bytes": 800, "cache_bytes": 1_000}
    tell(chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS, **bounds), happenings)
