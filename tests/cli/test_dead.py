"""``penstock dead``: dead letters become tables and JSON, are published again, dropped, or given back."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from client.scripted import ScriptedBroker, broker_in_a_thread
from penstock.cli.app import app
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.frames import (
    Frame,
    Handed,
    Join,
    Outcomes,
    Publish,
    StatusReply,
    StatusRequest,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Verdicts,
)
from penstock.protocol.status import BrokerStatus
from penstock.protocol.work_frames import Outcome, Verdict

IDS = [MessageId(1, 2, 1_700_000_000_000, number) for number in range(2)]


def letter(number: int) -> bytes:
    why: dict[str, AttributeValue] = {
        "dead_group": "g",
        "dead_pubend": "quotes",
        "dead_attempts": 3,
        "dead_reason": "no",
    }
    attributes = {"number": number, **why}
    return encode_body(IDS[number], Message(attributes, b"payload"))


def holding(count: int = 2, *, pubend: str = "dead", missing: tuple[str, ...] = ()) -> ScriptedBroker:
    """A broker with dead letters."""

    def on_join(frame: Join) -> list[Frame]:
        assert (frame.group, frame.pubends) == ("dead-letters", (pubend,))
        bodies = [letter(number) for number in range(count)]
        handed = Handed(pubend, "", frame.number.to_bytes(8), (1, 1, frame.round, 1), [10, 11], [1, 1], bodies)
        return [Subscribed(frame.number, frame.selector, missing), *([handed] if count else [])]

    def on_verdicts(frame: Verdicts) -> list[Frame]:
        told = tuple((tick, attempt, verdict, Outcome.KEPT) for tick, attempt, verdict, _, _ in frame.verdicts)
        return [Outcomes(frame.number, frame.pubend, told)]

    status = msgspec.json.encode(BrokerStatus("b1", dead_letters=pubend))
    return ScriptedBroker(
        {
            StatusRequest: lambda frame: [StatusReply(frame.number, status)],
            Join: on_join,
            Verdicts: on_verdicts,
            Unsubscribe: lambda frame: [Unsubscribed(frame.number)],
        }
    )


def invoked(broker: ScriptedBroker, command: str, *arguments: str) -> tuple[int, str, str]:
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["dead", command, broker.address, *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


def said(broker: ScriptedBroker) -> dict[int, Verdict]:
    return {tick: Verdict(verdict) for each in broker.peer.of(Verdicts) for tick, _, verdict, _, _ in each.verdicts}


def test_dead_letters_are_listed_and_given_back() -> None:
    broker = holding()
    code, shown, _ = invoked(broker, "list")
    assert code == 0
    (line,) = [line for line in shown.splitlines() if str(IDS[0]) in line]
    assert [each for each in ("2023-11-14", "g", "quotes", "3", "no") if each not in line] == []
    assert said(broker) == {10: Verdict.RETURNED, 11: Verdict.RETURNED}


def test_they_are_shown_with_everything() -> None:
    code, shown, _ = invoked(holding(), "show", str(IDS[1]))
    assert code == 0
    found = msgspec.json.decode(shown)
    assert (found["id"], found["attributes"]["number"], found["payload"]) == (str(IDS[1]), 1, "payload")
    code, shown, _ = invoked(holding(), "list", "--json")
    assert [msgspec.json.decode(line)["id"] for line in shown.splitlines()] == [str(each) for each in IDS]


def test_a_letter_is_published_again_without_what_made_it_one() -> None:
    broker = holding()
    code, _, told = invoked(broker, "retry", str(IDS[0]))
    assert (code, told.strip()) == (0, "1 published again")
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.RETURNED}
    (publish,) = [each for each in broker.peer.of(Publish) if each.bodies]
    assert publish.pubend == "quotes"
    assert b"dead" not in publish.bodies[0]


@pytest.mark.parametrize("which", [("--all",), tuple(map(str, IDS))])
def test_letters_are_dropped(which: tuple[str, ...]) -> None:
    broker = holding()
    code, _, told = invoked(broker, "drop", *which)
    assert (code, told.strip()) == (0, "2 dropped")
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.DONE}


@pytest.mark.parametrize(
    ("broker", "arguments", "problem"),
    [
        (holding(0), ("drop", str(IDS[0])), "there is no dead letter"),
        (holding(), ("drop",), "name identifiers, or say --all"),
        (holding(), ("drop", "--all", str(IDS[0])), "either identifiers or --all"),
        (holding(), ("show", "nonsense"), "nonsense"),
        (holding(pubend=""), ("list",), "has no pubend for dead letters"),
        (holding(0, missing=("dead",)), ("list",), "pubend dead cannot be reached"),
    ],
)
def test_what_cannot_be_is_said(broker: ScriptedBroker, arguments: tuple[str, ...], problem: str) -> None:
    code, _, told = invoked(broker, *arguments)
    assert code in (1, 2)
    assert problem in told
