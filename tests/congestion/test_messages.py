from __future__ import annotations

from math import inf, nan

import pytest

from penstock.congestion import Uca
from penstock.model.errors import PeerError


@pytest.mark.parametrize(
    ("uca", "is_alert"), [(Uca(1), False), (Uca(1, 0.9), True), (Uca(1, inf, 1.4), True), (Uca(1, 0.0, 0.0), True)]
)
def test_an_alert_needs_somebody_who_alerts(uca: Uca, *, is_alert: bool) -> None:
    assert uca.is_alert is is_alert


@pytest.mark.parametrize(("nonrec", "rec", "lag_ms"), [(-0.1, inf, 0), (inf, -1.0, 0), (nan, inf, 0), (1.0, 1.0, -1)])
def test_what_no_broker_can_measure_is_the_fault_of_the_peer(nonrec: float, rec: float, lag_ms: int) -> None:
    with pytest.raises(PeerError, match="must not be negative"):
        Uca(1, nonrec, rec, lag_ms)


def test_who_is_slowest_can_be_named() -> None:
    assert Uca(1, 0.9, 0.4).by("SB2") == Uca(1, 0.9, 0.4, host="SB2")
    assert Uca(1, 0.9, 0.4).slowest == 0.4
    assert Uca(1).slowest == inf
