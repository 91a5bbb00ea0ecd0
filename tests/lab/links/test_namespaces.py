"""Links of the kernel carry, are limited and cut, and leave nothing behind; skipped where root does not allow it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.namespaces import NamespaceError, Namespaces, why_no_namespaces

LIMIT_S = 30.0
PORT = 7_000
LINK = ("a", "b")
ECHO = f"""
import socket
server = socket.create_server(("0.0.0.0", {PORT}))
print("listens", flush=True)
while True:
    made, _ = server.accept()
    while data := made.recv(65536):
        made.sendall(data)
"""


@pytest.fixture(scope="module")
def _possible() -> None:
    if why := why_no_namespaces():
        pytest.skip(why)


@pytest.fixture
def pair(_possible: None) -> Iterator[Namespaces]:
    with Namespaces(("a", "b"), [LINK]) as made:
        yield made


def left_over() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, check=True, text=True).stdout


def qdiscs(pair: Namespaces, broker: str) -> str:
    command = ["tc", "-n", pair.namespace(broker), "qdisc", "show"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def asked(pair: Namespaces, text: str) -> str:
    """What the echo at b answers to somebody in a's namespace."""
    script = (
        f"import socket; made = socket.create_connection(({pair.address('b')!r}, {PORT}), timeout={LIMIT_S})\n"
        f"made.sendall({text.encode()!r}); print(made.recv({len(text)}, socket.MSG_WAITALL).decode())"
    )
    command = ["ip", "netns", "exec", pair.namespace("a"), sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT_S).stdout.strip()


@pytest.fixture
def echo(pair: Namespaces) -> Iterator[None]:
    command = ["ip", "netns", "exec", pair.namespace("b"), sys.executable, "-c", ECHO]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listens\n"
        yield
        process.kill()


@pytest.mark.usefixtures("echo")
def test_brokers_reach_each_other_and_are_reached_from_here(pair: Namespaces) -> None:
    assert asked(pair, "hello") == "hello"
    assert pair.passed_bytes(LINK) > 0
    with socket.create_connection((pair.address("b"), PORT), timeout=LIMIT_S) as made:
        made.sendall(b"from here")
        assert made.recv(9, socket.MSG_WAITALL) == b"from here"


@pytest.mark.usefixtures("echo")
def test_a_limited_link_carries_everything(pair: Namespaces) -> None:
    pair.limit(LINK, there_bytes_s=500_000.0, back_bytes_s=400_000.0)
    assert "tbf" in qdiscs(pair, "a")
    assert "rate 4Mbit" in qdiscs(pair, "a")
    assert "rate 3200Kbit" in qdiscs(pair, "b")
    assert asked(pair, "narrow") == "narrow"
    pair.limit(LINK, there_bytes_s=0.0, back_bytes_s=0.0)
    pair.limit(LINK, there_bytes_s=0.0, back_bytes_s=0.0)
    assert "tbf" not in qdiscs(pair, "a") + qdiscs(pair, "b")


@pytest.mark.usefixtures("echo")
def test_a_cut_link_carries_nothing_until_it_is_restored(pair: Namespaces) -> None:
    pair.cut(LINK)
    with pytest.raises(subprocess.CalledProcessError):
        asked(pair, "lost")
    pair.restore(LINK)
    assert asked(pair, "found") == "found"


@pytest.mark.usefixtures("_possible")
def test_links_may_be_narrow_from_the_beginning() -> None:
    with Namespaces(("a", "b"), [LINK], LinkLimits(there_bytes_s=1e5, buffer_bytes=100)) as pair:
        assert "tbf" in qdiscs(pair, "a")
        assert "tbf" not in qdiscs(pair, "b")


@pytest.mark.usefixtures("_possible")
def test_nothing_is_left_behind_also_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces = Namespaces(("a", "b"), [LINK])
    with spaces:
        assert spaces.namespace("a") in left_over()
    assert spaces.namespace("a") not in left_over()

    def fail(*_: object) -> None:
        raise NamespaceError("on purpose")

    monkeypatch.setattr(Namespaces, "_add_link", fail)
    broken = Namespaces(("a", "b"), [LINK])
    with pytest.raises(NamespaceError, match="on purpose"):
        broken.__enter__()
    assert broken.namespace("a") not in left_over()
    assert broken.namespace("b") not in left_over()


@pytest.mark.usefixtures("_possible")
def test_two_sets_of_namespaces_do_not_disturb_each_other() -> None:
    with Namespaces(("a", "b"), [LINK]) as one, Namespaces(("a", "b"), [LINK]) as other:
        assert one.address("a") != other.address("a")
        assert one.namespace("a") != other.namespace("a")


def test_delay_is_not_promised_where_the_kernel_has_no_netem(pair: Namespaces) -> None:
    command = ["tc", "-n", pair.namespace("a"), "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this kernel has no netem: links of namespaces have bandwidth and cuts, but no delay")
    assert "netem" in qdiscs(pair, "a")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert why_no_namespaces() == "network namespaces need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert why_no_namespaces() == "ip and tc (iproute2) not found"


def test_a_command_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "somewhere")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert "ip cannot be run: No such file" in why_no_namespaces()
