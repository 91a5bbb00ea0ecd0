"""A database that does not wait for its standby loses commits: homes notice where somebody remembers, and go on."""

from __future__ import annotations

import pytest

from penstock.broker.candidate import LeaseSettings
from penstock.broker.settings import BrokerSettings
from penstock.sim.candidates import HomePlan
from penstock.sim.client import SimClient
from penstock.sim.database import Database
from penstock.sim.failover_campaign import FailoverCampaign
from penstock.sim.lost_commits import LostCommits
from penstock.sim.world import World

_NAMES = ("b1", "b2")


def settings(name: str, number: int, *neighbours: str, pubends: tuple[str, ...] = ()) -> BrokerSettings:
    return BrokerSettings(
        name=name,
        number=number,
        members=(*_NAMES, "q.home"),
        homes=("q.home",),
        neighbours=neighbours,
        pubends=pubends,
    )


class Scene:
    """Two candidates for a pubend, whose database does not wait for its standby."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.add_broker(settings("b1", 1, "b2", "q.home"))
        self.world.add_broker(settings("b2", 2, "b1", "q.home"))
        self.world.add_link("b1", "b2")
        self.database = Database(self.world.clock, is_synchronous=False)
        plan = HomePlan(settings("q.home", 9, pubends=("q",)), _NAMES, LeaseSettings(1_000), answer_ms=1_000)
        self.homes = self.world.add_homes([plan], self.database)
        self.publisher: SimClient = self.world.add_client("pub", "b2")
        self.subscriber: SimClient = self.world.add_client("sub", "b2")
        self.subscriber.subscribe("")
        assert self.world.run_until(lambda: not self.homes.unrest(), limit_ms=5_000)
        assert self.world.run_until_ready()
        self.commits = LostCommits(self.world, self.homes, lambda _kind, _what: None)

    def trade(self) -> None:
        for number in range(3):
            self.publisher.publish({"number": number}, pubend="q")
            self.world.run_for(5)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_what_had_not_reached_the_standby_is_marked_where_somebody_remembers_it(scene: Scene) -> None:
    for _ in range(4):
        scene.commits.lose_in_peace([scene.subscriber], scene.trade)
    losses = scene.commits.losses()
    # Where the publisher was cut off, none of its messages could be lost.
    assert any(each.ticks for each in losses)
    assert all(each.is_recognised for each in losses)
    assert scene.commits.problems == []
    assert {body for _, _, body in scene.commits.journal()} <= {each.body for each in scene.publisher.published}
    assert not scene.homes.unrest()


def test_a_loss_that_is_not_noticed_is_a_problem(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.neighbours.memory.Memory.note", lambda *_: None)
    for _ in range(4):
        scene.commits.lose_in_peace([scene.subscriber], scene.trade)
    assert any("did not notice" in each for each in scene.commits.problems)
    assert not any(each.is_recognised for each in scene.commits.losses())


def test_a_standby_that_lacks_nothing_loses_nothing(scene: Scene) -> None:
    scene.trade()
    scene.world.run_for(1_000)
    scene.database.promote()
    scene.database.rejoin()
    scene.world.run_for(5_000)
    assert (scene.commits.losses(), scene.commits.journal()) == ([], [])


def test_a_former_primary_is_dead_when_nobody_waits_for_its_standby(scene: Scene) -> None:
    former = scene.database.primary
    promoted = scene.database.promote()
    scene.database.start(former)
    assert [server for server in scene.database.servers if server.is_primary] == [promoted]


def test_a_campaign_with_an_asynchronous_standby_keeps_all_laws() -> None:
    run = FailoverCampaign(1, asynchronous=1.0).run(blows_max=12)
    assert run.failure is None, run.story()
    assert run.counts["lost_commits_recognised"]
