"""A broker process takes its settings of tracking from the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

from live.support import with_port
from penstock.client.client import connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.tracking.broker import broker_command, tracked_overlay
from penstock.lab.tracking.table import Configuration
from penstock.tracking.settings import TrackingSettings

PLAN = OverlayPlan({"b1": ("b1.a",)})


def test_settings_survive_the_command_line_and_a_change_of_port(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(PLAN.toml({"b1": 7_001}))
    for tracking in (
        TrackingSettings(strategy="exact", persist_ms=123),
        Configuration("bloom", 135_000, 8, "1M-99").settings(keep_filling=False),
    ):
        overlay = tracked_overlay(str(file), broker_command(tracking)[-1])
        assert overlay.settings_for("b1").tracking == tracking
        assert with_port(overlay, "b1", 7_009).settings_for("b1").tracking == tracking
        assert overlay.settings_for("b1").pubends == ("b1.a",)


def test_a_process_tracks_as_it_is_told() -> None:
    async def strategy(url: str) -> object:
        async with connect(url) as client:
            return (await client.status()).tracking.strategy

    with DemoOverlay(PLAN, command=broker_command(TrackingSettings(strategy="exact"))) as overlay:
        assert asyncio.run(strategy(overlay.url("b1"))) == "exact"
