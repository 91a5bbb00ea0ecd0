from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab.ajil.live.overlay import AJIL_LIVE_OVERLAY
from penstock.lab.frame.experiment import run_experiment


@pytest.mark.live
def test_publishers_on_two_live_brokers_keep_the_limit_and_nothing_is_lost(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_LIVE_OVERLAY, [], quick=True, figures=tmp_path).measured
    assert (measured["lost"], measured["duplicated"]) == (0, 0)
    assert measured["published"] > 500
    assert measured["publishers_told"] >= 1
