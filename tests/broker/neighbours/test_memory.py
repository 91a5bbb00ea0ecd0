"""What a broker remembers of pubends elsewhere, and whom it tells."""

from __future__ import annotations

from overlay import chain
from penstock.broker import BrokerSettings
from penstock.broker.neighbours.memory import Memory
from penstock.broker.peers import Peer, PeerKind
from penstock.broker.rooms import Rooms
from penstock.protocol import frames as f

NOW_MS = 1_000


def state(life: int, known: f.Marks, *, sequence: int = 1, is_asking: bool = False) -> f.LinkState:
    return f.LinkState("pb", life, sequence, ("sb",), ("p",), (), 1, life, known, is_asking)


class Told:
    """A broker with one neighbour, whose pubend it has heard of."""

    def __init__(self) -> None:
        self.rooms = Rooms(BrokerSettings("sb", neighbours=("pb",)), incarnation=1)
        peer = self.rooms.connections.open(1, dialled="pb", certificate="", now_ms=NOW_MS)
        assert isinstance(peer, Peer)
        peer.name = "pb"
        self.rooms.connections.link_up(peer)
        assert peer.kind is PeerKind.LINK
        self.rooms.topology.neighbour_up("pb")
        self.peer = peer

    @property
    def memory(self) -> Memory:
        return self.rooms.memory

    def hear(self, said: f.LinkState) -> list[f.Frame]:
        self.rooms.topology.learn(said)
        self.memory.learn(said)
        self.memory.look(now_ms=NOW_MS)
        return self.taken()

    def taken(self) -> list[f.Frame]:
        return [each for each in self.peer.outbox.take(10_000) if isinstance(each, f.Remembered)]


def test_who_asks_is_answered_again_and_again_also_by_those_that_know_nothing_better() -> None:
    told = Told()
    told.memory.note("p", 50, 40)
    answer = f.Remembered("pb", "sb", 2, ())
    assert told.hear(state(2, (("p", 50, 40),), is_asking=True)) == [answer]
    told.memory.on_deadline(now_ms=NOW_MS + 299)
    assert told.taken() == []
    told.memory.on_deadline(now_ms=NOW_MS + 300)
    assert told.taken() == [answer]
    assert told.hear(state(2, (("p", 50, 40),), sequence=2)) == []
    told.memory.on_deadline(now_ms=NOW_MS + 600)
    assert told.taken() == []
    assert told.memory.next_deadline() is None


def test_what_is_heard_of_the_new_life_is_no_memory_of_a_former_one() -> None:
    told = Told()
    told.hear(state(1, (("p", 0, 0),)))
    told.memory.note("p", 90, 70)
    assert told.hear(state(1, (("p", 0, 0),), sequence=2)) == []
    better = f.Remembered("pb", "sb", 2, (("p", 90, 70),))
    assert told.hear(state(2, (("p", 80, 60),))) == [better]
    told.memory.note("p", 200, 190)
    assert told.hear(state(2, (("p", 80, 60),), sequence=2)) == [better]
    assert told.hear(state(2, (("p", 90, 90),), sequence=3)) == []


def test_a_message_above_the_last_one_counts_though_the_lease_covers_it() -> None:
    told = Told()
    told.memory.note("p", 60, 0)
    told.memory.note("p", 50, 50)
    assert told.hear(state(2, (("p", 100, 49),))) == [f.Remembered("pb", "sb", 2, (("p", 60, 50),))]


def test_only_so_much_is_remembered() -> None:
    told = Told()
    for number in range(10_001):
        told.memory.note(f"p{number}", 5, 5)
    assert told.hear(state(2, (("p0", 0, 0), ("p1", 0, 0)))) == [f.Remembered("pb", "sb", 2, (("p1", 5, 5),))]


def test_brokers_in_between_pass_it_on_and_only_from_where_it_may_come() -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True)
    overlay.wait(1_000)
    life = overlay.brokers["pb"].rooms.topology.life
    said = f.Remembered("pb", "sb", life, (("pb.a", 2**61, 2**61),))
    overlay.lie("ib", "pb", said)
    assert overlay.brokers["pb"].status().counts["memory_implausible"] == 0
    overlay.lie("ib", "sb", said)
    assert overlay.brokers["pb"].status().counts["memory_implausible"] == 1
