"""The examples of STOMP run, in Python, JavaScript and a shell, against a broker of their own overlay file.

What a test needs beside Python is skipped by name where it is not there: Node with npm and its packages, and nc.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.lab.delivery.kill9.process import Kill9Process
from penstock.lab.demo_overlay import free_ports

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "stomp"
PORTS: Final = ("7001", "61613", "61614")
LIMIT_S: Final = 120.0
"""Time after which a test that waits gives up; generous, since nothing is judged by the clock."""

pytestmark = pytest.mark.live


class Office:
    """The broker of the example, with other ports, and a copy of all files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        overlay = folder / "overlay.toml"
        overlay.write_text(re.sub("|".join(PORTS), lambda found: self.ports[found[0]], overlay.read_text()))
        self._log = folder / "office.log"
        command = [sys.executable, "-m", "penstock.live", str(overlay), "--name", "office"]
        self._broker = Kill9Process(command, self._log)

    def start(self) -> None:
        before = self._listened()
        self._broker.start()
        until(lambda: self._listened() > before, self._broker)

    def kill(self) -> None:
        self._broker.kill()

    @property
    def address(self) -> tuple[str, str]:
        return "127.0.0.1", self.ports["61613"]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _listened(self) -> int:
        return self._log.read_text().count(" listens at ") if self._log.exists() else 0


class Working:
    """A worker of the example as a process."""

    def __init__(self, office: Office, name: str) -> None:
        self._log = office.folder / f"{name}.log"
        script = str(office.folder / "worker.py")
        self.process = Kill9Process([sys.executable, script, "work", ":".join(office.address)], self._log)
        self.process.start()

    @property
    def done(self) -> list[str]:
        """Jobs whose ACK has its receipt."""
        return re.findall(r"^done (\S+)$", self._log.read_text(), re.MULTILINE)

    @property
    def in_doubt(self) -> set[str]:
        """Jobs that it has begun and has no receipt for."""
        return {*re.findall(r"^doing (\S+)", self._log.read_text(), re.MULTILINE)} - {*self.done}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    found = Office(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.kill()


def until(condition: Callable[[], bool], process: Kill9Process) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not condition():
        assert process.is_running, process.log
        assert time.monotonic() < deadline_s, process.log
        time.sleep(0.02)


def test_workers_in_python_do_every_job_though_one_of_them_and_the_broker_are_killed(office: Office) -> None:
    script, address = str(office.folder / "worker.py"), ":".join(office.address)
    assert office.run(sys.executable, script, "send", "60", address) == "sent 60 jobs\n"
    workers = [Working(office, name) for name in ("first", "second")]
    try:
        until(lambda: len(workers[0].done) >= 5, workers[0].process)
        workers[0].process.kill()
        office.kill()
        # What was being done then may be done although nobody was told so.
        in_doubt = {*workers[0].in_doubt, *workers[1].in_doubt}
        office.start()
        until(lambda: len({*workers[0].done, *workers[1].done} | in_doubt) == 60, workers[1].process)
        # Nothing that was done with a receipt is done again, by whomever.
        done = Counter(workers[0].done + workers[1].done)
        assert max(done.values()) == 1
    finally:
        for worker in workers:
            worker.process.kill()


@pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is missing")
def test_javascript_gets_the_quotes_that_it_selects_over_websocket(office: Office) -> None:
    installed = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=office.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"the packages of the example cannot be had: {installed.stderr.strip().splitlines()[-1:]}")
    said = office.run("node", "quotes.mjs", f"ws://127.0.0.1:{office.ports['61614']}/").splitlines()
    assert sorted(said) == ["YHOO costs 18.2", "YHOO costs 20.5", "all receipts are here"]


@pytest.mark.skipif(shutil.which("nc") is None, reason="nc is missing (Debian: netcat-openbsd)")
def test_a_shell_sends_a_message_and_takes_it_from_the_queue(office: Office) -> None:
    said = office.run("sh", "hello.sh", *office.address)
    assert "\n\nHello from a shell\n" in said
    assert re.findall(r"^receipt-id:(\S+)$", said, re.MULTILINE) == ["sent", "subscribed", "done", "bye"]
    # It is done, so a second run gets only what it sends.
    assert office.run("sh", "hello.sh", *office.address).count("Hello from a shell") == 1


def test_the_lock_of_the_packages_names_no_place_to_load_them_from() -> None:
    lock = (EXAMPLE / "package-lock.json").read_text()
    assert '"integrity": "sha512-' in lock
    assert "resolved" not in lock
    assert "://" not in lock
