"""``penstock store backup`` and ``restore``: with a broker that runs, without one, and when something goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from commands import running
from live.store.support import append, opened, tamper
from penstock.cli.app import app
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import free_ports
from penstock.live.backup import Backup
from penstock.live.node import BrokerNode


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["store", *map(str, arguments)])


@dataclass
class Site:
    """A broker with a store that runs, and its overlay file."""

    file: Path
    node: BrokerNode

    @property
    def data(self) -> Path:
        return self.file.parent / "data" / "pb1"

    def publish(self, first: int, last: int) -> None:
        with connect_sync(self.node.place.address, name="feed") as client:
            for number in range(first, last + 1):
                client.publish({"n": number}, b"x" * 100)
            client.flush()


def overlay_file(folder: Path, *, has_admin: bool = True) -> Path:
    ports = free_ports(2)
    lines = ['overlay = "site"', "[brokers.pb1]", f"port = {ports[0]}", 'pubends = ["q"]', 'data = "data/pb1"']
    if has_admin:
        lines.append(f"admin_port = {ports[1]}")
    file = folder / "overlay.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    file = overlay_file(tmp_path)
    with running(file, ["pb1"]) as nodes:
        yield Site(file, nodes["pb1"])


def test_a_running_broker_backs_up_its_store_and_goes_on(site: Site, tmp_path: Path) -> None:
    site.publish(1, 50)
    result = run("backup", site.data, tmp_path / "backup", "--config", site.file)
    assert result.exit_code == 0, result.output
    assert "backup of broker pb1 of overlay site" in result.stdout
    assert f"50 messages, checked, in {tmp_path / 'backup'}" in result.stdout
    site.publish(51, 60)
    second = run("backup", site.data, tmp_path / "second", "--config", site.file, "--json")
    told = json.loads(second.stdout)
    assert (told["broker"], told["messages"], told["damaged"]) == ("pb1", 60, [])
    assert told["pubends"]["q"]["last_tick"] > 0
    assert json.loads(run("check", tmp_path / "backup", "--json").stdout)["messages"] == 50


def test_without_the_overlay_file_a_running_broker_cannot_be_asked(site: Site, tmp_path: Path) -> None:
    result = run("backup", site.data, tmp_path / "backup")
    assert (result.exit_code, "name the overlay file with --config" in result.stderr) == (2, True)
    assert not list(tmp_path.glob("backup*"))


def test_a_broker_that_does_not_answer_is_said_to_be_so(tmp_path: Path) -> None:
    file = overlay_file(tmp_path, has_admin=False)
    with running(file, ["pb1"]):
        result = run("backup", file.parent / "data" / "pb1", tmp_path / "backup", "--config", file)
    assert (result.exit_code, "has no admin_port; stop the broker to back up its store" in result.stderr) == (1, True)
    assert not list(tmp_path.glob("backup*"))


def test_what_ends_a_backup_at_the_broker_is_told(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> Backup:
        backup = Backup(folder)
        backup.fail("database or disk is full")
        return backup

    monkeypatch.setattr(site.node, "back_up", full)
    result = run("backup", site.data, tmp_path / "backup", "--config", site.file)
    assert result.exit_code == 1
    assert "error: broker pb1 could not back up its store: database or disk is full" in result.stderr
    assert not list(tmp_path.glob("backup*"))


def test_an_interrupted_command_ends_the_backup_at_the_broker(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Backup] = []

    def endless(folder: Path) -> Backup:
        begun.append(Backup(folder))
        return begun[-1]

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(site.node, "back_up", endless)
    monkeypatch.setattr("penstock.cli.store_backup.time.sleep", interrupted)
    assert run("backup", site.data, tmp_path / "backup", "--config", site.file).exit_code == 130
    assert begun[0].is_cancelled
    assert not list(tmp_path.glob("backup*"))


def test_the_overlay_file_must_name_the_folder(site: Site, tmp_path: Path) -> None:
    with opened(tmp_path / "other"):
        result = run("backup", tmp_path / "other", tmp_path / "backup", "--config", site.file)
    assert result.exit_code == 2
    assert f"the overlay file names no brokers with the data folder {tmp_path / 'other'}" in result.stderr


def test_a_store_whose_broker_does_not_run_is_backed_up_and_restored(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        append(store, 1, 5)
    assert run("backup", tmp_path / "store", tmp_path / "backup").exit_code == 0
    with opened(tmp_path / "store") as store:
        append(store, 6, 10)
    refused = run("restore", tmp_path / "backup", tmp_path / "store")
    assert (refused.exit_code, "has a store: --force puts it aside" in refused.stderr) == (2, True)
    result = run("restore", tmp_path / "backup", tmp_path / "store", "--force")
    assert result.exit_code == 0, result.output
    assert "5 messages, checked, are in" in result.stdout
    assert "the former store is in" in result.stdout
    assert "subscribers are told as far as other brokers remember it" in result.stdout
    told: dict[str, Any] = json.loads(run("restore", tmp_path / "backup", tmp_path / "new", "--json").stdout)
    assert (told["overlay"], told["broker"], told["messages"], told["aside"]) == ("o", "b1", 5, None)
    assert told["made"].endswith("Z")


def test_damage_is_named(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        append(store, 1, 5)
    tamper(tmp_path / "store", "UPDATE bodies SET stored=x'00'")
    result = run("backup", tmp_path / "store", tmp_path / "backup")
    assert result.exit_code == 0
    assert "damaged in the store, and so in the backup: messages of pubend p: ticks 1 to 5" in result.stdout
    assert "damaged: messages of pubend p: ticks 1 to 5" in run("restore", tmp_path / "backup", tmp_path / "n").stdout


def test_places_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        append(store, 1, 5)
    for arguments, words in (
        (("backup", tmp_path / "store", tmp_path / "store" / "b"), "is inside of the store"),
        (("backup", tmp_path / "nowhere", tmp_path / "b"), "there is no folder"),
        (("restore", tmp_path / "store", tmp_path / "store"), "cannot be restored to itself"),
        (("restore", tmp_path / "nowhere", tmp_path / "b"), "there is no folder"),
    ):
        result = run(*arguments)
        assert (result.exit_code, words in result.stderr) == (2, True), result.output
