"""A cluster is measured only when it keeps every message as often as it promises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from bench.peers import nats_cluster, penstock_homes, rabbitmq_cluster
from bench.peers.penstock_homes import HomePlan
from bench.peers.rabbitmq import Node
from bench.peers.server import Server

from penstock.live.config import load_overlay

NODES = [Node(Path("/nowhere"), port, names_port=4, links_port=port + 10) for port in (1, 2, 3)]
NAMES = [node.name for node in NODES]
QUEUE: dict[str, Any] = {
    "name": "kept-quotes",
    "type": "quorum",
    "members": NAMES,
    "online": NAMES[::-1],
    "leader": NAMES[0],
}
URL = "postgresql://penstock@127.0.0.1:5001,127.0.0.1:5002/postgres"


def test_a_quorum_queue_with_all_members_online_is_ready() -> None:
    assert rabbitmq_cluster.unready([QUEUE], NODES) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "classic"}, "classic queue"),
        ({"members": NAMES[:1]}, "online"),
        ({"online": NAMES[:2]}, "online"),
        ({"leader": NAMES[1]}, "leads"),
    ],
)
def test_a_queue_that_is_less_than_that_is_not(change: dict[str, Any], said: str) -> None:
    assert said in rabbitmq_cluster.unready([QUEUE | change], NODES)


def test_a_stream_is_ready_when_its_leader_and_all_replicas_are_there_and_up_to_date() -> None:
    replicas = [{"name": "n0", "current": True}, {"name": "n2", "current": False}]
    stream = {"cluster": {"leader": "n1", "replicas": replicas}}
    assert nats_cluster.unready(stream, ["n0", "n1", "n2"]) == "n2 of n0, n1, n2 are not up to date"
    replicas[1]["current"] = True
    assert nats_cluster.unready(stream, ["n0", "n1", "n2"]) == ""


def test_a_stream_without_a_cluster_is_not_ready() -> None:
    assert nats_cluster.unready({}, ["n0"]) != ""


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ({"pb1": -1, "pb2": -1}, "0 candidates run the home"),
        ({"pb1": 1, "pb2": 1}, "2 candidates run the home"),
        ({"pb1": 0, "pb2": -1}, "0 standbys have the messages that pb1 acknowledges"),
        ({"pb1": 1, "pb2": -1}, ""),
    ],
)
def test_a_home_is_ready_when_one_candidate_runs_it_with_a_standby(replicas: dict[str, int], said: str) -> None:
    assert penstock_homes.unready(replicas) == said


def test_an_overlay_with_a_home_is_one_that_brokers_can_read(tmp_path: Path) -> None:
    plan = HomePlan({"pb1": (), "pb2": ()}, [("pb1", "pb2")], database_url=URL)
    file = tmp_path / "overlay.toml"
    file.write_text(plan.toml({"pb1": 7001, "pb2": 7002}), encoding="utf-8")
    (home,) = load_overlay(file).homes.values()
    assert (home.pubend, home.candidates) == ("orders", ("pb1", "pb2"))
    assert (home.database.url, home.database.replicas_min) == (URL, 1)


def test_the_processor_time_of_a_cluster_is_that_of_all_its_servers() -> None:
    one = Server(os.getpid(), 0)
    three = Server(os.getpid(), 0, others=[os.getpid()] * 2)
    before_s, all_s, after_s = one.cpu_s(), three.cpu_s(), one.cpu_s()
    assert 3 * before_s <= all_s <= 3 * after_s
