"""After the last fault everything recovers, every pubend regains its rate, and no queue was longer than its bound."""

from __future__ import annotations

import pytest

from penstock.sim.campaign import BrokenLawError, NoProgressError
from penstock.sim.congestion_campaign import CongestionCampaign

BUNCH = 10


@pytest.mark.parametrize(
    "first", [*range(0, 30, BUNCH), *(pytest.param(first, marks=pytest.mark.long) for first in range(30, 100, BUNCH))]
)
def test_everything_recovers(first: int) -> None:
    runs = [CongestionCampaign(seed).run() for seed in range(first, first + BUNCH)]
    assert all(run.published > 0 and run.faults for run in runs)
    # A campaign in which congestion never showed would prove nothing.
    assert any(run.decreases for run in runs)


def test_invariants_hold_after_every_step() -> None:
    assert CongestionCampaign(3, checks=True).run().published > 0


def test_a_seed_draws_the_same_again() -> None:
    runs = [CongestionCampaign(5).run() for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != CongestionCampaign(6).run()


def test_a_rate_that_is_never_regained_is_a_lack_of_progress() -> None:
    campaign = CongestionCampaign(0)
    for publisher in campaign.publishers:
        publisher.start(0.01)
    campaign._rate = 1_000.0
    for publisher in campaign.publishers:
        publisher.stop()
    with pytest.raises(NoProgressError, match="messages in a second"):
        campaign._recover()


def test_a_queue_beyond_its_bound_is_a_broken_law() -> None:
    campaign = CongestionCampaign(0)
    campaign.run()
    campaign._queue_bytes = -(2**20)
    with pytest.raises(BrokenLawError, match="bytes waited for a link"):
        campaign._verdict(0)


def test_a_message_that_is_missing_is_a_broken_law() -> None:
    campaign = CongestionCampaign(0)
    campaign.run()
    campaign.subscribers[0].deliveries.pop(3)
    with pytest.raises(BrokenLawError, match="skipped, missing, duplicated, reordered: \\(1, 0, 0, 0\\)"):
        campaign._verdict(0)
