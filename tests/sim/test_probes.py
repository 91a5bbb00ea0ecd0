"""Probes count the rare paths that a world took, and name those that nobody took."""

from __future__ import annotations

from collections import Counter

from penstock.protocol.frames import Goodbye
from penstock.sim.probes import PROBES, missed, observed
from penstock.sim.records import LostTicks
from penstock.sim.world import World


def test_probes_that_nobody_reached_are_named_with_their_meaning() -> None:
    reached: Counter[str] = Counter(dict.fromkeys(PROBES, 1))
    assert missed([reached]) == []
    reached["trims"] = 0
    assert missed([reached]) == ["trims: a log was trimmed"]
    assert missed([reached, Counter(trims=1)]) == []
    assert len(missed([])) == len(PROBES)


def test_a_world_shows_what_happened_in_it() -> None:
    world = World(1)
    world.add_overlay([("b1", "b2")], guaranteed=True)
    client = world.add_client("client", "b1")
    client.subscribe("a = 1", {"b1-pubend": 1}, missing="earliest")
    world.run_until_ready()
    client.publish({"a": 1}, pubend="b1-pubend")
    world.run_for(1_000)
    client.witness.goodbyes.append(Goodbye("slow", "does not read"))
    client.lost.append(LostTicks(0, "b1-pubend", 1, 2, (1,)))
    client.witness.holds += ["there is no space left", "has reached its maximum", "has 7 bytes waiting to be sent"]
    world.brokers["b1"].device.torn += 1
    counts = observed(world)
    once = ["slow_clients_ended", "clients_told_of_loss", "held_back_by_disk", "held_back_by_log"]
    once += ["held_back_by_outboxes", "torn_writes", "named_pubends", "positions_stated"]
    assert [counts[name] for name in once] == [1] * len(once)
    assert counts["best_effort_delivered"] == 0
    assert counts["published"] == 1
