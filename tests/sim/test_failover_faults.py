"""Every blow on homes and their database falls, and is repaired."""

from __future__ import annotations

import pytest

from penstock.sim.failover_campaign import FailoverCampaign
from penstock.sim.failover_faults import FailoverFaults

KINDS = {
    "pause",
    "crash_holder",
    "planned_move",
    "slow_database",
    "stop_database",
    "restart_primary",
    "fail_over",
    "split",
    "cut_database",
    "part_servers",
    "cancel_waits",
    "crash_standby",
    "reset_connections",
}


def struck(seed: int) -> tuple[FailoverCampaign, FailoverFaults]:
    campaign = FailoverCampaign(seed)
    faults = campaign.faults
    assert isinstance(faults, FailoverFaults)
    campaign.world.run_for(3_000)
    for _ in range(25):
        faults.strike()
        campaign.world.run_for(700)
    return campaign, faults


def test_all_kinds_of_blows_fall() -> None:
    counted = {kind for seed in range(8) for kind in struck(seed)[1].counts}
    assert counted >= KINDS | {"crash", "cut"}


@pytest.mark.parametrize("seed", range(4))
def test_after_the_repair_nothing_is_broken_any_more(seed: int) -> None:
    campaign, faults = struck(seed)
    # Blows that are under way end within this time.
    campaign.world.run_for(25_000)
    faults.repair()
    homes = campaign.world.homes
    assert homes is not None
    database = homes.database
    assert all(broker.is_up and not broker.gate.is_shut for broker in campaign.world.brokers.values())
    assert all(server.is_up and not server.gate.is_shut for server in database.servers)
    assert database.primary.standby is not None
    assert database.primary.is_synchronous == database.is_synchronous
    assert all(path.is_whole for path in database.paths.values())
    assert {server.slowness for server in database.servers} == {1.0}
    assert campaign.world.run_until(lambda: not homes.unrest(), limit_ms=60_000), homes.unrest()
