"""Commands and pubends with candidates, on a real database: whoever runs the home, each command does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import LIMIT_S, Commands, running
from penstock.cli.app import app
from penstock.client.sync import connect_sync
from penstock.lab.databases import DatabaseServer, database_folder, missing_reason
from penstock.lab.demo_overlay import free_ports
from penstock.live.metrics import registry_of, rendered
from penstock.model.message_id import MessageId

NAMES = ("pb1", "pb2", "sb1")


@dataclass
class Site(Commands):
    """Two candidates and a host, with a lake; the pubend has its log in a database."""

    def ask(self, *arguments: str) -> Any:
        result = self.done(*arguments)
        return msgspec.json.decode(result.stdout)

    def done(self, *arguments: str) -> Result:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result

    def holder(self) -> str:
        found = {each["pubend"]: each for each in self.ask("pubend", "list", str(self.file), "--json")}
        return str(found["quotes"]["holder"])

    def move(self, to: str) -> None:
        self.done("pubend", "move", str(self.file), "quotes", to, "--wait", str(LIMIT_S))


@pytest.fixture(scope="module")
def database() -> Iterator[DatabaseServer]:
    if reason := missing_reason():
        pytest.skip(reason)
    with database_folder() as folder, DatabaseServer(folder / "db") as server:
        yield server.make().start()


@pytest.fixture
def site(tmp_path: Path, database: DatabaseServer) -> Iterator[Site]:
    ports, admin_ports = free_ports(3), free_ports(3)
    # The database is that of all tests: each has an overlay of its own in it.
    lines = [f'overlay = "{tmp_path.name}"', "[ship]", 'lake = "lake"', "interval_ms = 1000000000"]
    for name, port, admin_port in zip(NAMES, ports, admin_ports, strict=True):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}"]
    for name in NAMES[:2]:
        lines += ["[[links]]", f'between = ["sb1", "{name}"]']
    lines += ["[pubends.quotes]", 'brokers = ["pb1", "pb2"]', f'data = "{database.url}"', ""]
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join(lines))
    with running(file, NAMES) as nodes:
        found = Site(file, dict(zip(NAMES, ports, strict=True)), nodes)
        found.wait_for(lambda: found.holder() != "")
        yield found


def test_a_durable_subscription_goes_on_through_moves_and_is_listed_and_forgotten_anywhere(site: Site) -> None:
    with connect_sync(site.url("sb1")) as client:
        with client.subscribe("TRUE", durable="billing", pubends=["quotes"]) as wanted:
            wanted.ready()
            for number, to in enumerate(("pb2", "pb1", "pb2")):
                if site.holder() != to:
                    site.move(to)
                client.publish({"number": number}, pubend="quotes")
                received = wanted.get(timeout_s=LIMIT_S)
                assert received.attributes["number"] == number
        known = site.ask("durable", "list", site.url("pb1"), "--json")
        assert list(known["billing"]) == ["quotes"]
        site.done("durable", "forget", site.url("pb1"), "billing", "--yes")
        assert "billing" not in site.ask("durable", "list", site.url("sb1"), "--json")


def test_status_metrics_and_top_show_the_home_at_whoever_runs_it(site: Site) -> None:
    if site.holder() == "pb1":
        site.move("pb2")
    told = {each["name"]: each["status"] for each in site.ask("status", str(site.file), "--json")}
    assert (list(told["pb1"]["homes"]), list(told["pb2"]["homes"])) == ([], ["quotes.home"])
    assert list(told["pb2"]["homes"]["quotes.home"]["guaranteed"]["pubends"]) == ["quotes"]
    (candidacy,) = told["pb2"]["candidacies"]
    assert (candidacy["holder"], candidacy["replicas"], candidacy["problem"]) == ("pb2", 0, "")
    assert "quotes.home" in site.ask("top", str(site.file), "--once", "--json")["brokers"]
    text = rendered(registry_of(site.nodes["pb2"])).decode()
    assert 'penstock_home_holder{pubend="quotes"} 1.0' in text
    assert 'penstock_store_replicas{broker="quotes.home"} 0.0' in text
    assert 'penstock_home_holder{pubend="quotes"} 0.0' in rendered(registry_of(site.nodes["pb1"])).decode()


def test_a_message_is_traced_to_the_home_which_ships_what_it_recorded(site: Site) -> None:
    with connect_sync(site.url("sb1")) as client, client.subscribe("TRUE", pubends=["quotes"]) as wanted:
        wanted.ready()
        client.publish({"number": 1}, pubend="quotes")
        message_id: MessageId = wanted.get(timeout_s=LIMIT_S).id
        found = site.ask("trace", str(message_id), "--broker", site.url("sb1"), "--json")
        assert "quotes.home" in msgspec.json.encode(found).decode()
    holder = site.holder()
    shipped = [each["name"] for each in site.ask("ship", str(site.file), "--now", "--broker", holder, "--json")]
    assert shipped == [holder, "quotes.home"]
    found = {path.parent.name for path in (site.file.parent / "lake").rglob("*.parquet")}
    assert found == {f"broker={holder}", "broker=quotes.home"}


def test_a_home_takes_over_what_is_tuned_and_applied_wherever_it_runs_next(site: Site) -> None:
    def sample_ms() -> dict[str, int]:
        return {
            name: home.broker.settings.congestion.sample_ms  # type: ignore[attr-defined]
            for name in ("pb1", "pb2")
            for home in site.nodes[name].homes.nodes().values()
        }

    first = site.holder()
    other = "pb1" if first == "pb2" else "pb2"
    site.done("tune", str(site.file), "sample_ms=700")
    assert sample_ms() == {first: 700}
    site.move(other)
    assert sample_ms() == {other: 700}
    site.file.write_text(site.file.read_text() + "[congestion]\nsample_ms = 900\n")
    site.done("overlay", "apply", str(site.file))
    assert sample_ms() == {other: 900}
