from __future__ import annotations

import numpy as np

from penstock.ajil.amounts import Unit
from penstock.ajil.groups import GroupIndex
from penstock.ajil.hard import SILENT_EPOCHS, HardShares


def amounts(size: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([size, size / 100])


def budget(shares: HardShares, epoch: int = 1) -> float:
    return shares.budget(Unit.BYTES, 600.0, epoch=epoch)


def test_a_node_has_nothing_before_its_announcement_is_one_epoch_old() -> None:
    shares = HardShares(GroupIndex(), "n1")
    assert budget(shares) == 0
    assert shares.announce(amounts(100), epoch=1)[0] == 1
    assert budget(shares) == 0
    assert shares.announce(amounts(100), epoch=2)[0] == 2
    assert budget(shares) == 600


def test_the_limit_is_shared_by_demand() -> None:
    shares = HardShares(GroupIndex(), "n1")
    for serial in (1, 2):
        shares.announce(amounts(100), epoch=serial)
        assert shares.hear("n2", serial, amounts(200), epoch=serial)
    assert budget(shares, 2) == 200


def test_others_count_whoever_grows_before_it_uses_more_and_whoever_shrinks_until_it_uses_less() -> None:
    shares = HardShares(GroupIndex(), "n1")
    for serial in (1, 2):
        shares.announce(amounts(100), epoch=serial)
        shares.hear("n2", serial, amounts(100), epoch=serial)
    shares.hear("n2", 3, amounts(500), epoch=3)
    assert budget(shares, 3) == 100
    shares.hear("n2", 4, amounts(0), epoch=4)
    assert budget(shares, 4) == 100, "its former demand still counts"
    shares.hear("n2", 5, amounts(0), epoch=5)
    assert budget(shares, 5) == 600


def test_ones_own_demand_counts_by_the_lower_of_two_announcements() -> None:
    shares = HardShares(GroupIndex(), "n1")
    for serial in (1, 2):
        shares.announce(amounts(100), epoch=serial)
        shares.hear("n2", serial, amounts(100), epoch=serial)
    _, announced = shares.announce(amounts(500), epoch=3)
    assert announced[0] == 200, "announcements are smoothed"
    assert budget(shares, 3) == 600 * 100 / (200 + 100)


def test_repeated_and_old_announcements_are_ignored() -> None:
    shares = HardShares(GroupIndex(), "n1")
    assert shares.hear("n2", 5, amounts(100), epoch=1)
    assert not shares.hear("n2", 5, amounts(0), epoch=1)
    assert not shares.hear("n2", 4, amounts(0), epoch=1)
    assert not shares.hear("n1", 9, amounts(0), epoch=1)


def test_the_share_of_a_node_that_is_gone_is_given_to_others_after_a_while() -> None:
    shares = HardShares(GroupIndex(), "n1")
    for epoch in range(1, SILENT_EPOCHS + 4):
        shares.announce(amounts(100), epoch=epoch)
        if epoch <= 2:
            shares.hear("n2", 10 + epoch, amounts(100), epoch=epoch)
        assert budget(shares, epoch) == (0 if epoch == 1 else 300 if epoch <= SILENT_EPOCHS + 2 else 600)
    assert shares.hear("n2", 1, amounts(100), epoch=SILENT_EPOCHS + 4), "after a restart it counts anew"
