"""``penstock dead``: dead letters become tables and JSON, are published again, dropped, or given back."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from client.scripted import ScriptedBroker, acknowledgement, broker_in_a_thread
from penstock.cli import dead
from penstock.cli.app import app
from penstock.model.body import decode_attributes, decode_message, encode_body
from penstock.model.dead_letter import encode_dead_letter
from penstock.model.limits import PAYLOAD_BYTES_MAX
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.frames import (
    DurablesReply,
    DurablesRequest,
    Frame,
    Handed,
    Join,
    Outcomes,
    Publish,
    Refused,
    Rewind,
    StatusReply,
    StatusRequest,
    Subscribed,
    SurveyReply,
    SurveyRequest,
    Unsubscribe,
    Unsubscribed,
    Verdicts,
)
from penstock.protocol.status import BrokerStatus
from penstock.protocol.stream_frames import DurableEntry
from penstock.protocol.work_frames import Outcome, Verdict

IDS = [MessageId(1, 2, 1_700_000_000_000, number) for number in range(7)]


def letter(number: int, **others: AttributeValue) -> bytes:
    why: dict[str, AttributeValue] = {
        "dead_group": "g",
        "dead_pubend": "quotes",
        "dead_attempts": 3,
        "dead_reason": "no",
    }
    attributes = {"number": number, **why, **others}
    return encode_body(MessageId(1, 2, 1_700_000_000_000, number), Message(attributes, b"payload"))


class Holder:
    """A group that hands each member two of its messages at a time."""

    def __init__(self, pubend: str, bodies: list[bytes]) -> None:
        self.pubend = pubend
        self.left = {10 + place: body for place, body in enumerate(bodies)}
        self.holders: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.sequence = 0

    def hand_out(self, number: int) -> list[Frame]:
        free = [tick for tick in self.left if tick not in self.holders]
        ticks = free[: 2 - sum(holder == number for holder in self.holders.values())]
        if not ticks:
            return []
        self.sequence += 1
        for tick in ticks:
            self.holders[tick] = number
            self.attempts[tick] = self.attempts.get(tick, 0) + 1
        attempts = [self.attempts[tick] for tick in ticks]
        bodies = [self.left[tick] for tick in ticks]
        return [Handed(self.pubend, "", number.to_bytes(8), (1, 1, 1, self.sequence), ticks, attempts, bodies)]

    def judge(self, frame: Verdicts) -> list[Frame]:
        for tick, _, verdict, _, _ in frame.verdicts:
            if verdict != Verdict.EXTENDED:
                self.holders.pop(tick, None)
            if verdict == Verdict.DONE:
                self.left.pop(tick, None)
        told = tuple((tick, attempt, verdict, Outcome.KEPT) for tick, attempt, verdict, _, _ in frame.verdicts)
        done = any(verdict == Verdict.DONE for _, _, verdict, _, _ in frame.verdicts)
        return [Outcomes(frame.number, frame.pubend, told), *(self.hand_out(frame.number) if done else [])]


def holding(
    count: int = 2, *, pubend: str = "dead", is_there: bool = True, others: int = 0, bodies: list[bytes] | None = None
) -> ScriptedBroker:
    """A broker with dead letters."""
    group = Holder(pubend, [letter(number) for number in range(count)] if bodies is None else bodies)

    def on_join(frame: Join) -> list[Frame]:
        assert (frame.group, frame.pubends) == ("dead-letters", (pubend,))
        return [Subscribed(frame.number, frame.selector, ()), *group.hand_out(frame.number)]

    kept = DurableEntry(
        "dead-letters",
        "",
        "",
        0,
        -1,
        is_away=True,
        behind_ms=0,
        messages=0,
        is_exact=True,
        log_bytes=0,
        members=others,
    )
    status = msgspec.json.encode(BrokerStatus("b1", dead_letters=pubend))
    spans = ((pubend, 0, 1_000),) if is_there else ()
    return ScriptedBroker(
        {
            StatusRequest: lambda frame: [StatusReply(frame.number, status)],
            SurveyRequest: lambda frame: [SurveyReply(frame.number, spans, () if is_there else (pubend,))],
            DurablesRequest: lambda frame: [DurablesReply(frame.number, (kept,))],
            Join: on_join,
            Verdicts: group.judge,
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
    assert [msgspec.json.decode(line)["id"] for line in shown.splitlines()] == [str(each) for each in IDS[:2]]


def test_a_letter_is_published_again_without_what_made_it_one() -> None:
    broker = holding()
    code, _, told = invoked(broker, "retry", str(IDS[0]))
    assert (code, told.strip()) == (0, "1 published again")
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.RETURNED}
    (publish,) = [each for each in broker.peer.of(Publish) if each.bodies]
    assert publish.pubend == "quotes"
    assert b"dead" not in publish.bodies[0]


@pytest.mark.parametrize("which", [("--all",), tuple(map(str, IDS[:2]))])
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
        (holding(0, is_there=False), ("list",), "pubend dead cannot be reached"),
    ],
)
def test_what_cannot_be_is_said(broker: ScriptedBroker, arguments: tuple[str, ...], problem: str) -> None:
    code, _, told = invoked(broker, *arguments)
    assert code in (1, 2)
    assert problem in told


def test_all_are_seen_however_few_a_member_is_handed() -> None:
    broker = holding(7)
    code, shown, told = invoked(broker, "list", "--json")
    assert (code, told) == (0, "")
    assert [msgspec.json.decode(line)["id"] for line in shown.splitlines()] == [str(each) for each in IDS]
    assert said(broker) == dict.fromkeys(range(10, 17), Verdict.RETURNED)


def test_one_is_found_wherever_it_is() -> None:
    broker = holding(7)
    assert invoked(broker, "drop", str(IDS[6]))[2].strip() == "1 dropped"
    assert said(broker) == dict.fromkeys(range(10, 16), Verdict.RETURNED) | {16: Verdict.DONE}


@pytest.mark.parametrize(("command", "done"), [("drop", "7 dropped"), ("retry", "7 published again")])
def test_all_means_all_however_few_a_member_is_handed(command: str, done: str) -> None:
    broker = holding(7)
    code, _, told = invoked(broker, command, "--all")
    assert (code, told.strip()) == (0, done)
    assert said(broker) == dict.fromkeys(range(10, 17), Verdict.DONE)


def test_all_means_those_that_there_were_at_the_beginning() -> None:
    broker = holding(3)
    broker.answers[SurveyRequest] = lambda frame: [SurveyReply(frame.number, (("dead", 0, 11),))]
    assert invoked(broker, "drop", "--all")[2].strip() == "2 dropped"
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.DONE, 12: Verdict.RETURNED}


def test_it_says_if_there_may_be_more_than_the_group_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "_GROUP_MESSAGES", 2)
    code, shown, told = invoked(holding(2), "list", "--json")
    assert (code, len(shown.splitlines())) == (0, 2)
    assert "these are the first 2; there may be more" in told


def test_it_says_if_somebody_else_may_have_some() -> None:
    assert "somebody else looks after dead letters" in invoked(holding(others=1), "list")[2]


def published(broker: ScriptedBroker) -> list[tuple[str, dict[str, AttributeValue], bytes, str]]:
    found = []
    for frame in broker.peer.of(Publish):
        for body in frame.bodies:
            _, message = decode_message(body)
            found.append((frame.pubend, dict(message.attributes), message.payload, message.content_type))
    return found


def test_a_message_that_is_no_dead_letter_stays_and_does_not_stop_the_others() -> None:
    foreign = encode_body(IDS[0], Message({"type": "somebody's own"}))
    broker = holding(bodies=[letter(1), foreign, letter(2), letter(3)])
    code, _, told = invoked(broker, "retry", "--all")
    assert code == 0
    assert f"{IDS[0]} stays: it is no dead letter" in told
    assert "3 published again" in told
    assert said(broker) == dict.fromkeys((10, 12, 13), Verdict.DONE) | {11: Verdict.RETURNED}
    assert [attributes["number"] for _, attributes, _, _ in published(broker)] == [1, 2, 3]


def test_what_a_broker_refuses_stays_and_what_was_published_before_is_dropped() -> None:
    broker = holding(3)

    def on_publish(frame: Publish) -> list[Frame]:
        if frame.bodies and decode_attributes(frame.bodies[0])["number"] == 1:
            return [Refused("publish", frame.first, "not you", 1, frame.pubend), Rewind(frame.first, 1, frame.pubend)]
        return [acknowledgement(frame)]

    broker.answers[Publish] = on_publish
    code, _, told = invoked(broker, "retry", "--all")
    assert code == 1
    assert f"{IDS[1]} stays" in told
    assert "not you" in told
    assert "2 published again" in told
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.RETURNED, 12: Verdict.DONE}


def test_a_letter_is_dropped_only_once_its_message_is_durable() -> None:
    broker = holding(1)
    order: list[str] = []
    judge = broker.answers[Verdicts]

    def on_verdicts(frame: Verdicts) -> list[Frame]:
        order.extend(Verdict(verdict).name for _, _, verdict, _, _ in frame.verdicts)
        return [*judge(frame)]

    def on_publish(frame: Publish) -> list[Frame]:
        order.append("published")
        return [acknowledgement(frame)]

    broker.answers |= {Verdicts: on_verdicts, Publish: on_publish}
    assert invoked(broker, "retry", "--all")[0] == 0
    assert order.index("published") < order.index("DONE")


def test_it_is_published_as_it_was() -> None:
    full: dict[str, AttributeValue] = {f"a{number}": number for number in range(255)}
    asked = {"service": "price", "$request": "A-1", "$reply_to": "A"}
    why: dict[str, AttributeValue] = {"dead_pubend": "quotes", "dead_tick": 5}
    bodies = [
        encode_dead_letter(IDS[0], Message(full, b"full", "text/plain"), why, ""),
        encode_dead_letter(IDS[1], Message.system(asked, b"asked"), why, ""),
        encode_dead_letter(IDS[2], Message(full, bytes(PAYLOAD_BYTES_MAX)), why, ""),
    ]
    broker = holding(bodies=bodies)
    code, _, told = invoked(broker, "retry", "--all")
    assert code == 1
    assert published(broker) == [
        ("quotes", full, b"full", "text/plain"),
        ("quotes", {"service": "price"}, b"asked", ""),
    ]
    assert f"{IDS[1]} is published again without $request, $reply_to" in told
    assert f"{IDS[2]} stays: its attributes are only in the log of quotes, at tick 5" in told
    assert said(broker) == {10: Verdict.DONE, 11: Verdict.DONE, 12: Verdict.RETURNED}


def test_a_whole_message_in_the_payload_is_shown_as_such() -> None:
    full: dict[str, AttributeValue] = {f"a{number}": number for number in range(255)}
    why: dict[str, AttributeValue] = {"dead_pubend": "quotes", "dead_tick": 5}
    broker = holding(bodies=[encode_dead_letter(IDS[0], Message(full, b"full"), why, "")])
    code, shown, _ = invoked(broker, "show", str(IDS[0]))
    assert code == 0
    original = msgspec.json.decode(shown)["original"]
    assert (original["attributes"], original["payload"], original["pubend"]) == (full, "full", "quotes")
