"""``penstock ship``: brokers ship at once, and whoever cannot is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.cli.app import app
from penstock.lab.demo_overlay import free_ports


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ship", *arguments])


def answers(result: Result) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in msgspec.json.decode(result.stdout)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two brokers that are linked, and a lake."""
    ports = free_ports(4)
    lines = ['overlay = "site"', "[ship]", 'lake = "lake"', "interval_ms = 1000000000"]
    for name, port, admin_port in zip(("b1", "b2"), ports[:2], ports[2:], strict=True):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}"]
    lines += ["[[links]]", 'between = ["b2", "b1"]', ""]
    path = tmp_path / "overlay.toml"
    path.write_text("\n".join(lines))
    return path


def test_brokers_ship_at_once_all_or_one(file: Path) -> None:
    with running(file, ["b1", "b2"]):
        result = run(str(file), "--now", "--json")
        assert result.exit_code == 0, result.output
        told = answers(result)
        assert [told[name]["result"] for name in ("b1", "b2")] == ["shipped", "shipped"]
        assert told["b1"]["shipped"]["rows"] > 0
        assert list(answers(run(str(file), "--now", "--broker", "b2", "--json"))) == ["b2"]
        shown = run(str(file), "--now")
        assert (shown.exit_code, shown.stdout.count("shipped") >= 2) == (0, True)
    found = {path.parent.name for path in (file.parent / "lake" / "topology").rglob("*.parquet")}
    assert found == {"broker=b1", "broker=b2"}


def test_who_cannot_ship_is_named(file: Path) -> None:
    with running(file, ["b1"]):
        (file.parent / "lake").write_text("not a folder")
        result = run(str(file), "--now", "--json")
        told = answers(result)
        assert (result.exit_code, told["b1"]["result"], told["b2"]["result"]) == (1, "failed", "unreachable")
        assert "cannot be written" in told["b1"]["reason"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [([], "say --now"), (["--now", "--broker", "b9"], "no broker 'b9'")],
)
def test_misuse_is_said(file: Path, arguments: list[str], complaint: str) -> None:
    result = run(str(file), *arguments)
    assert (result.exit_code, complaint in result.output) == (2, True)


def test_an_overlay_without_a_lake_is_told_how_to_get_one(tmp_path: Path) -> None:
    path = tmp_path / "overlay.toml"
    path.write_text("overlay = 'x'\n[brokers.b1]\nport = 1\n")
    result = run(str(path), "--now")
    assert (result.exit_code, "names no lake; add a table [ship]" in result.output) == (2, True)
