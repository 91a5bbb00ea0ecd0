"""``penstock top``: one look, many looks, by client connection and by admin port, an end by Ctrl-C, and the picture."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.test_status_rows import pubend
from commands import Commands, running
from penstock.cli.app import app
from penstock.cli.top import Look, broker_rows, picture
from penstock.lab.demo_overlay import free_ports
from penstock.protocol.status import BrokerStatus, with_homes
from statuses import broker_status


def test_one_look_shows_all_brokers_of_a_file(brokers: Commands) -> None:
    brokers.run("publish", brokers.url("pb1"), "--generate", "12")
    result = brokers.run("top", str(brokers.file), "--once")
    assert result.exit_code == 0, result.stderr
    for part in ("2 brokers, 0 pubends limited", "pb1.a", "pb1.b", "sb1", "messages/s"):
        assert part in result.stdout


def test_one_look_is_told_as_json(brokers: Commands) -> None:
    result = brokers.run("top", brokers.url("pb1"), "--once", "--json")
    assert result.exit_code == 0, result.stderr
    told = msgspec.json.decode(result.stdout)
    assert list(told["brokers"]) == ["pb1"]
    assert list(told["brokers"]["pb1"]["congestion"]["pubends"]) == ["pb1.a", "pb1.b"]
    assert told["problems"] == {}


def test_who_does_not_answer_is_shown_as_such(brokers: Commands) -> None:
    (port,) = free_ports(1)
    for target in (f"penstock://127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
        result = brokers.run("top", target, "--once", "--json")
        assert result.exit_code == 1
        (problem,) = msgspec.json.decode(result.stdout)["problems"].values()
        assert "refused" in problem


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("https://127.0.0.1:9001", "without TLS"),
        ("http://127.0.0.1", "is not an admin address"),
        ("http://127.0.0.1:x", "is not an admin address"),
    ],
)
def test_an_admin_address_is_checked(target: str, complaint: str) -> None:
    result = CliRunner().invoke(app, ["top", target, "--once"])
    assert (result.exit_code, complaint in result.stderr) == (2, True)


def test_brokers_are_seen_by_their_admin_ports_too(tmp_path: Path) -> None:
    port, admin_port = free_ports(2)
    file = tmp_path / "overlay.toml"
    file.write_text(
        f'overlay = "x"\n[security]\nadmin_token = "key"\n[brokers.b1]\nport = {port}\nadmin_port = {admin_port}\n'
    )
    address = f"http://127.0.0.1:{admin_port}"
    with running(file, ["b1"]):
        result = CliRunner().invoke(app, ["top", address, "--once", "--json", "--token", "key"])
        assert list(msgspec.json.decode(result.stdout)["brokers"]) == ["b1"]
        result = CliRunner().invoke(app, ["top", address, "--once", "--json", "--token", "other"])
        assert "admin_token" in msgspec.json.decode(result.stdout)["problems"][address]


def test_looks_go_on_until_ctrl_c_which_is_no_failure(brokers: Commands) -> None:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "top", str(brokers.file)]
    with subprocess.Popen([*command, "--json", "--interval", "0.1"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        looks = [msgspec.json.decode(process.stdout.readline()) for _ in range(3)]
        os.kill(process.pid, signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 0
    assert all(set(look["brokers"]) == {"pb1", "sb1"} for look in looks)
    assert looks[0]["time"] < looks[2]["time"]


def told(published: int = 0, delivered: int = 0, **changes: Any) -> BrokerStatus:
    usual = {"links": ["ib"], "clients": 2, "subscriptions": 3, "outbox_bytes": 0, "incarnation": 1}
    return broker_status({**usual, "counts": {"published": published, "delivered": delivered}, **changes})


def shown(look: Look, before: Look | None = None) -> str:
    printer = Console(width=160, record=True, file=StringIO())
    printer.print(picture(look, before, title="now"))
    return printer.export_text()


def test_counts_become_rates_between_two_looks() -> None:
    before = Look(10.0, {"pb": told(100, 50), "sb": told(0, 0, incarnation=7)})
    look = Look(12.0, {"pb": told(1_100, 51), "sb": told(5, 5, incarnation=8), "new": told()})
    rows = {row[0]: row for row in broker_rows(look, before)}
    assert rows["pb"] == ("pb", "ib", "2", "3", "500", "0", "0")
    assert rows["sb"][4:6] == ("", ""), "a broker that has started anew has begun to count anew"
    assert rows["new"][4:6] == ("", "")
    assert {row[4] for row in broker_rows(look, None)} == {""}


def test_a_picture_has_brokers_pubends_streams_and_problems() -> None:
    stream = {"horizon_rate": 0.5, "lag_ms": 900, "recovering": True, "nack_window_ms": 300}
    congestion = {"pubends": {"pb.1": pubend(allowed_msg_s=7.5, uca_host="sb")}, "streams": {"pb.1": stream}}
    text = shown(Look(1.0, {"pb": told(congestion=congestion)}, {"sb": "did not answer"}))
    for part in ("now", "brokers", "pubends", "streams", "7.5", "limited by", "300\u00a0ms", "sb: did not answer"):
        assert part in text
    assert "pubends" not in shown(Look(1.0, {"ib": told()}))


def test_too_many_rows_are_counted() -> None:
    pubends = {f"p{number:03}": pubend() for number in range(250)}
    text = shown(Look(1.0, {"pb": told(congestion={"pubends": pubends})}))
    assert "and 50 more" in text
    assert ("p199" in text, "p200" in text) == (True, False)


def test_a_home_has_a_row_of_its_own() -> None:
    home = {"broker": "q.home", "links": ["pb"]}
    rows = broker_rows(Look(1.0, with_homes({"pb": broker_status({"broker": "pb", "homes": {"q.home": home}})})), None)
    assert [row[:2] for row in rows] == [("pb", "none"), ("q.home", "pb")]
