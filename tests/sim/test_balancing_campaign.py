"""Brokers that balance themselves while brokers crash and links break."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.broker.broker import Broker
from penstock.sim.balancing_campaign import BalancingCampaign


@pytest.mark.long
def test_clients_of_brokers_that_balance_themselves_get_everything_once_and_in_order() -> None:
    counts: Counter[str] = Counter()
    for seed in (1, 2, 3):
        campaign = BalancingCampaign(seed, brokers_max=5)
        run = campaign.run(blows_max=20)
        assert run.is_sound, run.story()
        counts += campaign.counts
    assert counts["sessions"] > 3
    assert counts["migrations"] > 3
    assert counts["harmed"] > 0


@pytest.mark.long
def test_heads_share_their_own_clients_while_clusters_balance() -> None:
    counts: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for seed in (0, 1, 7):
        campaign = BalancingCampaign(seed, with_heads=True)
        run = campaign.run()
        assert run.is_sound, run.story()
        counts += campaign.counts
        for broker in campaign.world.brokers.values():
            core = broker.core
            assert isinstance(core, Broker)
            assert core.balancing is not None
            if core.balancing.head is not None:
                assert core.balancing.balancer is not None
                own += Counter(core.balancing.balancer.counts)
    assert own["migrations"] > 0
    assert counts["sessions"] > own["sessions"] > 3
    assert counts["harmed"] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2663176806, id="logs were kept for a minute for who had long come back"),
        pytest.param(334603480, id="what had not fitted was asked for seconds after it would have"),
    ],
)
def test_what_did_not_come_to_rest_once_does_now(seed: int) -> None:
    run = BalancingCampaign(seed).run()
    assert run.is_sound, run.story()


@pytest.mark.long
def test_who_goes_on_where_somebody_else_had_got_to_misses_nothing() -> None:
    """The old broker of a durable name was lost when the new one had said where it goes on, and not confirmed it."""
    run = BalancingCampaign(1015789391).run()
    assert run.is_sound, run.story()
