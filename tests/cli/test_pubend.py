"""``penstock pubend``: what is listed, what moves, and why something does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import LIMIT_S
from penstock.broker.mechanisms.operating import Operation
from penstock.cli.app import app
from penstock.lab.demo_overlay import free_ports
from penstock.live.admin import AdminServer
from penstock.live.backup import Backup
from penstock.live.config import load_overlay
from penstock.live.membership import OverlayChange
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Overlay
from penstock.live.postgres.errors import DatabaseUnreachableError
from penstock.protocol.status import CandidacyStatus
from statuses import node_status

FILE = """overlay = "site"
[security]
admin_token = "key"
[brokers.pb1]
port = 7001
admin_port = {pb1}
[brokers.pb2]
port = 7002
admin_port = {pb2}
[brokers.sb1]
port = 7003
admin_port = {sb1}
pubends = ["own", "quick"]
best_effort = ["quick"]
data = "data/sb1"
[[links]]
between = ["pb1", "sb1"]
[[links]]
between = ["pb2", "sb1"]
[pubends.quotes]
brokers = ["pb1", "pb2"]
data = "postgresql://db/site"
"""


@dataclass
class Database:
    """What the candidates agree on."""

    holder: str = "pb1"
    epoch: int = 4
    is_deaf: bool = False
    """Whether nothing moves, whatever is asked for."""


@dataclass
class Site:
    """Brokers whose admin pages are real, and that run no broker."""

    file: Path
    database: Database
    problems: dict[str, str] = field(default_factory=dict)
    """What candidates say is wrong."""
    unaware: list[str] = field(default_factory=list)
    """Brokers that were started with an older file, without the pubend."""
    unreachable: list[str] = field(default_factory=list)
    """Brokers that cannot reach the database when they are asked for a move."""

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["pubend", *arguments])

    def move(self, *arguments: str) -> Result:
        return self.run("move", str(self.file), *arguments)


class Homes:
    def __init__(self, site: Site, name: str) -> None:
        self._site, self._name = site, name

    async def ship(self) -> dict[str, dict[str, Any]]:
        raise NotImplementedError

    async def move(self, pubend: str, to: str) -> None:
        assert pubend == "quotes"
        if self._name in self._site.unreachable:
            raise DatabaseUnreachableError("no primary answers")
        if not self._site.database.is_deaf:
            self._site.database.holder = to
            self._site.database.epoch += 1


class Subject:
    is_serving = True

    def __init__(self, site: Site, overlay: Overlay, name: str) -> None:
        self.overlay, self.name = overlay, name
        self.homes = Homes(site, name)
        self._site = site

    def status(self) -> NodeStatus:
        guaranteed: dict[str, object] = {"pubends": {"own": {}} if self.name == "sb1" else {}}
        candidacies = [msgspec.to_builtins(self._candidacy())] if self.name != "sb1" else []
        broker = {"broker": self.name, "guaranteed": guaranteed, "candidacies": candidacies}
        return node_status({"name": self.name}, broker)

    def _candidacy(self) -> CandidacyStatus:
        database = self._site.database
        if self.name in self._site.unaware:
            return CandidacyStatus("else")
        found = CandidacyStatus("quotes", ["pb1", "pb2"], database.holder)
        found.problem = self._site.problems.get(self.name, "")
        if database.holder == self.name:
            found.epoch, found.replicas = database.epoch, 1
        return found

    def apply(self, overlay: Overlay) -> object:
        raise NotImplementedError(overlay)

    def reread(self, *, digest: str = "", is_trial: bool = False) -> OverlayChange:
        raise NotImplementedError(digest, is_trial)

    def operate(self, operation: Operation) -> None:
        raise NotImplementedError(operation)

    def finish(self) -> None:
        raise NotImplementedError

    async def ship(self) -> dict[str, Any]:
        raise NotImplementedError

    def back_up(self, folder: Path) -> Backup:
        raise NotImplementedError(folder)


@contextmanager
def site(tmp_path: Path, *, without: tuple[str, ...] = ()) -> Iterator[Site]:
    """The brokers of the file, but those left out."""
    file = tmp_path / "overlay.toml"
    names = ("pb1", "pb2", "sb1")
    file.write_text(FILE.format(**dict(zip(names, free_ports(3), strict=True))))
    overlay, made = load_overlay(file), Site(file, Database())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = [
        AdminServer(Subject(made, overlay, name), port=overlay.place_of(name).admin_port, token="key")  # noqa: S106
        for name in names
        if name not in without
    ]

    async def start() -> None:
        for each in servers:
            await each.start()

    async def stop() -> None:
        for each in servers:
            await each.stop()

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(LIMIT_S)
        yield made
        asyncio.run_coroutine_threadsafe(stop(), loop).result(LIMIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()


def listed(made: Site) -> tuple[int, dict[str, dict[str, Any]]]:
    result = made.run("list", str(made.file), "--json")
    return result.exit_code, {each["pubend"]: each for each in msgspec.json.decode(result.stdout)}


def test_all_pubends_are_listed_with_who_runs_them(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        code, found = listed(made)
        assert code == 0
        assert list(found) == ["own", "quick", "quotes"]
        assert [each["holder"] for each in found.values()] == ["sb1", "sb1", "pb1"]
        assert [each["epoch"] for each in found.values()] == [0, 0, 4]
        assert [each["replicas"] for each in found.values()] == [-1, -1, 1]
        shown = made.run("list", str(made.file)).stdout
    assert "pubends of site" in shown
    assert "quotes" in shown


def test_a_broker_that_does_not_answer_is_named_and_what_others_know_of_it_is_shown(tmp_path: Path) -> None:
    with site(tmp_path, without=("pb1", "sb1")) as made:
        code, found = listed(made)
    assert code == 1
    assert (found["own"]["holder"], list(found["own"]["problems"])) == ("", ["sb1"])
    quotes = found["quotes"]
    assert (quotes["holder"], quotes["heard"], list(quotes["problems"])) == ("", "pb1", ["pb1"])
    assert quotes["candidates"] == ["pb1", "pb2"]


def test_a_pubend_moves_and_the_command_says_when_it_is_there(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        result = made.move("quotes", "pb2")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("quotes runs at pb2 in epoch 5: it took ")
        assert result.stdout.endswith(" s from pb1\n")
        assert made.database.holder == "pb2"


def test_it_need_not_be_waited_for(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        made.database.is_deaf = True
        result = made.move("quotes", "pb2", "--no-wait")
    assert (result.exit_code, result.stdout) == (0, "quotes is asked to move from pb1 to pb2\n")


def test_a_pubend_that_is_not_there_in_time_is_no_success(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        made.database.is_deaf = True
        result = made.move("quotes", "pb2", "--wait", "0")
    assert result.exit_code == 1
    assert "quotes is not at pb2 yet" in result.stderr


@pytest.mark.parametrize(
    ("pubend", "to", "reason"),
    [
        ("nothing", "pb2", "there is no pubend 'nothing' in overlay site; there are: own, quick, quotes"),
        ("own", "pb2", "pubend own belongs to broker sb1 and cannot move: it has no candidates"),
        ("quotes", "sb1", "'sb1' is no candidate for quotes; there are: pb1, pb2"),
        ("quotes", "pb9", "'pb9' is no candidate for quotes; there are: pb1, pb2"),
    ],
)
def test_what_the_file_rules_out_is_misuse(tmp_path: Path, pubend: str, to: str, reason: str) -> None:
    with site(tmp_path) as made:
        result = made.move(pubend, to)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


def test_nothing_moves_to_where_it_is_or_to_one_that_could_not_run_it(tmp_path: Path) -> None:
    with site(tmp_path) as made:

        def refused(to: str) -> str:
            result = made.move("quotes", to)
            assert result.exit_code == 1
            assert made.database.epoch == 4
            return result.stderr

        assert "quotes runs at pb1 already, in epoch 4" in refused("pb1")
        made.problems["pb2"] = "no primary answers"
        assert "quotes stays where it is: pb2 could not run it: no primary answers" in refused("pb2")
        made.problems.clear()
        made.unreachable.append("pb2")
        assert "broker pb2 cannot ask for quotes: no primary answers" in refused("pb2")
        made.unaware.append("pb2")
        assert "pb2 was started with a file in which it is no candidate" in refused("pb2")


def test_nothing_moves_to_one_that_is_not_running(tmp_path: Path) -> None:
    with site(tmp_path, without=("pb2",)) as made:
        result = made.move("quotes", "pb2")
        assert (result.exit_code, made.database.epoch) == (1, 4)
    assert "quotes stays where it is: broker pb2 cannot be asked: " in result.stderr


def test_if_no_candidate_answers_each_is_named(tmp_path: Path) -> None:
    with site(tmp_path, without=("pb1", "pb2")) as made:
        result = made.move("quotes", "pb2")
    assert result.exit_code == 1
    assert "no candidate for quotes can be asked: pb1: " in result.stderr
    assert "; pb2: " in result.stderr
