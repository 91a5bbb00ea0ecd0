"""What a broker asks about its own pubends when its life begins, and when it stops waiting."""

from __future__ import annotations

from penstock.broker.durable import RecoveredPubend
from penstock.broker.pubend.inquiry import Inquiry, Memento
from penstock.broker.pubend.log import PubendLog
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.protocol import frames as f

NOW_MS = 1_000_000
SETTINGS = BrokerSettings("pb", pubends=("p",), neighbours=("a", "b"), inquiry_ms=3_000)


class Asked:
    """A broker that asks about a pubend with messages up to tick 50, and a lease up to 80."""

    def __init__(self, settings: BrokerSettings = SETTINGS) -> None:
        self.rooms = Rooms(settings, incarnation=7)
        log = PubendLog("p", settings, RecoveredPubend(lease=80, last_tick=50))
        self.inquiry = Inquiry(self.rooms, {"p": log})
        self.inquiry.begin(now_ms=NOW_MS)

    def link(self, name: str, *behind: str) -> None:
        connections, topology = self.rooms.connections, self.rooms.topology
        peer = connections.open(len(connections.peers), dialled=name, certificate="", now_ms=NOW_MS)
        peer.name = name
        connections.link_up(peer)
        topology.neighbour_up(name)
        topology.learn(f.LinkState(name, 1, 1, ("pb", *behind)))
        for each in behind:
            topology.learn(f.LinkState(each, 1, 1, (name,)))

    def answer(self, host: str, heard: int = 0, message: int = 0, *, life: int = 7) -> dict[str, Memento]:
        marks = (("p", heard, message),) if heard else ()
        return self.inquiry.on_remembered(f.Remembered("pb", host, life, marks), now_ms=NOW_MS)

    def is_settled(self, after_ms: int = 0) -> bool:
        return self.inquiry.is_settled(now_ms=NOW_MS + after_ms)


def test_its_link_state_says_what_the_store_knows_and_that_it_asks() -> None:
    asked = Asked()
    (state,) = asked.rooms.topology.states
    assert (state.life, state.known, state.is_asking) == (7, (("p", 80, 50),), True)
    asked.inquiry.end()
    asked.inquiry.know("p", 90)
    assert (asked.inquiry.told().known, asked.inquiry.told().is_asking) == ((("p", 90, 90),), False)


def test_it_waits_for_all_neighbours_and_for_all_that_lie_behind_them() -> None:
    asked = Asked()
    assert not asked.is_settled()
    asked.link("a", "c")
    asked.link("b")
    for name in ("a", "b"):
        asked.answer(name)
        assert not asked.is_settled()
    asked.answer("c", life=6)
    assert not asked.is_settled(2_999)
    asked.answer("c")
    assert asked.is_settled()


def test_it_waits_only_so_long() -> None:
    assert not Asked().is_settled(2_999)
    assert Asked().is_settled(3_000)


def test_a_home_needs_one_link_and_nobody_waits_for_homes() -> None:
    home = Asked(BrokerSettings("h", pubends=("p",), neighbours=("a", "b"), homes=("h",)))
    assert not home.is_settled()
    home.link("a")
    assert not home.is_settled()
    home.answer("a")
    assert home.is_settled()
    other = Asked(BrokerSettings("pb", pubends=("p",), neighbours=("a", "h"), homes=("h",)))
    other.link("a")
    other.answer("a")
    assert other.is_settled()


def test_only_what_the_store_does_not_know_counts_and_the_highest_of_it() -> None:
    asked = Asked()
    asked.answer("a", 80, 50)
    asked.answer("b", 70, 55)
    asked.answer("c", 90, 40)
    assert asked.inquiry.end() == {"p": Memento(90, "c")}
    assert asked.inquiry.end() == {}


def test_what_comes_late_is_returned_once() -> None:
    asked = Asked()
    asked.inquiry.end()
    assert asked.answer("a", 80, 50) == {}
    assert asked.answer("a", 90, 60) == {"p": Memento(90, "a")}
    asked.inquiry.know("p", 90)
    assert asked.answer("a", 90, 60) == {}


def test_nobody_is_asked_without_pubends_neighbours_or_time() -> None:
    for settings in (
        BrokerSettings("pb", pubends=("p",)),
        BrokerSettings("pb", pubends=("p",), neighbours=("a",), inquiry_ms=0),
    ):
        asked = Asked(settings)
        assert not asked.inquiry.is_needed
        assert not asked.rooms.topology.states[0].is_asking
    rooms = Rooms(BrokerSettings("pb", neighbours=("a",)), incarnation=1)
    assert not Inquiry(rooms, {}).is_needed
