"""``penstock top``: one look, many looks, by client connection and by admin port, and an end by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from commands import Commands, running
from penstock.cli.app import app
from penstock.lab.demo_overlay import free_ports


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
        ("http://127.0.0.1", "is no admin address"),
        ("http://127.0.0.1:x", "is no admin address"),
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
