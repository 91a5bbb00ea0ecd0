"""``penstock status`` of live brokers, and of those that are not there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from commands import Commands
from penstock.cli.app import app
from penstock.cli.connecting import Party
from penstock.cli.status import (
    Asked,
    durable_rows,
    last_values_rows,
    listed,
    pubend_rows,
    show,
    stream_rows,
    targets,
)
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import OverlayPlan, free_ports
from penstock.model.tick import tick_at
from penstock.protocol.status import BrokerStatus
from statuses import broker_status

NOON_MS = 1_763_208_000_000
"""2025-11-15, 12:00 UTC."""


def tables(output: str) -> dict[str, list[list[str]]]:
    """The rows of each table by its title."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in output.splitlines():
        if "│" in line:
            rows.append([cell.strip() for cell in line.split("│")[1:-1]])
        elif line and line[0].isalpha():
            rows = found[line.strip()] = []
    return found


def pubend(last_tick: int, trimmed_below: int = 0, size_bytes: int = 0, **hosts: int) -> dict[str, object]:
    return {"last_tick": last_tick, "trimmed_below": trimmed_below, "size_bytes": size_bytes, "hosts": hosts}


def stream(horizon: int, heard: int, catch_ups: int = 0) -> dict[str, int]:
    return {"horizon": horizon, "heard": heard, "catch_ups": catch_ups}


def told(**guaranteed: object) -> BrokerStatus:
    return broker_status({"guaranteed": guaranteed})


def test_all_brokers_of_a_file_are_shown(brokers: Commands) -> None:
    brokers.run("publish", brokers.url("pb1"), "--generate", "12")
    result = brokers.run("status", str(brokers.file))
    assert result.exit_code == 0, result.stderr
    rows = tables(result.stdout)["brokers"]
    assert [row[0] for row in rows] == ["pb1", "sb1"]
    assert [row[2] for row in rows] == ["sb1", "pb1"]
    assert rows[0][5] == "12"


def test_guaranteed_pubends_and_the_streams_of_hosts_are_shown(brokers: Commands) -> None:
    with connect_sync(brokers.url("sb1")) as client, client.subscribe("TRUE") as wanted:
        wanted.ready()
        brokers.run("publish", brokers.url("pb1"), "--generate", "12", "--pubend", "pb1.b")
        brokers.wait_for(lambda: brokers.delivered() == 12)
        result = brokers.run("status", str(brokers.file))
    assert result.exit_code == 0, result.stderr
    shown = tables(result.stdout)
    assert [row[:2] for row in shown["guaranteed pubends"]] == [["pb1.a", "pb1"], ["pb1.b", "pb1"]]
    assert [row[3] != "0" for row in shown["guaranteed pubends"]] == [False, True]
    assert all(row[5] == "no" and row[6].startswith("sb1 ") for row in shown["guaranteed pubends"])
    assert [row[:2] for row in shown["streams"]] == [["sb1", "pb1.a"], ["sb1", "pb1.b"]]
    assert [row[:2] for row in shown["congestion: rates of pubends"]] == [["pb1.a", "pb1"], ["pb1.b", "pb1"]]
    assert [row[:2] for row in shown["congestion: streams of hosts"]] == [["sb1", "pb1.a"], ["sb1", "pb1.b"]]


def test_there_are_no_tables_of_what_there_is_not(brokers: Commands) -> None:
    assert list(tables(brokers.run("status", brokers.url("sb1")).stdout)) == ["brokers"]


def test_a_pubend_shows_its_log_and_the_hosts_furthest_behind_first() -> None:
    last = tick_at(NOON_MS, 7)
    hosts = {"sb1": last + 1, "sb2": tick_at(NOON_MS - 61_500)}
    figures = pubend(last, tick_at(NOON_MS - 300_000), 12_345, **hosts)
    ((*row, shown),) = pubend_rows({"pb1": told(pubends={"q": figures}, held_back="the disk is full")})
    assert row == ["q", "pb1", "2025-11-15 12:00:00", "12,345", "2025-11-15 11:55:00", "yes"]
    assert shown.replace("\u00a0", " ").splitlines() == ["sb2 61.5 s", "sb1 0.0 s"]


def test_of_many_hosts_some_are_shown_and_the_others_counted() -> None:
    hosts = {f"sb{number}": tick_at(NOON_MS - 1_000 * number) for number in range(1_000)}
    ((*_, shown),) = pubend_rows({"pb1": told(pubends={"q": pubend(tick_at(NOON_MS), **hosts)})})
    lines = shown.replace("\u00a0", " ").splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("sb999 999.0 s", "and 995 more", 6)


def test_a_stream_is_as_far_behind_as_its_pubend_says_also_if_its_host_hears_nothing() -> None:
    horizon = tick_at(NOON_MS)
    host = told(streams={"q": stream(horizon, horizon - 1, 2)})
    (alone,) = stream_rows({"sb1": host})
    (both,) = stream_rows({"pb1": told(pubends={"q": pubend(tick_at(NOON_MS + 2_500))}), "sb1": host})
    assert alone == ("sb1", "q", "2025-11-15 12:00:00", "0.0\u00a0s", "2")
    assert both == ("sb1", "q", "2025-11-15 12:00:00", "2.5\u00a0s", "2")


def test_what_is_too_wide_for_the_terminal_is_told_in_paragraphs() -> None:
    columns = {"pubend": "left", "last tick": "left", "hosts behind": "left", "note": "left"}
    rows = [("q", "2025-11-15 12:00:00", "sb2 61.5\u00a0s\nsb1 0.0\u00a0s", ""), ("r", "nothing", "none", "")]
    assert list(listed(columns, rows, width=40)) == [
        "  pubend q: last tick 2025-11-15",
        "    12:00:00; hosts behind sb2 61.5\u00a0s,",
        "    sb1 0.0\u00a0s; note -",
        "  pubend r: last tick nothing; hosts",
        "    behind none; note -",
    ]


def test_a_broker_that_says_nothing_of_guarantees_is_no_problem() -> None:
    assert not list(pubend_rows({"old": broker_status()}))
    assert not list(stream_rows({"old": broker_status()}))


def test_one_broker_is_told_as_json(brokers: Commands) -> None:
    result = brokers.run("status", brokers.url("sb1"), "--json")
    assert result.exit_code == 0, result.stderr
    (told,) = msgspec.json.decode(result.stdout)
    assert told.keys() == {"name", "url", "status", "problem"}
    assert told["name"] == told["status"]["broker"] == "sb1"
    assert told["status"]["clients"] == 1
    assert told["status"]["guaranteed"].keys() >= {"pubends", "streams", "held_back"}


def test_a_broker_that_is_not_there_is_shown_and_fails(brokers: Commands, tmp_path: Path) -> None:
    plan = OverlayPlan({"pb1": (), "sb1": (), "sb2": ()}, [("pb1", "sb1"), ("pb1", "sb2")])
    file = tmp_path / "larger.toml"
    file.write_text(plan.toml({**brokers.ports, "sb2": free_ports(1)[0]}))
    result = brokers.run("status", str(file))
    assert result.exit_code == 1
    assert "unreachable" in result.stdout
    assert "sb2 (down)" in result.stdout
    assert "sb2: " in result.stderr
    told = msgspec.json.decode(brokers.run("status", str(file), "--json").stdout)
    assert [(each["name"], each["status"] is None) for each in told] == [("pb1", False), ("sb1", False), ("sb2", True)]


def test_a_file_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(tmp_path / "nothing.toml")])
    assert result.exit_code == 2
    assert "nothing.toml" in result.stderr


def test_durable_subscriptions_are_shown_those_furthest_behind_first() -> None:
    durables = {
        "near": {"tick": tick_at(NOON_MS - 500), "host": "sb1"},
        "far": {"tick": tick_at(NOON_MS - 90_000), "host": "sb2"},
    }
    figures = {**pubend(tick_at(NOON_MS)), "durables": durables}
    rows = list(durable_rows({"pb1": told(pubends={"q": figures})}))
    assert [(row[0], row[1], row[2]) for row in rows] == [("far", "q", "sb2"), ("near", "q", "sb1")]
    host = told(durables={"near": {"q": 1_234}})
    assert [row[-1] for row in durable_rows({"pb1": told(pubends={"q": figures}), "sb1": host})] == ["", "1,234"]
    assert not list(durable_rows({"old": broker_status()}))


def test_pubends_that_keep_last_values_are_shown_with_what_they_had_to_drop() -> None:
    kept = {"key": "symbol", "keys": 1_000, "size_bytes": 70_000, "dropped": 2, "damaged": 1}
    figures = {"q": {**pubend(tick_at(NOON_MS)), "last_values": kept}, "r": pubend(tick_at(NOON_MS))}
    rows = list(last_values_rows({"pb1": told(pubends=figures)}))
    assert rows == [("q", "pb1", "symbol", "1,000", "70,000", "2", "1")]


def with_a_home(incarnation: int, replicas: int = 1) -> BrokerStatus:
    """A candidate that runs the home of a pubend."""
    home = {"broker": "q.home", "incarnation": incarnation, "links": ["pb1"]}
    home["guaranteed"] = {"pubends": {"q": pubend(tick_at(NOON_MS), sb1=tick_at(NOON_MS))}}
    candidacy = {"pubend": "q", "candidates": ["pb1", "pb2"], "holder": "pb1", "epoch": 2, "replicas": replicas}
    return broker_status({"broker": "pb1", "links": ["q.home"], "candidacies": [candidacy], "homes": {"q.home": home}})


def test_a_home_is_shown_as_a_broker_and_its_pubend_with_who_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        [
            Asked("pb1", "penstock://127.0.0.1:7001", (), with_a_home(5)),
            Asked("pb2", "penstock://127.0.0.1:7002", (), problem="connection refused"),
        ]
    )
    shown = tables(capsys.readouterr().out)
    assert [row[:3] for row in shown["brokers"]] == [
        ["pb1", "127.0.0.1:7001", "q.home"],
        ["q.home", "in pb1", "pb1"],
        ["pb2", "127.0.0.1:7002", "unreachable"],
    ]
    assert [row[:5] for row in shown["pubends with candidates"]] == [
        ["q", "pb1", "pb1", "2", "1"],
        ["", "pb2", "", "", ""],
    ]
    assert [row[:2] for row in shown["guaranteed pubends"]] == [["q", "q.home"]]


def test_of_two_lives_of_a_home_the_later_one_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show([Asked("pb1", "penstock://a:1", (), with_a_home(5)), Asked("pb2", "penstock://b:1", (), with_a_home(6))])
    rows = tables(capsys.readouterr().out)["brokers"]
    assert [row[:2] for row in rows] == [["pb1", "a:1"], ["pb2", "b:1"], ["q.home", "in pb2"]]


def test_candidates_are_not_expected_to_have_links_to_homes_that_others_run(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(
        'overlay = "x"\n[brokers.pb1]\nport = 7001\n[brokers.pb2]\nport = 7002\n[[links]]\nbetween = ["pb1", "pb2"]\n'
        '[pubends.q]\nbrokers = ["pb1", "pb2"]\ndata = "postgresql://db/x"\n'
    )
    assert [asked.links for asked, _ in targets(str(file), Party())] == [("pb2",), ("pb1",)]
