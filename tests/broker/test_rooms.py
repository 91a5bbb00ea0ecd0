"""The shared parts of a broker are made once, of the same settings, and know each other."""

from __future__ import annotations

from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings


def test_all_rooms_know_the_same_pubends_and_their_classes() -> None:
    rooms = Rooms(BrokerSettings("pb", pubends=("p", "q"), best_effort=("q",)), incarnation=7)
    assert list(rooms.topology.guaranteed()) == ["p"]
    assert rooms.topology.origin_of("q") == "pb"
    assert rooms.pubends.names == ("p", "q")
    assert {rooms.pubends.choose("", number) for number in range(50)} == {"p"}
    assert rooms.filters.incarnation == 7
    assert len(rooms.subscribers) == len(rooms.connections.peers) == 0
