"""``penstock broker`` as a process: it listens, says so once, ends in order, and says what is wrong with its file."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.broker import LogLevel
from penstock.lab.demo_overlay import free_ports
from penstock.live.logs import LEVELS

LIMIT_S = 60.0


def overlay_file(folder: Path, port: int) -> Path:
    file = folder / "overlay.toml"
    file.write_text(f'overlay = "test"\n[brokers.b1]\nport = {port}\n[brokers.b2]\nport = 0\n')
    return file


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_listens_until_a_signal_and_ends_with_0(number: signal.Signals, tmp_path: Path) -> None:
    file = overlay_file(tmp_path, 0)
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "broker", str(file), "--name", "b1"]
    with subprocess.Popen(
        [*command, "--log-json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.rpartition(":")[2])
        assert line == f"broker b1 listens at penstock://127.0.0.1:{port}\n"
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stdout) == (0, "")
    assert '"event": "started"' in stderr
    assert '"event": "stopped"' in stderr


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["broker", str(overlay_file(tmp_path, 0)), "--name", "b3"])
    assert result.exit_code == 2
    assert "b1, b2" in result.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        result = CliRunner().invoke(app, ["broker", str(overlay_file(tmp_path, port)), "--name", "b1"])
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot be read"), ("overlay =", "overlay.toml"), ("overlay = 'x'\n[brokers.b1]\nprot = 1\n", "port")],
)
def test_a_mistake_in_the_file_is_named(content: str | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    if content is not None:
        file.write_text(content)
    result = CliRunner().invoke(app, ["broker", str(file), "--name", "b1"])
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_the_levels_are_those_of_the_logs() -> None:
    assert tuple(LogLevel) == LEVELS
