"""The compose file for high availability is right: its commands and settings run here as processes, without Docker.

Containers become processes, the names of services become ports on loopback, and volumes become folders. All else is
read from the files of the example. A small ``docker`` of ours carries out what the script for promoting asks for.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

from penstock.client.client import connect
from penstock.lab.databases import database_folder, missing_reason, newest_binaries
from penstock.lab.delivery.kill9.process import Kill9Process
from penstock.lab.demo_overlay import free_ports
from penstock.live.config import load_overlay
from penstock.session.errors import ClientError
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "high-availability"
SERVICES: Final[Mapping[str, Any]] = yaml.safe_load((EXAMPLE / "compose.yml").read_text())["services"]
DATABASES: Final = [name for name, service in SERVICES.items() if str(service.get("image", "")).startswith("postgres")]
BROKERS: Final = [name for name in SERVICES if name not in DATABASES]
DOCKER: Final = """#!{python}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect({path!r})
    asking.sendall(json.dumps(sys.argv[1:]).encode())
    asking.shutdown(socket.SHUT_WR)
    answer = json.loads(asking.makefile().read())
print(answer["said"])
sys.exit(answer["code"])
"""
WAITS: Final = "SELECT application_name, sync_state FROM pg_stat_replication"
LIMIT_S: Final = 300.0
"""Time after which the test gives up; generous, since nothing is judged by the clock."""
PATIENT: Final = ClientSettings(backoff_max_ms=250)


def mounted(service: str, inside: str) -> Path:
    """The file of the example that a container sees at a path."""
    for volume in SERVICES[service]["volumes"]:
        outside, path = str(volume).split(":")[:2]
        if path == inside:
            return EXAMPLE / outside
    raise AssertionError(f"{service} has nothing at {inside}")


class Composed:
    """The services of the compose file as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = iter(free_ports(len(SERVICES)))
        self.ports = {name: next(ports) for name in SERVICES}
        self.processes = {name: self._process(name) for name in SERVICES}
        self.killed: set[str] = set()

    def up(self, *names: str) -> None:
        self.killed -= {*names}
        for name in names:
            if not self.processes[name].is_running:
                self.processes[name].start()

    def kill(self, name: str) -> None:
        self.killed.add(name)
        self.processes[name].kill()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill_all()

    def execute(self, name: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command as it would run in the container."""
        return subprocess.run(  # noqa: PLW1510 - the caller looks at the code
            command, env=self._environment(name), cwd=self.folder, capture_output=True, text=True
        )

    def docker(self, words: list[str]) -> tuple[int, str]:
        """Carries out what was asked of ``docker``."""
        match words:
            case ["compose", "kill", name]:
                self.kill(name)
            case ["compose", "exec", "-T", name, *command]:
                done = self.execute(name, command)
                return done.returncode, done.stdout + done.stderr
            case ["compose", "up", "--detach", *names]:
                self.up(*names)
            case _:
                return 125, f"unknown command: {words}"
        return 0, ""

    def promote(self, name: str) -> subprocess.CompletedProcess[str]:
        """Runs the script of the example, which finds our ``docker``."""
        path = f"{self.folder}:{os.environ['PATH']}"
        return subprocess.run(  # noqa: PLW1510 - the caller looks at the code
            [str(EXAMPLE / "promote.sh"), name], env={**os.environ, "PATH": path}, capture_output=True, text=True
        )

    def url(self, *names: str) -> str:
        return ",".join(f"penstock://127.0.0.1:{self.ports[name]}" for name in names)

    def overlay(self, name: str) -> Path:
        """The overlay file that a broker sees, with what is behind names on loopback."""
        text = mounted(name, "/etc/penstock/overlay.toml").read_text()
        own = load_overlay(mounted(name, "/etc/penstock/overlay.toml"))
        for broker in BROKERS:
            text = text.replace(f"port = {own.place_of(broker).port}", f"port = {self.ports[broker]}")
            text = text.replace(f'host = "{broker}"', 'host = "127.0.0.1"')
        for database in DATABASES:
            text = text.replace(f"{database}:5432", f"127.0.0.1:{self.ports[database]}")
        text = text.replace('bind = "0.0.0.0"', 'bind = "127.0.0.1"')
        # Volumes are a container's own.
        text = text.replace('"/var/lib/penstock"', f'"{self.folder}/{{name}}"')
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def _process(self, name: str) -> Kill9Process:
        service = SERVICES[name]
        words = [*service["entrypoint"], *service["command"]]
        if name in BROKERS:
            assert words[:3] == ["penstock", "broker", "/etc/penstock/overlay.toml"]
            words = [sys.executable, "-m", "penstock", "broker", str(self.overlay(name)), *words[3:]]
        else:
            words[1] = str(mounted(name, words[1]))
            words += ["-c", f"port={self.ports[name]}", "-c", f"unix_socket_directories={self.folder}"]
            settings = [f"{key}={value}" for key, value in self._environment(name).items()]
            # The environment comes with the command, and the account as in the image.
            words = ["env", "-i", *settings, *words]
            words = (
                words if os.geteuid() else ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
            )
        return Kill9Process(words, self.folder / f"{name}.log")

    def _environment(self, name: str) -> dict[str, str]:
        binaries = newest_binaries()
        given = {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}
        own = {"PGHOST": "127.0.0.1", "PGPORT": str(self.ports[name]), "PATH": f"{binaries}:{os.environ['PATH']}"}
        if name in DATABASES:
            assert given["PEER"] in DATABASES
            own |= {"PEER": "127.0.0.1", "PEER_PORT": str(self.ports[given["PEER"]])}
            own["PGDATA"] = str(self.folder / name / "cluster")
        return {**given, **own}


@contextmanager
def docker_for(composed: Composed) -> Iterator[None]:
    """A program ``docker`` in the folder, which has the services do what it is told."""
    path = composed.folder / "docker.socket"
    program = composed.folder / "docker"
    program.write_text(DOCKER.format(python=sys.executable, path=str(path)))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    asking = listening.accept()[0]
                    with asking, asking.makefile() as told:
                        code, said = composed.docker(json.loads(told.read()))
                        asking.sendall(json.dumps({"code": code, "said": said}).encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def composed() -> Iterator[Composed]:
    if missing_reason():
        pytest.skip(missing_reason())
    with database_folder() as folder:
        for name in DATABASES:
            (folder / name).mkdir()
            if not os.geteuid():
                shutil.chown(folder / name, "postgres")
        made = Composed(folder)
        folder.chmod(0o777)
        try:
            with docker_for(made):
                yield made
        finally:
            made.close()


def test_the_files_of_the_example_fit_together() -> None:
    overlay = load_overlay(mounted(BROKERS[0], "/etc/penstock/overlay.toml"))
    assert list(overlay.brokers) == BROKERS
    (home,) = overlay.homes.values()
    assert home.candidates == tuple(BROKERS)
    assert home.database.replicas_min == 1
    for name in BROKERS:
        overlay.check(name)
        service = SERVICES[name]
        assert service["command"] == ["--name", name]
        assert service["ports"] == [f"{overlay.place_of(name).port}:{overlay.place_of(name).port}"]
        assert overlay.place_of(name).host == name
    for name in DATABASES:
        environment = SERVICES[name]["environment"]
        assert (environment["SELF"], environment["FIRST"]) == (name, DATABASES[0])
        assert re.search(rf":{environment['PGPASSWORD']}@db1:5432,db2:5432/", home.database.url)
        assert f"synchronous_standby_names={','.join(DATABASES)}" in SERVICES[name]["command"]
        data = environment["PGDATA"]
        assert any(data.startswith(volume.split(":")[1] + "/") for volume in SERVICES[name]["volumes"])


async def holder_of(composed: Composed, pubend: str) -> str:
    """Which broker runs the home of the pubend, once one does."""
    while True:
        for name in BROKERS:
            assert composed.processes[name].is_running or name in composed.killed, composed.processes[name].log
            with suppress(ClientError, TimeoutError):
                async with asyncio.timeout(2), client_of(composed, name) as client:
                    if f"{pubend}.home" in (await client.status()).homes:
                        return name
        await asyncio.sleep(0.1)


def client_of(composed: Composed, *names: str) -> Any:
    return connect(composed.url(*names), name="shop", token=token_of("shop"), settings=PATIENT)


def token_of(client: str) -> str:
    text = mounted(BROKERS[0], "/etc/penstock/overlay.toml").read_text()
    found = re.search(rf'name = "{client}"\ntoken = "(.*)"', text)
    assert found is not None
    return found[1]


@pytest.mark.live
def test_the_composed_overlay_survives_a_broker_and_then_a_server(composed: Composed) -> None:
    numbers: list[object] = []

    async def scenario() -> None:
        composed.up(*SERVICES)
        holder = await holder_of(composed, "orders")
        others = [name for name in BROKERS if name != holder]
        async with client_of(composed, *others) as publisher, client_of(composed, *reversed(others)) as reader:
            orders = await reader.subscribe("number >= 0").ready()

            async def listen() -> None:
                async for message in orders:
                    numbers.append(message.attributes["number"])

            listening = asyncio.create_task(listen())

            async def publish(count: int) -> None:
                first = len(numbers)
                for number in range(first, first + count):
                    await publisher.publish({"number": number}, pubend="orders")
                await publisher.flush()
                while len(numbers) < first + count:
                    await asyncio.sleep(0.01)

            await publish(10)
            composed.kill(holder)
            await publish(10)
            assert await holder_of(composed, "orders") != holder
            composed.kill("db1")
            promoted = await asyncio.to_thread(composed.promote, "db2")
            assert promoted.returncode == 0, promoted.stderr + promoted.stdout
            await publish(10)
            listening.cancel()
        waits = composed.execute("db2", ["psql", "-U", "penstock", "-d", "penstock", "-AtXc", WAITS])
        assert waits.stdout.strip() == "db1|sync", waits.stderr

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await scenario()

    run(limited())
    assert numbers == list(range(30))


@pytest.mark.live
def test_a_primary_that_was_lost_comes_back_as_the_standby_and_both_may_change_places_again(composed: Composed) -> None:
    def ask(name: str, statement: str) -> str:
        return composed.execute(name, ["psql", "-U", "penstock", "-d", "penstock", "-AtXc", statement]).stdout.strip()

    def wait_for(name: str, statement: str, answer: str) -> None:
        while ask(name, statement) != answer:
            assert all(composed.processes[each].is_running for each in DATABASES), composed.processes[name].log
            time.sleep(0.05)

    composed.up(*DATABASES)
    wait_for("db1", WAITS, "db2|sync")
    assert "CREATE" in ask("db1", "CREATE TABLE t (n int)")
    for lost, promoted, count in (("db1", "db2", 1), ("db2", "db1", 2)):
        composed.kill(lost)
        done = composed.promote(promoted)
        assert done.returncode == 0, done.stderr + done.stdout
        # Waits for the one that was lost, which takes a copy first.
        assert ask(promoted, "INSERT INTO t VALUES (1) RETURNING n").splitlines()[:1] == ["1"]
        assert ask(promoted, WAITS) == f"{lost}|sync"
        assert ask(promoted, "SELECT count(*) FROM t") == str(count)


@pytest.mark.live
def test_a_server_that_lost_its_disk_does_not_take_the_data_of_the_other_one_with_it(composed: Composed) -> None:
    def ask(name: str, statement: str) -> str:
        return composed.execute(name, ["psql", "-U", "penstock", "-d", "penstock", "-AtXc", statement]).stdout.strip()

    def wait_for(name: str, statement: str, answer: str) -> None:
        while ask(name, statement) != answer:
            time.sleep(0.05)

    composed.up(*DATABASES)
    wait_for("db1", WAITS, "db2|sync")
    assert "INSERT" in ask("db1", "SELECT 1 AS n INTO t; INSERT INTO t VALUES (2)")
    composed.kill("db1")
    assert composed.promote("db2").returncode == 0
    wait_for("db2", WAITS, "db1|sync")
    for name in DATABASES:
        composed.kill(name)
    shutil.rmtree(composed.folder / "db1" / "cluster")
    # The one without its disk is back first, finds nobody, and begins anew.
    composed.up("db1")
    wait_for("db1", "SELECT pg_is_in_recovery()", "f")
    composed.up("db2")
    while composed.processes["db2"].is_running and not ask("db2", "SELECT 1"):
        time.sleep(0.05)
    assert not composed.processes["db2"].is_running, "it has taken the empty one's data"
    assert "has other data" in composed.processes["db2"].log
    composed.kill("db1")
    composed.up("db2")
    wait_for("db2", "SELECT count(*) FROM t", "2")


def test_the_script_for_promoting_says_how_it_is_called(composed: Composed) -> None:
    called = composed.promote("db3")
    assert called.returncode == 2
    assert "usage: " in called.stderr
