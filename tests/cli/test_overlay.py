"""``penstock overlay``: a file is checked, running brokers put a changed one into force, and settings are listed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from commands import running
from penstock.cli.app import app
from penstock.cli.overlay import database_hosts, settings_page
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode

KEY, OTHER_KEY = "admin-key", "another"
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
NAMES = ("b1", "b2", "b3")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["overlay", *arguments])


@dataclass
class Site:
    """An overlay file, two running brokers that read it, and a third one that may be."""

    file: Path
    ports: dict[str, tuple[int, int]]
    nodes: dict[str, BrokerNode]

    def write(self, *links: tuple[str, str], token: str = KEY, more: str = "", admin: bool = True) -> None:
        lines = ['overlay = "site"', "[security]", f'admin_token = "{token}"']
        for name in sorted({name for link in links for name in link}):
            lines += [f"[brokers.{name}]", f"port = {self.ports[name][0]}", f'pubends = ["{name}.a"]']
            lines += [f"admin_port = {self.ports[name][1]}"] if admin else []
        for left, right in links:
            lines += ["[[links]]", f'between = ["{left}", "{right}"]']
        self.file.write_text("\n".join(lines) + "\n" + more)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ports = free_ports(6)
    found = Site(tmp_path / "overlay.toml", dict(zip(NAMES, zip(ports[:3], ports[3:], strict=True), strict=True)), {})
    found.write(("b2", "b1"))
    with running(found.file, ["b1", "b2"]) as found.nodes:
        yield found


def answers(result: Result) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in msgspec.json.decode(result.stdout)}


def test_brokers_apply_a_changed_file_and_one_that_does_not_run_is_unreachable(site: Site) -> None:
    unchanged = run("apply", str(site.file))
    assert unchanged.exit_code == 0, unchanged.output
    assert unchanged.stdout.count("unchanged") == 2
    site.write(("b2", "b1"), ("b3", "b2"))
    trial = run("apply", str(site.file), "--dry-run")
    assert trial.exit_code == 1
    assert "link b3 to b2 added" in trial.stdout
    assert list(site.nodes["b1"].overlay.brokers) == ["b1", "b2"]
    result = run("apply", str(site.file), "--json")
    told = answers(result)
    assert result.exit_code == 1
    assert [told[name]["result"] for name in NAMES] == ["applied", "applied", "unreachable"]
    assert told["b1"]["change"]["brokers_added"] == ["b3"]
    assert f"127.0.0.1:{site.ports['b3'][1]}" in told["b3"]["reason"]
    assert list(site.nodes["b1"].overlay.brokers) == ["b1", "b2", "b3"]
    site.write(("b2", "b1"))
    back = run("apply", str(site.file))
    assert (back.exit_code, back.stdout.count("broker b3 removed")) == (0, 2)


def test_what_needs_a_restart_is_refused_by_the_broker_concerned_only(site: Site) -> None:
    site.write(("b2", "b1"), more="[defaults]\nretain_ms = 5\n")
    site.file.write_text(site.file.read_text().replace('pubends = ["b1.a"]', 'pubends = ["b1.a", "b1.b"]'))
    result = run("apply", str(site.file), "--json")
    told = answers(result)
    assert result.exit_code == 1
    assert told["b1"]["result"] == "refused"
    assert told["b1"]["reason"] == "needs a restart of broker b1: pubends (b1.a to b1.a, b1.b)"
    assert told["b2"]["result"] == "applied"
    assert site.nodes["b1"].overlay.access.is_open


def test_a_copy_that_is_not_the_brokers_own_file_is_refused(site: Site, tmp_path: Path) -> None:
    copy = tmp_path / "copy.toml"
    copy.write_text(site.file.read_text() + "# another\n")
    told = answers(run("apply", str(copy), "--json"))
    assert {each["result"] for each in told.values()} == {"refused"}
    assert "copy it first" in told["b1"]["reason"]


def test_who_does_not_know_the_token_is_refused(site: Site) -> None:
    site.write(("b2", "b1"), token=OTHER_KEY)
    result = run("apply", str(site.file))
    assert result.exit_code == 1
    assert "admin_token" in result.stdout


def test_without_an_admin_port_the_way_that_is_left_is_named(site: Site) -> None:
    site.write(("b2", "b1"), admin=False)
    told = answers(run("apply", str(site.file), "--json"))
    assert [each["result"] for each in told.values()] == ["unreachable", "unreachable"]
    assert "SIGHUP" in told["b1"]["reason"]


class _Somebody(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[1, 2]")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's signature
        pass


def test_an_answer_of_somebody_else_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    with HTTPServer(("127.0.0.1", 0), _Somebody) as server:
        threading.Thread(target=server.handle_request).start()
        file.write_text(f"overlay = 'x'\n[brokers.b1]\nport = 1\nadmin_port = {server.server_port}\n")
        (told,) = answers(run("apply", str(file), "--json")).values()
    assert (told["result"], "not a broker" in told["reason"]) == ("unreachable", True)


def test_a_good_file_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(
        "overlay = 'x'\n[brokers.b1]\nport = 1\npubends = ['p', 'q']\nbest_effort = ['q']\n[brokers.b2]\nport = 2\n"
        "[[links]]\nbetween = ['b1', 'b2']\n"
    )
    result = run("check", str(file))
    assert result.exit_code == 0, result.output
    assert "2 brokers, 1 links, connected" in result.stdout
    told = msgspec.json.decode(run("check", str(file), "--json").stdout)
    assert (told["islands"], told["links"], told["problems"]) == ([["b1", "b2"]], [["b1", "b2"]], [])
    assert (told["brokers"]["b1"]["guaranteed"], told["brokers"]["b1"]["best_effort"]) == (["p"], ["q"])


@pytest.mark.parametrize(
    ("text", "code", "complaint"),
    [
        ("[brokers.b1]\nport = 1\n[brokers.b2]\nport = 2\n", 1, "not connected: b1 | b2"),
        ("[brokers.b1]\nport = 1\nbind = '0.0.0.0'\n", 1, "let anybody in"),
        (
            "[brokers.b1]\nport = 1\n[brokers.b2]\nport = 1\n",
            2,
            "overlay.toml:5: brokers.b2.port: 127.0.0.1:1 is taken",
        ),
        ("[brokers.b1]\nprot = 1\n", 2, "overlay.toml"),
        ("", 2, "there is no broker"),
    ],
)
@pytest.mark.parametrize("command", ["check", "apply"])
def test_a_bad_file_is_complained_about(text: str, code: int, complaint: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text("overlay = 'x'\n" + text)
    result = run(command, str(file))
    if command == "check" or code == 2:
        assert result.exit_code == code
        assert complaint in " ".join(result.stderr.split())
    else:
        assert result.exit_code == 1


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    for command in ("check", "apply"):
        result = run(command, str(tmp_path / "nothing.toml"))
        assert (result.exit_code, "nothing.toml" in result.stderr) == (2, True)


def test_the_page_of_the_manual_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), (
        "make it anew: penstock overlay settings --markdown > docs/configuration.md"
    )


def test_settings_are_shown_as_table_and_as_json() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["overlay", "settings"])
    assert shown.exit_code == 0
    assert "heartbeat_ms" in shown.stdout
    told = json.loads(runner.invoke(app, ["overlay", "settings", "--json"]).stdout)
    assert told["[congestion]"][0]["name"] == "profile"
    assert runner.invoke(app, ["overlay", "settings", "--markdown"]).stdout == settings_page()


HOMES = """overlay = "site"
[brokers.b1]
port = 7001
[brokers.b2]
port = 7002
[pubends.q]
brokers = ["b1", "b2"]
data = "postgresql://user:hush@db1:5433,db2/site?sslmode=require"
replicas_min = 1
"""


def test_pubends_with_candidates_are_shown_without_the_password_and_connect_nothing(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(HOMES)
    result = run("check", str(file), "--json")
    told = msgspec.json.decode(result.stdout)
    assert told["candidates"] == {
        "q": {"candidates": ["b1", "b2"], "hosts": ["db1:5433", "db2"], "replicas_min": 1, "lease_ms": 2_000}
    }
    assert told["islands"] == [["b1"], ["b2"]]
    assert told["brokers"]["b1"]["neighbours"] == []
    shown = run("check", str(file))
    assert "pubends with candidates" in shown.stdout
    assert "hush" not in result.output + shown.output
    assert "not connected: b1 | b2" in shown.stderr


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://db/x", ["db"]),
        ("postgres://a:b@db1,db2:5433/x", ["db1", "db2:5433"]),
        ("postgresql:///x?host=/tmp", ["this machine"]),
        ("postgresql://user:p%40ss@[::1]:5432", ["[::1]:5432"]),
    ],
)
def test_the_servers_of_a_database_are_told_without_user_and_password(url: str, hosts: list[str]) -> None:
    assert database_hosts(url) == hosts
