"""``penstock subscribe`` against live brokers: prints what matches, in lines that can be published again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from client.scripted import ScriptedBroker, broker_in_a_thread, deliver
from commands import LIMIT_S, Commands
from penstock.cli.app import app
from penstock.cli.subscribe import json_line, parse_start, shown_lag, shown_line
from penstock.client.client import connect
from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.model.tick import tick_at
from penstock.protocol.frames import Acknowledge, Frame, Horizons, Subscribe, Subscribed
from penstock.session.inbox import Lag
from penstock.session.received import Received


def received(attributes: dict[str, Any], payload: bytes = b"", content_type: str = "") -> Received:
    return Received("quotes", 7, encode_body(MessageId(1, 2, 3_723_004, 5), Message(attributes, payload, content_type)))


def test_a_message_is_one_line_for_people() -> None:
    shown = shown_line(received({"symbol": "YHOO", "volume": 15, "open": 1.5, "ok": True, "gone": None}, b"18.2"))
    assert shown == "01:02:03.004Z quotes symbol='YHOO' volume=15 open=1.5 ok=true gone=null | 18.2"
    assert shown_line(received({"a": "x\ny"}, b"\xff" * 1_000)) == r"01:02:03.004Z quotes a='x\ny' | 1,000 bytes"
    assert shown_line(received({}, b"a\nb")).endswith("| 3 bytes")
    assert shown_line(received({}, b"x" * 100)).endswith("x…")


def test_a_message_is_one_line_of_json() -> None:
    line = msgspec.json.decode(json_line(received({"a": 1}, b"text\n", "text/plain")))
    assert line["attributes"] == {"a": 1}
    assert (line["payload"], line["content_type"], line["pubend"], line["tick"]) == (
        "text\n",
        "text/plain",
        "quotes",
        7,
    )
    assert msgspec.json.decode(json_line(received({}, b"\x00\xff")))["payload_base64"] == "AP8="


def test_where_to_begin_is_read_from_the_command_line() -> None:
    assert parse_start(["quotes=12", "a=b=0"]) == {"quotes": 12, "a=b": 0}
    assert parse_start([]) is None
    assert parse_start(["earliest"]) == "earliest"
    assert parse_start(["2026-11-15T10:00:00Z"]) == datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "texts",
    [
        ["quotes"],
        ["=7"],
        ["quotes=-1"],
        ["quotes=x"],
        ["q=1", "q=2"],
        [f"q={2**63}"],
        ["2026-11-15T10:00:00"],
        ["earliest", "q=1"],
        ["earliest", "latest"],
        ["1960-01-01T00:00:00Z"],
    ],
)
def test_beginnings_that_are_none_are_misuse(texts: list[str]) -> None:
    arguments = [word for text in texts for word in ("--from", text)]
    result = CliRunner().invoke(app, ["subscribe", "penstock://127.0.0.1:1", "TRUE", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_it_begins_where_it_is_told_and_tells_where_to_go_on() -> None:
    def serve(frame: Subscribe) -> list[Frame]:
        start = dict(frame.positions).get("quotes", 0)
        return [Subscribed(frame.number, "TRUE", (), (("quotes", start),)), *map(deliver, range(start, 50))]

    broker = ScriptedBroker({Subscribe: serve})
    arguments = ["subscribe", "", "TRUE", "--json", "--count", "5", "--show-position"]
    ticks: list[int] = []
    position: list[str] = []
    with broker_in_a_thread(broker):
        arguments[1] = broker.address
        for _ in range(2):
            result = CliRunner().invoke(app, [*arguments, *position])
            assert result.exit_code == 0, result.stderr
            ticks += [msgspec.json.decode(line)["tick"] for line in result.stdout.splitlines()]
            position = result.stderr.partition("go on with ")[2].split()
    assert ticks == list(range(10))
    assert position == ["--from", "quotes=10"]


@pytest.mark.parametrize(
    "options", [["--manual"], ["--durable", "my app"], ["--missing", "never"], ["--durable", "x" * 201]]
)
def test_options_that_cannot_be_are_misuse(options: list[str]) -> None:
    result = CliRunner().invoke(app, ["subscribe", "penstock://127.0.0.1:1", "TRUE", *options])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("options", [[], ["--manual"]])
def test_what_was_printed_of_a_durable_subscription_is_acknowledged(options: list[str]) -> None:
    def serve(frame: Subscribe) -> list[Frame]:
        begins = Horizons(0, 1, frame.number.to_bytes(4), is_only=True, present=tick_at(2_500))
        return [Subscribed(frame.number, "TRUE", (), (("quotes", 1),)), begins, *map(deliver, range(1, 50))]

    broker = ScriptedBroker({Subscribe: serve})
    wishes = ["--durable", "app", "--from", "earliest", "--missing", "latest", "--show-lag", "--count", "5", *options]
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["subscribe", broker.address, "TRUE", *wishes])
        assert result.exit_code == 0, result.stderr
        pause = threading.Event()
        while not broker.peer.is_gone:
            assert not pause.wait(0.001)
    assert broker.peer.of(Subscribe) == [Subscribe(1, "TRUE", otherwise=0, missing="latest", durable="app")]
    assert broker.peer.of(Acknowledge)[-1] == Acknowledge(((0, 6),), 1)
    assert "lag: quotes 2.5 s, " in result.stderr


def test_lag_is_one_line() -> None:
    assert shown_lag({}) == "lag: no pubend has begun"
    assert shown_lag({"q": Lag(61_000, 1_200)}) == "lag: q 61.0 s, 1,200 pending"


def subscribed(brokers: Commands, *arguments: str, messages: list[dict[str, Any]]) -> Result:
    """Runs the command, and publishes the messages once its subscription is in force."""

    async def publish() -> None:
        async with connect(brokers.url("pb1")) as client:
            for each in messages:
                await client.publish(each, b"p")

    def publish_later() -> None:
        brokers.wait_for(lambda: brokers.nodes["sb1"].broker.status().subscriptions == 1)
        brokers.wait_for(lambda: brokers.nodes["pb1"].broker.status().filters.entries == 1)
        asyncio.run(publish())

    beside = threading.Thread(target=publish_later)
    beside.start()
    try:
        return brokers.run("subscribe", brokers.url("sb1"), *arguments)
    finally:
        beside.join(LIMIT_S)


def test_what_matches_is_printed_up_to_the_count(brokers: Commands) -> None:
    messages = [{"n": number} for number in range(20)]
    result = subscribed(brokers, "n >= 5", "--count", "3", "--json", messages=messages)
    assert result.exit_code == 0, result.stderr
    lines = [msgspec.json.decode(line) for line in result.stdout.splitlines()]
    assert [line["attributes"]["n"] for line in lines] == [5, 6, 7]
    assert "subscribed at sb1" in result.stderr
    assert "3 messages" in result.stderr
    again = brokers.run("publish", brokers.url("pb1"), "--jsonl", "-", stdin=result.stdout)
    assert "3 messages published" in again.stderr


def test_a_limit_in_seconds_ends_it_with_what_there_was(brokers: Commands) -> None:
    result = brokers.run("subscribe", brokers.url("sb1"), "n > 5", "--seconds", "0.1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 messages" in result.stderr


def test_an_interrupt_ends_it_without_a_trace(brokers: Commands) -> None:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "subscribe", brokers.url("sb1"), "TRUE"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "subscribed at sb1" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stdout, stderr) == (130, "", "0 messages\n")


@pytest.mark.parametrize(
    ("url", "selector", "code"),
    [("penstock://127.0.0.1:1", "a >", 2), ("x", "a > 1", 2), ("penstock://127.0.0.1:1", "a > 1", 1)],
)
def test_mistakes_and_failures_have_their_codes(url: str, selector: str, code: int) -> None:
    result = CliRunner().invoke(app, ["subscribe", url, selector])
    assert result.exit_code == code
    assert "error: " in result.stderr
