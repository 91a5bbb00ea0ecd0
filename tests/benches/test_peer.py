from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.live_driver import DriverError
from bench.peers.clients import Library
from bench.peers.mosquitto import Mosquitto
from bench.peers.peer import Service, version_of
from bench.peers.penstock import PenstockPeer, UntrackedPenstock
from bench.peers.server import running

from penstock.lab.demo_overlay import free_ports


class NotThere(Mosquitto):
    package = "no-such-package"
    program = "no-such-program"


def test_a_peer_that_is_not_installed_is_named_with_its_package() -> None:
    assert NotThere().missing() == "Debian package no-such-package is not installed"
    assert version_of("no-such-package") == ""


def test_penstock_is_always_there() -> None:
    assert PenstockPeer().missing() == ""


def test_penstock_takes_part_with_and_without_records_and_differs_in_nothing_else() -> None:
    tracked, untracked = (peer.plan(Service.BEST_EFFORT) for peer in (PenstockPeer(), UntrackedPenstock()))
    assert (tracked.tracking, untracked.tracking) == ("", "null")
    assert replace(untracked, tracking="") == tracked


def test_a_library_that_is_not_installed_is_named() -> None:
    library = Library("ours", "no-such-distribution", "program", "Penstock")
    assert library.missing() == "Python package no-such-distribution is not installed"


def test_a_broker_that_ends_at_its_start_is_quoted(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = ["sh", "-c", "echo the disk is full; exit 3"]
    with pytest.raises(DriverError, match="sh ended with code 3 at its start: the disk is full"):
        running(command, port=port, folder=tmp_path).__enter__()
