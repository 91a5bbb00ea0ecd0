"""``penstock tune``: parameters of brokers that run are shown and changed, in all of them or in none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.cli.app import app
from penstock.congestion import CongestionSettings
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode

KEY = "admin-key"
USUAL = CongestionSettings()


@dataclass
class Site:
    """Two brokers that run, and their file."""

    file: Path
    nodes: dict[str, BrokerNode]

    def tune(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["tune", str(self.file), *arguments])

    def answers(self, *arguments: str) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in msgspec.json.decode(self.tune(*arguments, "--json").stdout)}

    def settings(self, name: str) -> CongestionSettings:
        return self.nodes[name].overlay.settings_for(name).congestion


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ports = free_ports(4)
    lines = ['overlay = "site"', "[security]", f'admin_token = "{KEY}"']
    for name, port, admin_port in (("b1", *ports[:2]), ("b2", *ports[2:])):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}", f'pubends = ["{name}.a"]']
    lines += ["[[links]]", 'between = ["b2", "b1"]']
    file = tmp_path / "overlay.toml"
    file.write_text("\n".join(lines) + "\n")
    with running(file, ["b1", "b2"]) as nodes:
        yield Site(file, nodes)


def test_all_brokers_are_tuned_or_those_that_are_named(site: Site) -> None:
    result = site.tune("sample_ms=1500", "sdcc=off")
    assert result.exit_code == 0, result.output
    assert f"sample_ms {USUAL.sample_ms} to 1500" in result.stdout
    assert result.stdout.count("applied") == 2
    assert site.settings("b1") == site.settings("b2") == CongestionSettings(sample_ms=1500, sdcc=False)
    told = site.answers("sample_ms=2000", "--broker", "b2")
    assert list(told) == ["b2"]
    assert told["b2"]["changed"] == {"sample_ms": [1500, 2000]}
    assert (site.settings("b1").sample_ms, site.settings("b2").sample_ms) == (1500, 2000)
    assert site.tune("sample_ms=2000", "--broker", "b2").stdout.count("unchanged") == 1


def test_if_one_broker_cannot_none_changes(site: Site) -> None:
    assert site.tune("silence_limited_ms=50", "--broker", "b2").exit_code == 0
    # Shorter samples than silences are refused, and b1 has long silences.
    result = site.tune("sample_ms=50", "rate_floor_msg_s=0.5")
    assert result.exit_code == 1
    assert "nothing was changed" in result.stdout
    assert ("refused" in result.stdout, "could" in result.stdout) == (True, True)
    assert site.settings("b2").sample_ms == USUAL.sample_ms


def test_parameters_are_listed_brokers_that_have_the_same_together(site: Site) -> None:
    result = site.tune("--list")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("congestion control of b1, b2") == 1
    assert "nack_window_ms" in result.stdout
    site.tune("profile=swift", "--broker", "b1")
    result = site.tune("--list")
    assert "congestion control of b1" in result.stdout
    assert "congestion control of b2" in result.stdout
    (first, *_) = site.answers("--list")["b1"]["parameters"]
    assert (first["name"], first["value"]) == ("profile", "swift")


def test_a_value_that_is_not_the_profiles_is_told_with_it(site: Site) -> None:
    site.tune("nouca_ms=9000")
    assert f"9000 (profile: {USUAL.nouca_ms})" in site.tune("--list").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "nothing to tune"),
        (("sample_ms",), "'sample_ms' is not key=value"),
        (("=5",), "'=5' is not key=value"),
        (("sample_ms=5", "--broker", "b9"), "no broker 'b9'"),
    ],
)
def test_misuse_is_said_so(site: Site, arguments: tuple[str, ...], complaint: str) -> None:
    result = site.tune(*arguments)
    assert (result.exit_code, complaint in result.stderr) == (2, True)


def test_a_wrong_value_is_refused_by_the_brokers_with_the_rule(site: Site) -> None:
    told = site.answers("sample_ms=1")
    assert {each["result"] for each in told.values()} == {"refused"}
    assert told["b1"]["reason"].startswith("sample_ms is 1, must be 10 to")


def test_who_does_not_answer_is_named(site: Site) -> None:
    text = site.file.read_text()
    site.file.write_text(text.replace(KEY, "another"))
    assert "admin_token" in site.tune("--list").stderr
    site.file.write_text("\n".join(line for line in text.splitlines() if "admin_port" not in line))
    result = site.tune("sample_ms=1500")
    assert (result.exit_code, result.stdout.count("has no admin_port")) == (1, 2)


def test_the_home_of_a_pubend_is_tuned_at_all_its_candidates(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    ports = free_ports(4)
    lines = ['overlay = "site"']
    for name, port, admin_port in (("b1", *ports[:2]), ("b2", *ports[2:])):
        lines += [f"[brokers.{name}]", f"port = {port}", f"admin_port = {admin_port}"]
    # Nobody answers there: the home runs nowhere, and is tuned for when it does.
    home = ["[pubends.q]", 'brokers = ["b1", "b2"]', f'data = "postgresql://127.0.0.1:{free_ports(1)[0]}/site"']
    file.write_text("\n".join([*lines, "[[links]]", 'between = ["b2", "b1"]', *home, ""]))
    with running(file, ["b1", "b2"]) as nodes:
        result = CliRunner().invoke(app, ["tune", str(file), "sample_ms=1500", "--json"])
        assert result.exit_code == 0, result.output
        assert [each["name"] for each in msgspec.json.decode(result.stdout)] == [
            "b1",
            "b2",
            "q.home at b1",
            "q.home at b2",
        ]
        found = [node.overlay.homes["q.home"].place.tunables["congestion"] for node in nodes.values()]
        assert [each.sample_ms for each in found] == [1500, 1500]  # type: ignore[union-attr]
        only = CliRunner().invoke(app, ["tune", str(file), "sample_ms=1600", "--broker", "q.home", "--json"])
        assert [each["name"] for each in msgspec.json.decode(only.stdout)] == ["q.home at b1", "q.home at b2"]
        assert nodes["b1"].overlay.settings_for("b1").congestion.sample_ms == 1500
