from __future__ import annotations

from collections import Counter

import pytest

from penstock.sim.migration_campaign import MigrationCampaign


def test_clients_that_move_while_brokers_crash_and_links_break_get_everything_once_and_in_order() -> None:
    moved: Counter[str] = Counter()
    for seed in (1, 3, 6):
        campaign = MigrationCampaign(seed, brokers_max=5)
        run = campaign.run(blows_max=20)
        assert run.is_sound, run.story()
        moved += campaign.moved
    assert moved["made"] > 10
    assert moved["failed"] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(82091333, id="a link was slow for good after two reasons to be so"),
        pytest.param(1670349200, id="who stayed moves again"),
        pytest.param(2641027187, id="what waited came twice"),
        pytest.param(4062194794, id="somebody else had got further with a name"),
        pytest.param(386953186, id="who had moved and stayed got again what the first connection had brought"),
        pytest.param(3027423028, id="the new broker took over without all positions"),
    ],
)
def test_what_went_wrong_once_does_not_again(seed: int) -> None:
    run = MigrationCampaign(seed).run()
    assert run.is_sound, run.story()
