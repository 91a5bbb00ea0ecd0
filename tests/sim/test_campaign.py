"""Campaigns of harm end well, can be repeated, and notice when they do not end well."""

from __future__ import annotations

import pytest

from penstock.sim.campaign import BrokenLawError, Campaign, NoProgressError


@pytest.mark.parametrize("seed", range(24))
def test_no_law_is_broken_and_the_overlay_heals(seed: int) -> None:
    campaign = Campaign(seed, checks=seed % 8 == 0)
    campaign.run()
    assert sum(len(client.deliveries) for client in campaign.subscribers) > 0


def test_a_campaign_follows_from_its_seed() -> None:
    assert Campaign(1).run(blows_max=4) == Campaign(1).run(blows_max=4) != Campaign(2).run(blows_max=4)


def test_a_message_that_was_lost_or_repeated_is_noticed() -> None:
    campaign = Campaign(1)
    campaign.run(blows_max=2)
    subscriber = next(client for client in campaign.subscribers if client.deliveries)
    subscriber.deliveries.append(subscriber.deliveries[-1])
    with pytest.raises(BrokenLawError, match=r"seed 1: .* came twice"):
        campaign._trade_completely()


def test_an_overlay_that_stays_broken_is_noticed() -> None:
    campaign = Campaign(1)
    campaign.run(blows_max=2)
    campaign.world.cut("b1", "b2", loud=True)
    with pytest.raises(NoProgressError, match=r"seed 1: .*b1-b2"):
        campaign._come_to_rest()
