"""Common parts of the congestion control paper's experiments: parameters, settings, and figures of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.congestion.settings import CongestionSettings
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.overlay import GryphonOverlay, GryphonPlan

__all__ = ["CONTROLLED", "SOURCE", "UNCONTROLLED", "closing_figures", "congestion_settings", "overlay_for"]

SOURCE: Final = "[Gryphon], Pietzuch and Bhola, Congestion Control in a Reliable Scalable Message-Oriented Middleware"
_SWITCH: Final = {"on": True, "off": False}
_KEPT_UP_S: Final = 1.0
"""Hosts that lag by less at the end of a run should have received everything."""


def _parameters(default: str) -> tuple[Parameter, ...]:
    return (
        Parameter("profile", "paper", "parameters of congestion control: paper or swift"),
        Parameter("pdcc", default, "whether pubends follow the slowest broker: on or off"),
        Parameter("sdcc", default, "whether NACK windows follow the recovery rate: on or off"),
    )


CONTROLLED: Final = _parameters("on")
UNCONTROLLED: Final = _parameters("off")


def congestion_settings(context: Context, **changes: Any) -> CongestionSettings:
    """The settings chosen by the parameters, with these changes."""
    switches = {name: _switch(name, context.text(name)) for name in ("pdcc", "sdcc")}
    return CongestionSettings.of_profile(context.text("profile"), **switches, **changes)


def _switch(name: str, text: str) -> bool:
    if text not in _SWITCH:
        raise ParameterError(f"parameter {name}: {text!r} is neither on nor off")
    return _SWITCH[text]


def overlay_for(context: Context, plan: GryphonPlan, **changes: Any) -> GryphonOverlay:
    """An overlay with the settings chosen by the parameters, ready and under load."""
    return GryphonOverlay(plan, congestion_settings(context, **changes), seed=context.seed)


def closing_figures(overlay: GryphonOverlay) -> Mapping[str, float]:
    """Figures at the end of every run: laws broken, the longest queue, and how far behind the slowest host is.

    A message that has not arrived by the end counts as lost if hosts have kept up; if they lag, it may still arrive and
    is only reported as undelivered. A message that was skipped while later ones arrived is always lost.
    """
    lag_s = overlay.lag_end_s
    found = overlay.delivered()
    return {
        "lost": found.skipped + (found.missing if lag_s < _KEPT_UP_S else 0),
        "duplicated": found.duplicated,
        "reordered": found.reordered,
        "undelivered": found.missing,
        "queue_max_bytes": overlay.queue_max_bytes,
        "lag_end_s": round(lag_s, 3),
    }
