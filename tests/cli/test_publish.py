"""``penstock publish`` against live brokers: what was asked for is taken over, and a refusal is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from client.scripted import PUBEND, ScriptedBroker, broker_in_a_thread
from commands import Commands
from penstock.cli.app import app
from penstock.model import MessageId
from penstock.protocol.frames import Frame, Heartbeat, HeldBack, Publish, PublishAck, Refused, Rewind


def published(brokers: Commands) -> int:
    return int(brokers.nodes["pb1"].broker.status().counts["published"])


def test_one_message_is_published_and_its_id_printed(brokers: Commands) -> None:
    result = brokers.run("publish", brokers.url("pb1"), "-a", "symbol=YHOO", "--payload", "18.2", "--json")
    assert result.exit_code == 0, result.stderr
    assert MessageId.parse(msgspec.json.decode(result.stdout)["id"]).broker == brokers.nodes["pb1"].place.number
    assert "1 messages published, 1 acknowledged, in " in result.stderr
    assert published(brokers) == 1


def test_streams_are_published_from_all_sources(brokers: Commands, tmp_path: Path) -> None:
    url = brokers.url("pb1")
    file = tmp_path / "quotes.csv"
    file.write_text("date,symbol,open,high,low,close,volume\n2004-12-28,YHOO,37.85,37.99,37.65,37.90,11291000\n")
    for arguments, stdin in [
        (["--generate", "450", "--pubend", "pb1.b"], None),
        (["--generate", "20", "--rate", "10000"], None),
        (["--quotes", str(file)], None),
        (["--jsonl", "-"], '{"a": 1}\n{"attributes": {"a": 2}, "payload": "x"}\n'),
        (["--payload", "-"], b"\x00\xff"),
        (["--payload", "soon gone", "--expires", "30"], None),
    ]:
        result = brokers.run("publish", url, *arguments, stdin=stdin)
        assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert published(brokers) == 450 + 20 + 1 + 2 + 1 + 1


@pytest.mark.parametrize("pubend", [[], ["--pubend", "pb1.b"]])
def test_a_broker_without_pubends_takes_messages_for_those_of_others(brokers: Commands, pubend: list[str]) -> None:
    result = brokers.run("publish", brokers.url("sb1"), "-a", "a=1", *pubend)
    assert result.exit_code == 0, result.stderr
    assert "1 messages published, 1 acknowledged, in " in result.stderr
    assert published(brokers) == 1


@pytest.mark.parametrize("broker", ["pb1", "sb1"])
def test_a_pubend_that_does_not_exist_is_misuse_and_those_that_do_are_named(brokers: Commands, broker: str) -> None:
    result = brokers.run("publish", brokers.url(broker), "-a", "a=1", "--pubend", "nowhere")
    assert result.exit_code == 2
    assert "no pubend 'nowhere'; there are: pb1.a, pb1.b" in result.stderr
    assert published(brokers) == 0


def test_a_broken_line_ends_the_stream_with_its_number(brokers: Commands) -> None:
    result = brokers.run("publish", brokers.url("pb1"), "--jsonl", "-", stdin='{"a": 1}\n{"a": \n')
    assert result.exit_code == 2
    assert "standard input, line 2" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["penstock://127.0.0.1:1"],
        ["penstock://127.0.0.1:1", "--generate", "1", "-a", "a=1"],
        ["penstock://127.0.0.1:1", "-a", "a"],
        ["penstock://127.0.0.1:1", "-a", "$a=1"],
        ["penstock://127.0.0.1:1", "-a", "a=1", "--expires", "0"],
        ["penstock://127.0.0.1:1", "-a", "a=1", "--expires", "inf"],
        ["http://127.0.0.1:1", "-a", "a=1"],
    ],
)
def test_misuse_ends_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["publish", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_a_broker_that_is_not_there_is_a_failure() -> None:
    result = CliRunner().invoke(app, ["publish", "penstock://127.0.0.1:1", "-a", "a=1"])
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr


def test_the_numbers_are_told_also_when_messages_were_refused() -> None:
    def refuse(frame: Publish) -> list[Frame]:
        refused = Refused("publish", frame.first, "no", len(frame.bodies), frame.pubend)
        return [refused, Rewind(frame.first, 1, frame.pubend)] if frame.bodies else []

    with broker_in_a_thread(broker := ScriptedBroker({Publish: refuse})):
        result = CliRunner().invoke(app, ["publish", broker.address, "--generate", "3"])
    assert result.exit_code == 1
    assert "3 messages published, 0 acknowledged, in " in result.stderr


def test_why_the_broker_holds_publishers_back_is_told() -> None:
    broker = ScriptedBroker({Publish: lambda _: [HeldBack("disk full", 0, PUBEND)]})
    # At the second one the client has read what was answered to the first, and has told it.
    broker.heartbeat_ms = 300
    over: list[Frame] = [HeldBack("", 0, PUBEND), PublishAck(1, 100, PUBEND)]
    broker.answers[Heartbeat] = lambda _: over if len(broker.peer.of(Heartbeat)) > 1 else [Heartbeat()]
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["publish", broker.address, "-a", "a=1"])
    assert result.exit_code == 0, result.stderr
    assert "held back by scripted: disk full" in result.stderr
    assert "1 messages published, 1 acknowledged, in " in result.stderr
