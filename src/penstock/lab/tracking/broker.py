"""A broker process with tracking settings from its command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Final

import msgspec

from penstock.broker.settings import BrokerSettings
from penstock.live.config import load_overlay
from penstock.live.overlay import Overlay
from penstock.live.serving import run_broker
from penstock.tracking.settings import TrackingSettings

__all__ = ["TrackedOverlay", "broker_command", "main", "tracked_overlay"]

_PROGRAM: Final = "from penstock.lab.tracking.broker import main; main()"


@dataclass(frozen=True)
class TrackedOverlay(Overlay):
    """An overlay in which all brokers have the same tracking settings."""

    tracking: TrackingSettings = field(default_factory=TrackingSettings)

    def settings_for(self, name: str) -> BrokerSettings:
        """The settings in the file, with these for tracking."""
        return replace(Overlay.settings_for(self, name), tracking=self.tracking)


def broker_command(tracking: TrackingSettings) -> tuple[str, ...]:
    """The command of a broker process with these settings, for `DemoOverlay`, which adds file and broker name."""
    return sys.executable, "-c", _PROGRAM, msgspec.json.encode(asdict(tracking)).decode()


def tracked_overlay(file: str, tracking: str) -> TrackedOverlay:
    """The overlay of a file, with tracking settings from JSON."""
    settings = msgspec.json.decode(tracking, type=TrackingSettings)
    described = load_overlay(file)
    return TrackedOverlay(**{each.name: getattr(described, each.name) for each in fields(described)}, tracking=settings)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the broker until it is ended; the arguments are settings as JSON, file, ``--name``, name."""
    tracking, file, _, name = sys.argv[1:] if arguments is None else arguments
    run_broker(tracked_overlay(file, tracking), name, log_level="warning")
