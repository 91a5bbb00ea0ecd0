"""One step along a pubend's tree, in both directions, and what has no way."""

from __future__ import annotations

import pytest

from overlay import Overlay, chain
from penstock.broker.neighbours.ways import Ways
from penstock.protocol import frames as f

UP = f.LogRequest("pb.a", "sb", 1, 0, 9)
DOWN = f.LogSpan("pb.a", "sb", 1, 0, 9)


def ways_at(overlay: Overlay, broker: str, *own: str) -> Ways:
    return Ways(overlay.brokers[broker]._log_desk._rooms, own)


def waiting(overlay: Overlay, broker: str) -> dict[str, list[f.Frame]]:
    """What waits for each neighbour of a broker."""
    links = overlay.brokers[broker]._connections.links
    return {name: list(peer.outbox._control) for name, peer in links.items() if peer.outbox}


def test_questions_go_one_step_towards_the_pubend_and_answers_one_towards_the_host() -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True)
    ways = ways_at(overlay, "ib")
    ways.up("pb.a", UP)
    ways.down("pb.a", "sb", DOWN)
    assert waiting(overlay, "ib") == {"pb": [UP], "sb": [DOWN]}
    child = ways.child("pb.a", "sb")
    assert child is not None
    assert child.name == "sb"


def test_what_is_for_this_broker_itself_is_not_sent() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    with pytest.raises(AssertionError):
        ways_at(overlay, "pb", "pb.a").up("pb.a", UP)
    with pytest.raises(AssertionError):
        ways_at(overlay, "sb").down("pb.a", "sb", DOWN)
    assert (waiting(overlay, "pb"), waiting(overlay, "sb")) == ({}, {})


@pytest.mark.parametrize(("pubend", "host"), [("nobody.a", "sb"), ("pb.a", "nobody"), ("", ""), ("pb.a", "pb")])
def test_what_has_no_way_is_lost(pubend: str, host: str) -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True)
    ways = ways_at(overlay, "ib")
    if pubend != "pb.a":
        ways.up(pubend, UP)
    ways.down(pubend, host, DOWN)
    assert ways.child(pubend, host) is None
    assert waiting(overlay, "ib") == {}


def test_without_the_link_there_is_no_way_and_with_it_there_is_one_again() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    ways = ways_at(overlay, "sb")
    overlay.cut("pb", "sb")
    ways.up("pb.a", UP)
    assert waiting(overlay, "sb") == {}
    overlay.link("pb", "sb")
    ways.up("pb.a", UP)
    assert waiting(overlay, "sb") == {"pb": [UP]}
