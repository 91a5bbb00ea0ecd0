"""``penstock limit``: set in brokers that run, shown with who is slowed down, lifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.ajil import Aup
from penstock.cli.app import app
from penstock.cli.limit import changes_of
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode
from penstock.model.errors import MisuseError


@dataclass
class Site:
    """Two brokers that run, and their file."""

    file: Path
    nodes: dict[str, BrokerNode]

    def limit(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["limit", arguments[0], str(self.file), *arguments[1:]])

    def aup(self, name: str) -> Aup | None:
        limit = self.nodes[name].overlay.limit
        return None if limit is None else limit.aup


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ports = free_ports(4)
    lines = ['overlay = "site"']
    for name, port, admin_port in (("b1", *ports[:2]), ("b2", *ports[2:])):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}", f'pubends = ["{name}.a"]']
    lines += ["[[links]]", 'between = ["b2", "b1"]']
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join(lines) + "\n")
    with running(file, ["b1", "b2"]) as nodes:
        yield Site(file, nodes)


def test_a_limit_is_set_shown_and_lifted(site: Site) -> None:
    result = site.limit("set", "600KB", "--policy", "global", "--alpha", ".5", "--beta", ".25")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("600 KB/s (global, alpha 0.5, beta 0.25)") == 2
    first = site.aup("b1")
    assert first is not None
    assert (first.limit_bytes_s, first.version) == (600_000, 1)
    assert first == site.aup("b2")
    shown = site.limit("show", "--json")
    told: list[dict[str, Any]] = msgspec.json.decode(shown.stdout)
    assert [each["limit"]["version"] for each in told] == [1, 1]
    assert told[0]["limit"]["slowed"] == []
    assert site.limit("set", "none", "--set", "mode=hard", "--set", "limit_packets_s=50").exit_code == 0
    second = site.aup("b2")
    assert second is not None
    assert (second.limit_bytes_s, second.limit_packets_s, second.mode, second.version) == (None, 50, "hard", 2)
    assert second.alpha == 0.5, "what is not named stays"


def test_misuse_is_explained(site: Site) -> None:
    result = site.limit("set", "much")
    assert result.exit_code == 2
    assert "is not an amount" in result.output
    result = site.limit("set", "600KB", "--alpha", "7")
    assert result.exit_code == 2
    assert "alpha is 7, must be 0 to 1" in result.output
    assert site.aup("b1") is None


def test_settings_become_fields_of_their_types() -> None:
    changes = changes_of(
        "1KB", ["epoch_ms=200", "smoothing=0.5", "mode=hard", "priority.cards=0"], alpha=None, beta=1.0
    )
    assert changes == {
        "limit_bytes_s": 1000,
        "limit_packets_s": None,
        "beta": 1.0,
        "epoch_ms": 200,
        "smoothing": 0.5,
        "mode": "hard",
        "priorities": {"cards": 0.0},
    }


@pytest.mark.parametrize("text", ["epoch_ms", "colour=red", "version=3", "epoch_ms=long", "priority.x=much"])
def test_settings_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(MisuseError):
        changes_of("1KB", [text])
