"""``penstock overlay settings`` shows every setting, and the page of the manual is what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.overlay_settings import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_of_the_manual_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), (
        "make it anew: penstock overlay settings --markdown > docs/configuration.md"
    )


def test_settings_are_shown_as_table_and_as_json() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["overlay", "settings"])
    assert shown.exit_code == 0
    assert "heartbeat_ms" in shown.stdout
    told = json.loads(runner.invoke(app, ["overlay", "settings", "--json"]).stdout)
    assert told["[congestion]"][0]["name"] == "profile"
    assert runner.invoke(app, ["overlay", "settings", "--markdown"]).stdout == settings_page()
