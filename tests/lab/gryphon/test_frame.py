"""Parameters of the congestion experiments become settings, and every run ends with the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.congestion import CongestionError
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import parameter_values
from penstock.lab.gryphon.frame import CONTROLLED, UNCONTROLLED, closing_figures, congestion_settings, overlay_for
from penstock.lab.gryphon.overlay import SIMPLE
from penstock.model.reporting import QuietReporter


def context(*settings: str, declared: tuple[object, ...] = CONTROLLED) -> Context:
    return Context(1, parameter_values(declared, settings), QuietReporter(), Path("none.png"))  # type: ignore[arg-type]


def test_profile_and_switches_become_settings() -> None:
    assert congestion_settings(context()).profile == "paper"
    swift = congestion_settings(context("profile=swift", "pdcc=off"), recovering_margin=0.5)
    assert (swift.profile, swift.pdcc, swift.sdcc, swift.recovering_margin) == ("swift", False, True, 0.5)
    off = congestion_settings(context(declared=UNCONTROLLED))
    assert (off.pdcc, off.sdcc) == (False, False)


def test_what_is_neither_on_nor_off_is_misuse() -> None:
    with pytest.raises(ParameterError, match="parameter pdcc: 'maybe' is neither on nor off"):
        congestion_settings(context("pdcc=maybe"))
    with pytest.raises(CongestionError, match="no profile 'brisk'"):
        congestion_settings(context("profile=brisk"))


def test_what_has_not_come_is_lost_only_where_everything_should_have() -> None:
    overlay = overlay_for(context(), SIMPLE)
    overlay.run(2)
    overlay.throttle("IB", "SB1", 1)
    overlay.run(3)
    figures = closing_figures(overlay)
    assert figures["lag_end_s"] > 1
    assert figures["undelivered"] > 500
    assert figures["lost"] == 0
    overlay.subscribers["SB2"][0].deliveries.pop(5)
    assert closing_figures(overlay)["lost"] == 1
    assert list(figures)[-2:] == ["queue_max_bytes", "lag_end_s"]
