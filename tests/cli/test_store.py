"""``penstock store``: what a check finds, and what salvaging gives back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner, Result

from live.store.support import append, opened, tamper
from penstock.cli.app import app
from penstock.live.store import Append
from penstock.live.store.inspecting import LOG_NAME
from penstock.model.tick import Tick


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["store", *arguments])


def killed(path: Path) -> str:
    """A store that lost the end of its log."""
    with opened(path / "store") as store:
        for tick in range(1, 31):
            store.commit([Append("p", [(Tick(tick), b"x")], Tick(50))])
        shutil.copytree(path / "store", path / "killed")
    with (path / "killed" / LOG_NAME).open("r+b") as log:
        log.truncate(200_000)
    return str(path / "killed")


def test_a_whole_store_is_said_to_be_so(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
    result = run("check", str(tmp_path))
    assert result.exit_code == 0
    assert "is whole: format 3, 5 messages" in result.stdout
    result = run("salvage", str(tmp_path))
    assert result.exit_code == 2
    assert "there is nothing to salvage" in result.stderr


def test_damaged_messages_are_listed_up_to_a_number(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for tick in range(1, 16):
            append(store, tick, tick)
    tamper(tmp_path, "UPDATE bodies SET stored=x'00'")
    result = run("check", str(tmp_path))
    assert result.exit_code == 1
    assert "damaged: messages of pubend p: ticks 1 to 1 (" in result.stdout
    assert "damaged: messages of pubend p: 5 more ranges" in result.stdout
    assert "tells subscribers what they lose" in result.stdout


def test_a_damaged_store_is_found_and_salvaged(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    result = run("check", folder)
    assert result.exit_code == 1
    assert "of 31 commits are missing" in result.stdout
    assert f"penstock store salvage {folder}" in result.stdout
    found = json.loads(run("check", folder, "--json").stdout)
    assert (found["whole"], len(found["problems"]), found["format"]) == (False, 1, 3)
    result = run("salvage", folder)
    assert result.exit_code == 0
    assert "messages are whole; the damaged files are in" in result.stdout
    assert "may be lost: messages of pubend p: ticks" in result.stdout
    assert "to 50 (" in result.stdout
    assert "may be lost: sequence numbers" in result.stdout
    found = json.loads(run("check", folder, "--json").stdout)
    assert found["problems"] == []
    assert found["damaged"]["p"][0][1] == 50


def test_a_store_that_opens_is_salvaged_on_demand_only(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        append(store, 1, 5)
    result = run("salvage", str(tmp_path), "--force", "--overlay", "o2", "--broker", "b2")
    assert result.exit_code == 0
    assert "5 messages are whole" in result.stdout
    assert "may be lost" not in result.stdout


def test_a_folder_without_a_store_is_not_salvaged_even_by_force(tmp_path: Path) -> None:
    names = ("--force", "--overlay", "o", "--broker", "b1", "--pubend", "p")
    (tmp_path / "other").mkdir()
    for folder, words in ((tmp_path / "nothing", "there is no folder"), (tmp_path / "other", "there is no store in")):
        result = run("salvage", str(folder), *names)
        assert result.exit_code == 2
        assert words in result.stderr
    assert list((tmp_path / "other").iterdir()) == []
