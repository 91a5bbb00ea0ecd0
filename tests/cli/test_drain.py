"""``penstock drain``: who can take the clients of a broker, what is said of those who stay, and when it stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.broker.mechanisms.operating import Pin
from penstock.cli.app import app
from penstock.client.sync import SyncClient, connect_sync
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode


@dataclass
class Site:
    """A head and two hosts that run, and their file."""

    file: Path
    nodes: dict[str, BrokerNode]

    def drain(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["drain", str(self.file), *arguments])

    def client(self, broker: str, name: str) -> SyncClient:
        return connect_sync(self.nodes[broker].place.address, name=name)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ports = free_ports(6)
    lines = ['overlay = "site"', "[defaults]", 'service = "best-effort"']
    for place, name in enumerate(("pb1", "sb1", "sb2")):
        lines += [f"[brokers.{name}]", f"port = {ports[2 * place]}", f"admin_port = {ports[2 * place + 1]}"]
        lines += ['pubends = ["pb1.a"]'] if name == "pb1" else []
    for name in ("sb1", "sb2"):
        lines += ["[[links]]", f'between = ["{name}", "pb1"]']
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join(lines) + "\n")
    with running(file, ["pb1", "sb1", "sb2"]) as nodes:
        yield Site(file, nodes)


def test_clients_go_to_the_brokers_of_the_same_kind_and_then_it_stops(site: Site) -> None:
    with site.client("sb1", "reader") as client, client.subscribe("TRUE") as messages:
        messages.ready()
        result = site.drain("sb1")
        assert (result.exit_code, client.broker) == (0, "sb2"), result.output
        assert "sb1 stops: 1 clients have gone to sb2, 0 stayed" in result.output
        assert site.nodes["sb1"].has_failed.is_set()
        assert site.nodes["sb1"].failure is None


def test_publishers_go_too_and_keep_their_numbers(site: Site) -> None:
    with site.client("sb1", "feed") as feed:
        feed.publish({"n": 1})
        feed.flush()
        result = site.drain("sb1", "--to", "pb1")
        assert result.exit_code == 0, result.output
        assert "sb1 stops: 1 clients have gone to pb1, 0 stayed" in result.output
        feed.publish({"n": 2})
        feed.flush()
        assert (feed.broker, feed.counters.acknowledged, feed.counters.lost) == ("pb1", 2, 0)


def test_a_broker_that_nobody_can_replace_is_not_drained(site: Site) -> None:
    result = site.drain("pb1", "--to", "nosuch")
    assert result.exit_code == 2
    assert site.drain("sb1", "--to", "sb1").exit_code == 2
    assert site.drain("nosuch").exit_code == 2
    assert site.nodes["sb1"].status().broker.migration.drain.on is False


def test_a_drain_can_be_called_off(site: Site) -> None:
    node = site.nodes["sb1"]
    node.broker.operate(Pin("reader"), now_ms=node.clock.now_ms())
    with site.client("sb1", "reader") as client:
        client.status()
        assert site.drain("sb1").exit_code == 1
        assert node.status().broker.migration.drain.on is True
        assert site.drain("sb1", "--cancel").exit_code == 0
        assert node.status().broker.migration.drain.on is False


def test_a_broker_whose_client_stays_goes_on_and_says_so_unless_it_is_forced(site: Site) -> None:
    node = site.nodes["sb1"]
    node.broker.operate(Pin("reader"), now_ms=node.clock.now_ms())
    with site.client("sb1", "reader") as client, client.subscribe("TRUE") as messages:
        messages.ready()
        result = site.drain("sb1")
        assert result.exit_code == 1
        assert "sb1 was not stopped: 1 pinned" in result.output
        assert "client reader is pinned" in result.output
        assert not node.has_failed.is_set()
        forced = site.drain("sb1", "--force")
        assert "sb1 stops: 0 clients have gone to sb2, 1 stayed" in forced.output
        assert node.has_failed.is_set()


def test_a_candidate_of_a_pubend_is_of_the_kind_of_brokers_with_pubends(tmp_path: Path) -> None:
    ports = free_ports(6)
    lines = ['overlay = "site"']
    for place, name in enumerate(("pb1", "sb1", "sb2")):
        lines += [f"[brokers.{name}]", f"port = {ports[2 * place]}", f"admin_port = {ports[2 * place + 1]}"]
    for name in ("sb1", "sb2"):
        lines += ["[[links]]", f'between = ["{name}", "pb1"]']
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join(lines) + "\n")
    with running(file, ["pb1", "sb1", "sb2"]) as nodes:
        # Only the command's file names the candidate: there is no database here that it could ask.
        file.write_text(file.read_text() + '[pubends.q]\nbrokers = ["pb1"]\ndata = "postgresql://db/site"\n')
        result = Site(file, nodes).drain("sb1")
        assert (result.exit_code, "the clients of sb1 go to sb2\n" in result.stderr) == (0, True)
