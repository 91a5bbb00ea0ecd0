"""Each blow strikes the holder of its pubend, all is repaired in the end, and the outcome tells who took over."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from penstock.lab.failover.harm import Harm, Watch
from penstock.lab.failover.pauses import Outcome
from penstock.lab.failover.plan import HOSTS, REPLICAS_MIN, Blow, Kind
from penstock.lab.failover.servers import Holder
from penstock.system.loop import run


class Target:
    """An overlay, a network and servers at once, which write down what is done to them."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.asked = 0

    def __getattr__(self, verb: str) -> Any:
        def note(*words: str) -> float:
            self.story.append(" ".join([verb, *words]))
            return float(len(self.story))

        return note

    async def linked(self) -> None:
        """All brokers have their links."""
        self.story.append("linked")

    def holders(self) -> dict[str, Holder]:
        """Nobody holds one of the pubends at first; then each time they are asked for, the epoch of one is higher."""
        self.asked += 1
        known = {"orders": Holder("pb2", self.asked), "quotes": Holder("pb1", 1)}
        return known if self.asked > 1 else {"orders": known["orders"]}


def struck(kind: Kind) -> tuple[list[str], Outcome]:
    target = Target()
    watch = Watch()
    harm = Harm(target, target, target, watch)  # type: ignore[arg-type]

    async def deliver() -> None:
        while True:
            for host in HOSTS:
                for pubend in REPLICAS_MIN:
                    watch.on_received(host, pubend, time.monotonic())
            await asyncio.sleep(0.001)

    async def scenario() -> Outcome:
        delivering = asyncio.create_task(deliver())
        async with asyncio.timeout(60):
            outcome = await harm.strike(Blow(kind, "orders", 0.0, 0.0))
        delivering.cancel()
        return outcome

    return target.story, run(scenario())


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        ("kill", ["kill pb2", "start pb2"]),
        ("stop", ["pause pb2", "resume pb2"]),
        ("cut", ["disturb pb2 cut", "mend pb2 cut"]),
        ("stall", ["disturb pb2 stall", "mend pb2 stall"]),
        ("silence", ["disturb pb2 silence", "mend pb2 silence"]),
        ("database", ["kill_primary", "promote", "make_standby", "make_synchronous"]),
        ("both", ["kill pb2", "kill_primary", "promote", "make_standby", "make_synchronous", "start pb2"]),
    ],
)
def test_what_is_broken_is_repaired(kind: Kind, story: list[str]) -> None:
    found, outcome = struck(kind)
    assert found == [*story, "linked"]
    assert outcome.target == ("" if kind == "database" else "pb2")
    assert outcome.struck_s < outcome.until_s
    assert (outcome.before["orders"].epoch, outcome.after["orders"].epoch, outcome.takeovers) == (2, 3, 1)


def test_who_insists_on_a_standby_counts_from_when_there_is_one_and_others_from_the_promotion() -> None:
    story, outcome = struck("database")
    assert outcome.counts_from_s == {
        "orders": story.index("promote") + 1.0,
        "quotes": story.index("make_synchronous") + 1.0,
    }
    assert struck("kill")[1].counts_from_s == {}


def test_what_was_published_and_arrived_while_there_was_no_standby_counts_for_pubends_that_insist_on_one() -> None:
    watch = Watch()
    watch.on_alone(5.0)
    watch.on_received("sb1", "quotes", 4.0)
    watch.on_received("sb1", "orders", 6.0)
    assert watch.unreplicated == 0
    watch.on_received("sb1", "quotes", 6.0)
    assert watch.unreplicated == 1
    watch.on_whole()
    watch.on_received("sb1", "quotes", 7.0)
    assert watch.unreplicated == 1


def test_all_is_well_when_every_host_has_something_newer_of_every_pubend() -> None:
    watch = Watch()
    pairs = [(host, pubend) for host in HOSTS for pubend in REPLICAS_MIN]
    for host, pubend in pairs:
        assert not watch.have_all_since(5.0)
        watch.on_received(host, pubend, 6.0)
        watch.on_received(host, pubend, 4.0)
    assert watch.have_all_since(5.0)
    assert not watch.have_all_since(6.0)
    assert all(len(watch.deliveries[pair]) == 2 for pair in pairs)
