"""``penstock token status``: where the token is, its constants, and what brokers have counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.cli.app import app
from penstock.cli.status import Asked, with_answers_of_homes
from penstock.cli.token import rows
from penstock.lab.demo_overlay import free_ports
from statuses import broker_status


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["token", "status", *arguments])


def figures(**changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = dict.fromkeys(
        ("operations", "skips", "regenerations", "discards", "overlaps", "overruns"), 1_000
    )
    usual |= {"operating": False, "holding": False, "members": 5, "k_load": 0.8, "overloaded": False, "fence": "1/a/7"}
    return {**usual, "op_ms": 4_000, "min_ms": 20_000, "max_ms": 60_000, **changes}


def asked(name: str, **changes: Any) -> Asked:
    return Asked(name, "u", status=broker_status({"mechanisms": {"token": figures(**changes)}}))


def test_a_row_shows_where_the_token_is_and_what_was_counted() -> None:
    found = list(rows([asked("a", operating=True, holding=True), asked("b", holding=True), asked("c")]))
    assert [row[1] for row in found] == ["operates", "holds it", ""]
    assert found[0][2:7] == ("5", "0.80", "4 s", "20 s", "60 s")
    assert found[0][7:] == (*["1,000"] * 6, "1/a/7")


def test_overload_is_marked_and_brokers_without_a_token_are_shown_as_such() -> None:
    found = list(
        rows([asked("a", k_load=1.5, overloaded=True), Asked("b", "u", status=broker_status()), Asked("c", "u")])
    )
    assert found[0][3] == "1.50 !"
    assert [row[1] for row in found[1:]] == ["none", "?"]
    assert len({len(row) for row in found}) == 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two brokers that are linked, and a token."""
    lines = ['overlay = "site"', "[token]", "op_ms = 100", "min_ms = 150"]
    for name, port in zip(("b1", "b2"), free_ports(2), strict=True):
        lines += [f"[brokers.{name}]", f"port = {port}"]
    lines += ["[[links]]", 'between = ["b2", "b1"]', ""]
    path = tmp_path / "overlay.toml"
    path.write_text("\n".join(lines))
    return path


def test_brokers_that_run_tell_of_their_token(file: Path) -> None:
    with running(file, ["b1", "b2"]):
        result = run(str(file), "--json")
        assert result.exit_code == 0, result.output
        told = {each["name"]: each["token"] for each in msgspec.json.decode(result.stdout)}
        assert told["b1"]["op_ms"] == told["b2"]["op_ms"] == 100
        shown = run(str(file))
        assert shown.exit_code == 0
        assert "wandering token" in shown.stdout


def test_who_cannot_be_asked_is_named(file: Path) -> None:
    result = run(str(file))
    assert result.exit_code == 1
    assert "b1" in result.output


def test_a_home_is_a_member_of_its_own() -> None:
    home = {"broker": "q.home", "mechanisms": {"token": figures(members=3)}}
    asked_one = Asked("a", "u", status=broker_status({"broker": "a", "homes": {"q.home": home}}))
    found = list(rows(list(with_answers_of_homes([asked_one, Asked("b", "u")]))))
    assert [row[0] for row in found] == ["a", "q.home", "b"]
    assert found[1][2] == "3"
