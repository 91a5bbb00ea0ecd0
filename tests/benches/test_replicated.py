from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from bench import replicated
from bench.__main__ import _complete
from bench.live_driver import DriverError, Waits
from bench.peers.endpoints import PeerPublisher
from bench.peers.mosquitto import Mosquitto
from bench.peers.peer import Service
from bench.replicated import PEERS, targets

from penstock.model.reporting import QuietReporter


class Failing(Mosquitto):
    name = PEERS[0].name

    def start(self, service: Service, folder: Path) -> NoReturn:
        raise DriverError("no server listens")

    def missing(self) -> str:
        return ""


class Absent(Mosquitto):
    name = PEERS[1].name

    def missing(self) -> str:
        return "it is not installed"


class Acknowledged(PeerPublisher):
    acknowledged = 0


def test_a_system_that_fails_is_in_the_table_as_invalid_and_one_that_is_missing_is_not() -> None:
    table, verdicts = replicated.run(QuietReporter(), quick=True, peers=(Failing(), Absent()))
    assert [row[1:3] for row in table.rows] == [(Failing.name, "invalid")] * 2
    assert table.figures == {}
    assert [row[-1] for row in verdicts.rows] == ["not measured"] * len(targets())


def test_what_is_replicated_follows_what_is_durable_unless_it_is_left_out() -> None:
    assert _complete(["live", "durable"], alone=False) == ["live", "durable", "replicated"]
    assert _complete(["replicated", "durable"], alone=False) == ["replicated", "durable"]
    assert _complete(["durable", "replicated"], alone=True) == ["durable"]
    assert _complete(["live"], alone=False) == ["live"]


def test_a_batch_waits_until_its_last_message_is_acknowledged() -> None:
    waits, counts = Waits(), list[int]()
    with closing(socket.socket()) as unconnected:
        publisher = Acknowledged(unconnected)
        for publisher.sent in (64, 128, 192):
            waits.begin(publisher)
        for publisher.acknowledged in (63, 64, 127, 192):
            waits.end()
            counts.append(len(waits.times_ms))
    assert counts == [0, 1, 1, 3]
