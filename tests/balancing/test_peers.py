"""Whom a broker has heard of lately."""

from __future__ import annotations

from penstock.balancing.metrics import Load
from penstock.balancing.peers import Peers
from penstock.balancing.pie import Pie
from penstock.balancing.states import State


def pie(name: str, cluster: str = "c1") -> Pie:
    return Pie(name, cluster, State.OK, Load())


def test_who_is_silent_is_forgotten() -> None:
    peers = Peers(peer_ms=1_000)
    peers.hear(pie("b"), now_ms=0)
    peers.hear(pie("a"), now_ms=500)
    assert list(peers.known(now_ms=999)) == ["a", "b"]
    assert list(peers.known(now_ms=1_000)) == ["a"]
    assert len(peers) == 1


def test_clusters_can_be_chosen() -> None:
    peers = Peers(peer_ms=1_000)
    peers.hear(pie("a"), now_ms=0)
    peers.hear(pie("b", "c2"), now_ms=0)
    assert list(peers.known(now_ms=0, clusters=("c2",))) == ["b"]
    assert list(peers.known(now_ms=0, clusters=("c1", "c2"))) == ["a", "b"]


def test_a_flood_of_strangers_is_not_listened_to() -> None:
    peers = Peers(peer_ms=1_000)
    for number in range(1_500):
        peers.hear(pie(f"b{number}"), now_ms=0)
    assert len(peers) == 1_000
    peers.hear(pie("b0"), now_ms=999)
    assert "b0" in peers.known(now_ms=1_500)
