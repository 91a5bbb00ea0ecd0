"""``penstock multicast``: several real processes on loopback join, send and are limited."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec

from penstock.lab.demo_overlay import free_ports

GROUP_HOST, CONTROL_HOST = "239.77.6.1", "239.77.6.2"


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "multicast", *arguments]
    environment = {**os.environ, "PENSTOCK_MULTICAST_KEY": "a key for tests", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_members_in_processes_of_their_own_hear_each_other_and_the_limit() -> None:
    (port,) = free_ports(1)
    where = ["--control", f"{CONTROL_HOST}:{port}", "--interface", "lo"]
    group = f"{GROUP_HOST}:{port}"
    receiver = start("join", group, *where, "--name", "receiver", "--count", "3", "--json")
    sender = start("send", group, *where, "--name", "sender", "--json")
    try:
        assert receiver.stderr is not None
        assert "joined as receiver" in receiver.stderr.readline()
        limit = start("limit", "2KB", *where, "--set", "epoch_ms=200", "--json")
        told, problem = limit.communicate(timeout=90)
        assert limit.returncode == 0, problem
        assert msgspec.json.decode(told)["version"] == 1
        sent, _ = sender.communicate("one\ntwo\nthree\n", timeout=90)
        heard, _ = receiver.communicate(timeout=90)
        assert [msgspec.json.decode(line)["payload"] for line in heard.splitlines()] == ["one", "two", "three"]
        assert msgspec.json.decode(sent)["sent"] == 3
        assert msgspec.json.decode(sent)["version"] == 1, "the limit has reached the sender"
    finally:
        for each in (receiver, sender):
            each.kill()
            each.wait()


def test_misuse_is_explained() -> None:
    process = start("join", "10.0.0.1:5000")
    _, problem = process.communicate(timeout=90)
    assert process.returncode == 2
    assert "is not a multicast address" in problem
