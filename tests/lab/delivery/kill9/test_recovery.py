"""A recovery is over when everybody concerned has got something newer than the repair."""

from __future__ import annotations

from penstock.lab.delivery.kill9.plan import HOSTS, SOURCES, Blow
from penstock.lab.delivery.kill9.recovery import Recoveries, Recovery, pairs_behind

KILL_SB1 = Blow(0.0, "kill", "sb1", 1.0)
KILL_PB1 = Blow(0.0, "kill", "pb1", 1.0)
CUT = Blow(0.0, "cut", ("sb1", "ib1"), 1.0)


def test_a_repair_concerns_those_whose_ways_lead_through_it() -> None:
    assert pairs_behind("sb2") == [("sb2", "pb1"), ("sb2", "pb2")]
    assert pairs_behind("pb1") == [("sb1", "pb1"), ("sb2", "pb1"), ("sb3", "pb1")]
    assert pairs_behind(("ib2", "pb2")) == [("sb1", "pb2"), ("sb2", "pb2"), ("sb3", "pb2")]
    assert pairs_behind(("sb3", "ib1")) == [("sb3", "pb1"), ("sb3", "pb2")]
    everybody = [(host, source) for host in HOSTS for source in SOURCES]
    assert pairs_behind("ib1") == pairs_behind(("ib1", "ib2")) == everybody


def test_it_is_over_when_all_pairs_have_got_something_newer() -> None:
    recoveries = Recoveries()
    recoveries.on_blow(KILL_SB1)
    recoveries.on_repaired(KILL_SB1, now_s=10.0)
    recoveries.on_received("sb1", "pb1", published_s=9.0, now_s=10.5)
    recoveries.on_received("sb1", "pb1", published_s=10.1, now_s=11.0)
    recoveries.on_received("sb1", "pb1", published_s=10.2, now_s=11.5)
    recoveries.on_received("sb2", "pb2", published_s=10.2, now_s=11.5)
    assert recoveries.pending == 1
    recoveries.on_received("sb1", "pb2", published_s=10.2, now_s=12.0)
    assert recoveries.pending == 0
    assert recoveries.done == [Recovery("kill", 10.0, 2.0)]


def test_ends_that_are_down_do_not_count() -> None:
    recoveries = Recoveries()
    recoveries.on_blow(KILL_PB1)
    recoveries.on_repaired(CUT, now_s=10.0)
    recoveries.on_received("sb1", "pb2", published_s=10.0, now_s=11.0)
    assert recoveries.done == [Recovery("cut", 10.0, 1.0)]


def test_ends_that_are_struck_in_the_meantime_do_not_count() -> None:
    recoveries = Recoveries()
    recoveries.on_repaired(CUT, now_s=10.0)
    recoveries.on_blow(KILL_SB1)
    assert recoveries.pending == 0
    recoveries.on_received("sb1", "pb1", published_s=11.0, now_s=11.0)
    assert recoveries.done == []


def test_a_blow_to_another_link_changes_nothing() -> None:
    recoveries = Recoveries()
    recoveries.on_repaired(CUT, now_s=10.0)
    recoveries.on_blow(CUT)
    assert recoveries.pending == 1
