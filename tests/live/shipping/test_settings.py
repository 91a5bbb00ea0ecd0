"""What an operator chooses becomes the budget of a turn."""

from __future__ import annotations

from pathlib import Path

from penstock.live.shipping.settings import Budget, ShipSettings


def test_a_turn_has_the_budget_of_the_settings() -> None:
    settings = ShipSettings(Path("lake"), bytes_max=7, turn_ms=9)
    assert settings.budget == Budget(bytes_max=7, ms_max=9)
    assert ShipSettings(Path("lake")).budget == Budget()


def test_shipped_filters_are_kept_unless_somebody_says_otherwise() -> None:
    assert ShipSettings(Path("lake")).retain_ms == 0
