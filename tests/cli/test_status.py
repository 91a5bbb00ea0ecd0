"""``penstock status`` of live brokers, and of those that are not there."""

from __future__ import annotations

from pathlib import Path

import msgspec
from typer.testing import CliRunner

from commands import Commands
from penstock.cli.app import app
from penstock.lab.demo_overlay import OverlayPlan, free_ports


def test_all_brokers_of_a_file_are_shown(brokers: Commands) -> None:
    brokers.run("publish", brokers.url("pb1"), "--generate", "12")
    result = brokers.run("status", str(brokers.file))
    assert result.exit_code == 0, result.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert [row[0] for row in rows] == ["pb1", "sb1"]
    assert [row[2] for row in rows] == ["sb1", "pb1"]
    assert rows[0][5] == "12"


def test_one_broker_is_told_as_json(brokers: Commands) -> None:
    result = brokers.run("status", brokers.url("sb1"), "--json")
    assert result.exit_code == 0, result.stderr
    (told,) = msgspec.json.decode(result.stdout)
    assert told["name"] == told["status"]["broker"] == "sb1"
    assert told["status"]["clients"] == 1


def test_a_broker_that_is_not_there_is_shown_and_fails(brokers: Commands, tmp_path: Path) -> None:
    plan = OverlayPlan({"pb1": (), "sb1": (), "sb2": ()}, [("pb1", "sb1"), ("pb1", "sb2")])
    file = tmp_path / "larger.toml"
    file.write_text(plan.toml({**brokers.ports, "sb2": free_ports(1)[0]}))
    result = brokers.run("status", str(file))
    assert result.exit_code == 1
    assert "unreachable" in result.stdout
    assert "sb2 (down)" in result.stdout
    assert "sb2: " in result.stderr
    told = msgspec.json.decode(brokers.run("status", str(file), "--json").stdout)
    assert [(each["name"], each["status"] is None) for each in told] == [("pb1", False), ("sb1", False), ("sb2", True)]


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(tmp_path / "nothing.toml")])
    assert result.exit_code == 2
    assert "nothing.toml" in result.stderr
