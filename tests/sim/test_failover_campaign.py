"""Seeds of the campaign of homes keep all laws and converge; seeds can be replayed, and bugs are found."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.effects import Effect
from penstock.sim.delivery_run import Failure
from penstock.sim.failover_campaign import FAILOVER_PROBES, FailoverCampaign


@pytest.mark.parametrize("first", [0, 2, *(pytest.param(first, marks=pytest.mark.long) for first in range(4, 50, 2))])
def test_all_laws_hold_and_the_overlay_converges(first: int) -> None:
    for seed in range(first, first + 2):
        run = FailoverCampaign(seed, checks=seed % 12 == 0, brokers_max=5).run(blows_max=16)
        assert run.is_sound, run.story()
        assert run.verdict.acknowledged > 0


def test_a_seed_gives_the_same_run_again() -> None:
    assert FailoverCampaign(3).run(blows_max=8).digest == FailoverCampaign(3).run(blows_max=8).digest
    assert FailoverCampaign(3).run(blows_max=8).digest != FailoverCampaign(4).run(blows_max=8).digest


def test_a_run_counts_the_rare_paths_of_homes() -> None:
    run = FailoverCampaign(1).run(blows_max=20)
    assert set(FAILOVER_PROBES) >= {name for name in run.counts if name.startswith(("taken_", "doubtful_", "fenced_"))}
    assert sum(run.counts[name] for name in FAILOVER_PROBES) > 0
    assert any(line.startswith("home of ") for line in run.plan)


class Hasty(Broker):
    """A broker that believes in durability before the database does."""

    def receive(self, connection: int, frames: Any, *, now_ms: int) -> list[Effect]:
        effects = super().receive(connection, frames, now_ms=now_ms)
        return effects + super().committed(self._guaranteed._commits._taken, now_ms=now_ms)

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        return []


def test_a_home_that_keeps_no_promise_breaks_a_law() -> None:
    failures = {FailoverCampaign(seed, make_broker=Hasty).run(blows_max=12).failure for seed in range(3)}
    assert Failure.BROKEN_LAW in failures


def test_a_step_of_a_former_life_breaks_a_law() -> None:
    campaign = FailoverCampaign(1)
    homes = campaign.world.homes
    assert homes is not None
    next(iter(homes.homes.values())).breaches.append("life 1 took a step, and life 2 has begun")
    run = campaign.run(blows_max=5)
    assert run.failure is Failure.BROKEN_LAW
    assert run.complaint.startswith("life 1 took a step")
