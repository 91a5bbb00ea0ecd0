"""Figures of a recovery, from a short one."""

from __future__ import annotations

import pytest

from penstock.congestion import CongestionSettings
from penstock.lab.gryphon.recovery import Recovery, recover, recovery_figures
from penstock.model.reporting import QuietReporter


def run(settings: CongestionSettings, *, limit_s: int, after_s: int) -> Recovery:
    return recover(settings, QuietReporter(), seed=1, kbytes_s=250, down_s=15, limit_s=limit_s, after_s=after_s)


@pytest.mark.long
def test_a_recovery_ends_at_a_reduced_rate_that_is_restored() -> None:
    found = run(CongestionSettings.swift(), limit_s=60, after_s=30)
    figures = recovery_figures(found)
    assert found.is_done
    assert 8 <= figures["recovery_s"] <= 30
    assert figures["rate_before"] == pytest.approx(500, rel=0.02)
    assert figures["rate_in_recovery"] < 250
    assert figures["rate_after"] == pytest.approx(500, rel=0.05)
    assert 0 < figures["restore_s"] <= 30
    assert figures["nack_window_max_ms"] >= figures["nack_window_plateau_ms"] > 0
    assert figures["min_pubend_share"] > 0.5
    assert found.overlay.delivered().missing == 0


@pytest.mark.long
def test_a_recovery_that_does_not_end_counts_as_long_as_it_was_watched() -> None:
    found = run(CongestionSettings.paper(pdcc=False), limit_s=15, after_s=0)
    figures = recovery_figures(found)
    assert not found.is_done
    assert figures["recovered"] == 0
    assert figures["recovery_s"] == pytest.approx(15, abs=1)
    assert figures["rate_in_recovery"] == pytest.approx(500, rel=0.05)
