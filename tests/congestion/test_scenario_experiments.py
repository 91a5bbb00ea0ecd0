"""The main claims of the congestion paper and beyond it, on the model; bands as for the real broker, or wider."""

from __future__ import annotations

import pytest

from congestion.experiments import run_collapse, run_e1, run_e2, run_slow_pubends
from penstock.congestion import CongestionSettings

PAPER = CongestionSettings.paper()
SWIFT = CongestionSettings.swift()


def test_without_control_a_narrow_link_fills_its_queue() -> None:
    collapse = run_collapse(CongestionSettings.paper(pdcc=False, sdcc=False))
    assert collapse.queue_max_bytes >= 5 * 1024 * 1024
    assert collapse.lag_end_s > 60


def test_e1_paper() -> None:
    e1 = run_e1(PAPER)
    assert 90 <= e1.recovery_s <= 200
    assert e1.rate_in_recovery <= 0.4 * 500
    assert e1.restore_s <= 60
    assert e1.rate_after >= 0.98 * 500
    assert e1.queue_max_bytes < 1_000_000
    assert e1.nack_window_max_ms > e1.nack_window_plateau_ms
    assert e1.lag_end_s < 1


def test_e1_swift() -> None:
    e1 = run_e1(SWIFT)
    assert e1.recovery_s <= 110
    assert e1.min_pubend_share >= 0.8
    assert e1.restore_s <= 15
    assert e1.rate_in_recovery >= 0.09 * 500
    assert e1.queue_max_bytes < 300_000
    assert e1.lag_end_s < 0.5


def test_e1_never_ends_without_pdcc() -> None:
    e1 = run_e1(CongestionSettings.paper(pdcc=False), limit_s=130, after_s=0)
    assert e1.recovery_s >= 130
    assert e1.lag_end_s > 100


def test_e1_fills_the_queues_without_sdcc() -> None:
    e1 = run_e1(CongestionSettings.paper(sdcc=False), limit_s=20, after_s=0)
    assert e1.queue_max_bytes > 2_000_000
    assert e1.lag_end_s > 100


def test_e2_paper() -> None:
    e2 = run_e2(PAPER)
    assert all(0.65 <= each <= 1.0 for each in e2.utilisation)
    assert e2.adapt_s[0] <= 12
    assert e2.adapt_s[1] <= 60
    assert e2.adapt_s[2] <= 12
    assert e2.queue_max_bytes <= 1_000_000
    assert e2.lag_end_s < 1


def test_e2_swift() -> None:
    e2 = run_e2(SWIFT)
    assert all(each >= 0.95 for each in e2.utilisation)
    assert all(each < 0.3 for each in e2.mean_lag_s)
    assert e2.adapt_s[0] <= 6
    assert e2.adapt_s[1] <= 20
    assert e2.adapt_s[2] <= 6
    assert e2.queue_max_bytes < 200_000
    assert e2.min_pubend_share >= 0.7


def test_e4_recovery_is_quicker_if_more_is_demanded() -> None:
    slow, quick = (
        run_e1(CongestionSettings.paper(recovering_margin=margin), kbytes_s=500, after_s=0) for margin in (0.2, 2.0)
    )
    assert 1.2 <= slow.recovery_s / quick.recovery_s <= 2.5
    assert 500 <= slow.nack_window_plateau_ms <= 1_200


@pytest.mark.parametrize("settings", [PAPER, SWIFT], ids=["paper", "swift"])
def test_pubends_that_say_next_to_nothing_get_their_rate_back(settings: CongestionSettings) -> None:
    assert run_slow_pubends(settings) == pytest.approx([125.0] * 4, rel=0.1)
