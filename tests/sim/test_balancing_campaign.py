"""Brokers that balance themselves while brokers crash and links break."""

from __future__ import annotations

from collections import Counter

from penstock.sim.balancing_campaign import BalancingCampaign


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
