from __future__ import annotations

from collections import Counter

from penstock.sim.migration_campaign import MigrationCampaign


def test_clients_that_move_while_brokers_crash_and_links_break_get_everything_once_and_in_order() -> None:
    moved: Counter[str] = Counter()
    for seed in (1, 6, 8):
        campaign = MigrationCampaign(seed, brokers_max=5)
        run = campaign.run(blows_max=20)
        assert run.is_sound, run.story()
        moved += campaign.moved
    assert moved["made"] > 10
    assert moved["failed"] > 0
