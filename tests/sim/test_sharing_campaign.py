"""Workers die, stall, refuse and move while brokers crash and links break: everything is done, each message once."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.sim.sharing_campaign import SHARING_PROBES, SharingCampaign

RARE = {
    "held_back_by_disk",
    "held_back_by_log",
    "torn_writes",
    "work_of_absent_members",
    "restarts_with_dead_letters",
    "dead_letters_waited",
    "forgotten_with_work_held",
    "work_run_out_unread",
    "read_late",
    "pages_recovered",
}
"""Paths that few seeds take."""


def test_everything_is_done_once_whatever_becomes_of_workers_brokers_and_links() -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        run = SharingCampaign(seed).run()
        assert run.is_sound, run.story()
        counts += run.counts
    assert counts["work_owed"] > 500
    assert [name for name in SHARING_PROBES if not counts[name] and name not in RARE] == []


def test_a_seed_tells_the_same_story_every_time() -> None:
    first, second = (SharingCampaign(3).run(blows_max=8) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, id="an answer overtook a message that was sent before it"),
        pytest.param(9, id="the time for a message was counted from the turn before"),
        pytest.param(29, id="a goodbye to a silent broker counted as leaving the group"),
        pytest.param(92, id="a dead letter was sent before its number was durable"),
        pytest.param(96, id="after its clock was set back, a broker sent dead letters in rounds that were too low"),
    ],
)
def test_what_went_wrong_once_does_not_again(seed: int) -> None:
    run = SharingCampaign(seed).run()
    assert run.is_sound, run.story()
