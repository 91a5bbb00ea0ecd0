"""``penstock trace``: the tree, the doubts and the exit codes."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from client.scripted import ScriptedBroker, broker_in_a_thread
from client.test_tracing import ID, TRACE, hop
from commands import running
from penstock.cli.app import app
from penstock.cli.trace import shown_trace
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import OverlayPlan, free_ports
from penstock.model.message_id import MessageId
from penstock.protocol.frames import Refused, TraceReply, TraceRequest
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, Hop, Trace, trace_json

PLAIN = replace(TRACE, probable_false_positives=(), unreachable=(), gaps=())


def traced(trace: Trace, *options: str) -> Result:
    broker = ScriptedBroker({TraceRequest: lambda frame: [TraceReply(frame.number, trace_json(trace))]})
    with broker_in_a_thread(broker):
        return CliRunner().invoke(app, ["trace", str(trace.message_id), "--broker", broker.address, *options])


def test_the_way_is_drawn_as_a_tree() -> None:
    console = Console(width=100, file=StringIO())
    with console.capture() as captured:
        console.print(shown_trace(PLAIN))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert lines[:6] == [
        f"message {ID}",
        "├── published 2023-11-14 22:13:20.000 UTC by publisher 7",
        "├── pb  routed",
        "│   └── ib  routed",
        "│       ├── sb  routed",
        "│       │   └── → alice",
    ]
    assert lines[6] == "│       └── tb  routed"
    assert "1 receiver; 4 brokers answered; anything here is wrong" in lines[7]


def test_a_trace_that_is_found_ends_well_and_doubts_are_told() -> None:
    result = traced(TRACE)
    assert result.exit_code == 0
    assert "→ alice" in result.stdout
    assert "could not be asked: xb" in result.stderr
    assert "gap at ib in route/1 (crash), messages from 1970-01-01 00:00:00.001 UTC to" in result.stderr
    assert traced(PLAIN).stderr == ""


def test_programs_get_json() -> None:
    told: dict[str, Any] = msgspec.json.decode(traced(TRACE, "--json").stdout)
    assert (told["message_id"], told["receivers"], told["is_complete"]) == (str(ID), [["sb", "alice"]], False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Hop("b", None, Evidence.UNKNOWN, is_counted=False, answer=None), "could not be asked"),
        (
            Hop(
                "b",
                None,
                Evidence.GAP,
                is_counted=False,
                answer=BrokerAnswer("b", Evidence.GAP, gaps=(GapSeen("b", "route/1", "crash"),)),
            ),
            "its records have a gap (crash)",
        ),
        (
            Hop("b", None, Evidence.UNKNOWN, is_counted=False, answer=BrokerAnswer("b", Evidence.UNKNOWN)),
            "it has no records of that time",
        ),
        (replace(hop("b", None), is_counted=False), "probably a false positive"),
        (
            replace(hop("b", None), answer=BrokerAnswer("b", Evidence.NO, Evidence.YES, Evidence.GAP)),
            "published, deliveries unknown",
        ),
    ],
)
def test_every_broker_says_what_it_is_worth(given: Hop, words: str) -> None:
    assert words in traced(replace(PLAIN, hops=(given,))).stdout


def test_what_is_on_no_record_ends_with_failure_and_says_how_sure_that_is() -> None:
    nowhere = replace(PLAIN, hops=(), routed_by=(), receivers=(), published=Evidence.NO, published_at=None)
    result = traced(nowhere)
    assert (result.exit_code, "was never at broker pb" in result.stderr) == (1, True)
    result = traced(replace(nowhere, unknown=("pb",)))
    assert result.exit_code == 1
    assert "no records of that time: pb" in result.stderr
    assert "so it may have been sent" in result.stderr


def test_an_alias_is_told() -> None:
    assert "its id names broker pb; it was published again at pc" in traced(replace(PLAIN, published_at="pc")).stderr


def test_a_refusal_is_told_with_its_reason() -> None:
    broker = ScriptedBroker({TraceRequest: lambda frame: [Refused("trace", frame.number, "client x may not trace")]})
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["trace", str(ID), "--broker", broker.address])
    assert result.exit_code == 1
    assert "the broker refused to trace a message: client x may not trace" in result.stderr


def test_a_text_that_is_no_identifier_is_misuse_and_nobody_is_asked() -> None:
    result = CliRunner().invoke(app, ["trace", "YHOO"])
    assert result.exit_code == 2
    assert "YHOO" in result.stderr


def test_live_brokers_tell_who_received_a_message_also_after_a_restart(tmp_path: Path) -> None:
    plan = OverlayPlan(
        {"pb1": ("pb1.a",), "ib1": (), "sb1": (), "sb2": ()}, [("ib1", "pb1"), ("sb1", "ib1"), ("sb2", "ib1")]
    )
    ports = dict(zip(plan.pubends, free_ports(4), strict=True))
    file = tmp_path / "overlay.toml"
    file.write_text(plan.toml(ports))

    def url(name: str) -> str:
        return f"penstock://127.0.0.1:{ports[name]}"

    def told_of(message_id: MessageId) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["trace", str(message_id), "--broker", url("sb2"), "--json"])
        assert result.exit_code == 0, result.stderr
        told: dict[str, Any] = msgspec.json.decode(result.stdout)
        return told

    with (
        running(file, list(ports)),
        connect_sync(url("sb1"), name="alice") as alice,
        connect_sync(url("pb1"), name="feed") as feed,
    ):
        subscription = alice.subscribe("TRUE")
        subscription.ready()
        message_id = feed.publish({"number": 1})
        subscription.get()
        before = told_of(message_id)
    assert before["published_at"] == "pb1"
    assert before["routed_by"] == ["pb1", "ib1", "sb1"]
    assert before["receivers"] == [["sb1", "alice"]]
    assert before["is_complete"]
    # All brokers stopped in order: what they know is on their disks.
    with running(file, list(ports)):
        after = told_of(message_id)
    for key in ("published_at", "routed_by", "receivers", "is_complete"):
        assert after[key] == before[key], key


def test_a_broker_at_which_it_expired_says_so() -> None:
    console = Console(width=100, file=StringIO())
    answer = BrokerAnswer("b1", Evidence.YES, expired=True)
    trace = replace(PLAIN, hops=(Hop("b1", None, Evidence.YES, is_counted=True, answer=answer),))
    with console.capture() as captured:
        console.print(shown_trace(trace))
    assert "b1  routed, expired" in captured.get()
    assert trace.expired_at == ("b1",)
    assert msgspec.json.decode(trace_json(trace))["expired_at"] == ["b1"]
