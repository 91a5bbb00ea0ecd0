"""``penstock store copy``: what it prints, and what it refuses."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from live.store.support import append, opened, tamper
from penstock.cli.app import app
from penstock.live.store import Append
from penstock.model.tick import Tick


def copy(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["store", "copy", *map(str, arguments)])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with opened(tmp_path / "a") as store:
        append(store, 1, 5)
        store.commit([Append("p", [(Tick(9), b"x")], Tick(20), {b"x": 3}), Append("q")])
    return tmp_path / "a"


def test_a_copy_is_told_pubend_by_pubend(tmp_path: Path, source: Path) -> None:
    result = copy(source, tmp_path / "b")
    assert result.exit_code == 0, result.output
    assert "broker b1 of overlay o, copied for b1" in result.stdout
    assert f"the copy in {tmp_path / 'b'} is complete, and was compared" in result.stdout
    told = json.loads(copy(source, tmp_path / "c", "--pubend", "p", "--for", "b2", "--json").stdout)
    assert told["to"] == {"at": str(tmp_path / "c"), "overlay": "o", "broker": "b2"}
    assert told["records"] is None
    assert list(told["pubends"]) == ["p"]
    found: dict[str, Any] = told["pubends"]["p"]
    assert (found["messages"], found["last_tick"], found["lease"], found["publishers"]) == (6, 9, 20, 1)


def test_damage_is_told(tmp_path: Path, source: Path) -> None:
    tamper(source, "UPDATE bodies SET stored=x'00' WHERE place=1")
    told = json.loads(copy(source, tmp_path / "b", "--json").stdout)
    assert told["pubends"]["p"]["damaged"] == [[1, 5]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "a"], "exists already: name a new folder"),
        (["nowhere", "b"], "there is no folder"),
        (["a", "b", "--broker", "b1"], "--overlay and --broker are for databases; see --for"),
        (["a", "b", "--for", "b2"], "has several pubends (p, q)"),
        (["a", "b", "--pubend", "x"], "the store has no pubend 'x'"),
        (["postgresql://127.0.0.1:9/x", "b"], "say whose with --overlay and --broker"),
    ],
)
def test_misuse_is_said(source: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str) -> None:
    monkeypatch.chdir(source.parent)
    result = copy(*arguments)
    assert (result.exit_code, words in result.stderr) == (2, True), result.output
    assert [each.name for each in source.parent.iterdir()] == ["a"]


def test_without_the_driver_the_extra_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("penstock.live.postgres"):
            raise ModuleNotFoundError("no driver", name="psycopg")
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    result = copy(source, "postgresql://127.0.0.1:9/x")
    assert (result.exit_code, "pip install 'penstock[postgres]'" in result.stderr) == (2, True)


@pytest.mark.parametrize("target", ["postgresq://u:secret@h/db", "host=db1 password=secret"])
def test_a_mistyped_database_is_no_folder(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = copy(source, target)
    assert result.exit_code == 2
    assert "secret" not in result.output
    assert sorted(tmp_path.iterdir()) == before
