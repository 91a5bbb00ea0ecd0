"""``penstock broker`` as a process: it listens, says so once, ends in order, and says what is wrong with its file."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.broker import LogLevel
from penstock.lab.demo_overlay import free_ports
from penstock.system.logs import LEVELS

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


SIGNALLED = """
import os, sys

class AtTheBeginning:
    def find_spec(self, name, path=None, target=None):
        if name == "penstock.cli.app":
            os.kill(os.getpid(), {number})
            print("loading", flush=True)

sys.meta_path.insert(0, AtTheBeginning())
from penstock.cli import main
main()
"""
"""A broker that gets a signal when it begins to load what it needs."""


def signalled(number: signal.Signals, folder: Path) -> subprocess.Popen[str]:
    program = SIGNALLED.format(number=int(number))
    command = [sys.executable, "-c", program, "broker", str(overlay_file(folder, 0)), "--name", "b1", "--log-json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_hangups_from_the_first_moment_on_do_not_kill_a_broker(tmp_path: Path) -> None:
    with signalled(signal.SIGHUP, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        listening, lines = threading.Event(), list[str]()

        def read() -> None:
            assert process.stdout is not None
            lines.append(process.stdout.readline())
            listening.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while not listening.wait(0.005) and process.poll() is None:
            process.send_signal(signal.SIGHUP)
        reader.join(LIMIT_S)
        port = int(lines[0].rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
        process.send_signal(signal.SIGTERM)
        for _ in range(100):
            process.send_signal(signal.SIGHUP)
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert '"event": "overlay-unchanged"' in stderr, "what came too early was carried out"
    assert '"event": "stopped"' in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_that_is_ended_while_it_loads_ends_with_0_and_says_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    with signalled(number, tmp_path) as process:
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stdout, stderr) == (0, "loading\n", "")


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


WITHOUT_THE_DRIVER = """
import importlib.util, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

really_find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "psycopg" else really_find(name, *more)
sys.meta_path.insert(0, Missing())
from penstock.cli import main
sys.exit(main())
"""
"""The command where the extra ``postgres`` is not installed."""


@pytest.mark.parametrize("data", ["data", "[pubends.q]\nbrokers = ['b1']\ndata"])
def test_a_broker_without_the_driver_of_its_database_says_what_to_install(tmp_path: Path, data: str) -> None:
    file = tmp_path / "o.toml"
    file.write_text(f"overlay = 'o'\n[brokers.b1]\nport = 0\n{data} = 'postgresql://db1/penstock'\n")
    command = [sys.executable, "-c", WITHOUT_THE_DRIVER, "broker", str(file), "--name", "b1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)  # noqa: PLW1510 - ours
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "which needs psycopg: pip install 'penstock[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr
