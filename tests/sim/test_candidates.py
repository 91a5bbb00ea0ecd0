"""A home runs beside one candidate at a time, moves when its holder cannot go on, and loses nothing on the way."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.candidate import LeaseSettings
from penstock.broker.settings import BrokerSettings
from penstock.sim.candidates import Home, HomePlan
from penstock.sim.client import SimClient
from penstock.sim.database import Database
from penstock.sim.transactions import Found, ReadContent, Tenure
from penstock.sim.verdict import judge
from penstock.sim.world import World

LEASE_MS = 1_000
NAMES = ("b1", "b2", "b3")


def settings(name: str, number: int, **more: Any) -> BrokerSettings:
    return BrokerSettings(name=name, number=number, members=(*NAMES, "q.home"), homes=("q.home",), **more)


class Scene:
    """Three brokers in a row, two of them candidates for a pubend, a publisher and a subscriber."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        neighbours = {"b1": ("b2", "q.home"), "b2": ("b1", "b3"), "b3": ("b2", "q.home")}
        for number, (name, others) in enumerate(neighbours.items(), start=1):
            self.world.add_broker(settings(name, number, neighbours=others))
        self.world.add_link("b1", "b2")
        self.world.add_link("b2", "b3")
        self.database = Database(self.world.clock, is_synchronous=True)
        plan = HomePlan(
            settings("q.home", 9, pubends=("q",)), ("b1", "b3"), LeaseSettings(LEASE_MS), answer_ms=LEASE_MS
        )
        self.homes = self.world.add_homes([plan], self.database)
        self.home: Home = self.homes.homes["q.home"]
        self.publisher: SimClient = self.world.add_client("pub", "b2")
        self.subscriber: SimClient = self.world.add_client("sub", "b2")
        self.subscriber.subscribe("")
        assert self.world.run_until(lambda: not self.homes.unrest(), limit_ms=5_000)
        assert self.world.run_until_ready()
        self.world.run_for(2_000)

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.publisher.publish({"a": 1}, pubend="q")

    def is_at(self, name: str, *, within_ms: int = 20_000) -> bool:
        return self.world.run_until(
            lambda: self.home.holder == name and self.home.running is not None, limit_ms=within_ms
        )

    def settle(self) -> None:
        """Everything that was published has come, once and in order."""
        everything = len(self.publisher.published)
        assert self.world.run_until(lambda: self.publisher.acknowledged == everything, limit_ms=30_000)
        assert self.world.run_until(lambda: len(self.subscriber.deliveries) >= everything, limit_ms=30_000)
        self.world.run_for(2_000)
        verdict = judge([self.publisher], [self.subscriber], journal=self.home.disk.journal, grace_ms=60_000)
        assert verdict.is_sound, verdict.problems
        assert (verdict.delivered, self.home.breaches) == (everything, [])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_candidate_runs_the_home_and_messages_flow(scene: Scene) -> None:
    assert scene.home.holder == "b1"
    scene.publish(3)
    scene.settle()


@pytest.mark.parametrize("loud", [True, False])
def test_another_candidate_takes_the_home_of_a_dead_one(scene: Scene, loud: bool) -> None:
    scene.publish(3)
    scene.world.run_for(2)
    scene.world.crash("b1", loud=loud)
    scene.publish(3)
    assert scene.is_at("b3")
    scene.settle()
    assert scene.home.counts["taken_after_crash"] == 1


def test_a_stopped_process_that_wakes_takes_no_step_as_a_home(scene: Scene) -> None:
    scene.publish(3)
    scene.world.run_for(2)
    beside = scene.world.broker("b1")
    beside.gate.shut()
    scene.publish(3)
    assert scene.is_at("b3")
    scene.world.run_for(500)
    node = scene.home.seats["b1"].node
    steps = node.steps
    beside.gate.open()
    scene.world.run_for(3_000)
    assert (node.steps, node.silences, node.is_up) == (steps, 1, False)
    scene.settle()
    assert scene.home.counts["taken_after_pause"] == 1


def test_a_short_stop_changes_nothing(scene: Scene) -> None:
    scene.world.broker("b1").gate.shut()
    scene.publish(3)
    scene.world.run_for(LEASE_MS // 3)
    scene.world.broker("b1").gate.open()
    scene.settle()
    assert (scene.home.holder, scene.home.lives) == ("b1", 1)


def test_a_holder_that_cannot_reach_the_database_ends_in_time(scene: Scene) -> None:
    for server in scene.database.servers:
        scene.database.paths["b1", server.name].is_cut = [True, True]
    scene.publish(3)
    assert scene.is_at("b3")
    scene.settle()
    assert scene.home.counts["taken_from_the_living"] == 1


def test_a_home_moves_when_somebody_asks_for_it(scene: Scene) -> None:
    scene.publish(3)
    began_ms = scene.world.elapsed_ms
    scene.home.seats["b3"].want("b3")
    assert scene.is_at("b3", within_ms=2_000)
    assert scene.world.elapsed_ms - began_ms < LEASE_MS
    scene.publish(3)
    scene.settle()
    assert scene.home.counts["moved"] == 1


def test_a_broker_that_stops_leaves_its_home_to_others(scene: Scene) -> None:
    began_ms = scene.world.elapsed_ms
    scene.world.stop("b1")
    assert scene.is_at("b3")
    assert scene.world.elapsed_ms - began_ms < LEASE_MS
    scene.publish(3)
    scene.settle()


def test_a_broker_that_starts_again_at_once_is_a_candidate_like_any_other(scene: Scene) -> None:
    scene.world.stop("b1")
    scene.world.restart("b1")
    assert scene.is_at("b1")
    assert scene.home.lives == 2
    scene.world.crash("b1")
    assert scene.is_at("b3")
    scene.publish(3)
    scene.settle()


def test_a_home_stays_where_it_is_when_the_database_fails_over(scene: Scene) -> None:
    scene.publish(3)
    scene.database.primary.crash(loud=True)
    scene.publish(3)
    scene.world.run_for(LEASE_MS // 4)
    scene.database.promote()
    scene.settle()
    assert (scene.home.holder, scene.home.lives) == ("b1", 1)


def test_each_life_of_a_home_is_later_for_the_overlay_than_the_one_before(scene: Scene) -> None:
    first = scene.home.seats["b1"].node.incarnation
    scene.world.crash("b1")
    assert scene.is_at("b3")
    second = scene.home.seats["b3"].node.incarnation
    scene.world.restart("b1")
    scene.world.crash("b3")
    assert scene.is_at("b1")
    assert first < second < scene.home.seats["b1"].node.incarnation


def test_a_step_of_a_former_life_is_noted(scene: Scene) -> None:
    node = scene.home.seats["b1"].node
    scene.home.begin("b3")
    scene.publish()
    scene.world.run_for(20)
    assert scene.home.breaches
    assert scene.home.breaches[0] == f"life 1 of {node.name} took a step, and life 2 has begun"


def test_a_home_that_runs_nowhere_is_named(scene: Scene) -> None:
    assert scene.homes.unrest() == ""
    scene.world.crash("b1")
    scene.world.crash("b3")
    assert scene.homes.unrest() == "q.home does not run anywhere"
    assert scene.home.plan.described() == "home of q: b1, b3, leases of 1,000 ms"


def test_what_homes_give_up_for_trimming_is_known_over_all_lives(scene: Scene) -> None:
    scene.home.given_up["q"] = 7
    assert scene.world.given_up()["q"] == 7
    assert len(scene.world.nodes) == 5
    assert [node.name for node in scene.world.running_homes] == ["q.home"]


def test_an_answer_to_somebody_who_does_not_hold_the_home_is_noted(scene: Scene) -> None:
    server = scene.database.primary
    assert server.audit is not None
    server.audit(ReadContent(Tenure("q.home", 1, "b1/1"), lambda content: content.commits), Found(1))
    assert scene.home.breaches == []
    server.audit(ReadContent(Tenure("q.home", 7, "b1/1"), lambda content: content.commits), Found(1))
    assert scene.home.breaches == ["the database answered what q.home asked in epoch 7 of b1/1, in epoch 1 of b1/1"]
