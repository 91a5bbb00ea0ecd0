"""``penstock durable``: the answers of a broker become tables, messages and exit codes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from typer.testing import CliRunner

from client.scripted import ScriptedBroker, broker_in_a_thread
from penstock.cli.app import app
from penstock.protocol.frames import DurableEntry, DurablesReply, DurablesRequest, Forget, Forgotten, Frame, Refused

HERE = DurableEntry("app", "ann", "sb1", 7 << 16, 10, False, 1_500, 12, True, 990, "x = 1")  # noqa: FBT003
AWAY = DurableEntry("old", "bob", "sb2", 5 << 16, 90_000, True, 90_000, 34, False, 1_200, "y = 2", settled=321)  # noqa: FBT003


def telling(*entries: DurableEntry) -> ScriptedBroker:
    def answer(frame: DurablesRequest) -> list[Frame]:
        return [DurablesReply(frame.number, tuple(each for each in entries if frame.durable in {"", each.name}))]

    broker = ScriptedBroker({DurablesRequest: answer})
    broker.best_effort = ()
    return broker


def invoked(broker: ScriptedBroker, command: str, *arguments: str) -> tuple[int, str, str]:
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["durable", command, broker.address, *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


def test_all_names_are_listed_with_who_uses_them_or_since_when_nobody_does() -> None:
    code, shown, _ = invoked(telling(HERE, AWAY), "list")
    assert code == 0
    (here,) = [line for line in shown.splitlines() if "ann" in line]
    (away,) = [line for line in shown.splitlines() if "bob" in line]
    assert [each for each in ("app", "sb1", "quotes", "12", "1.5 s", "990") if each not in here] == []
    assert [each for each in ("away for 90 s, last at sb2", "~34", "90.0 s", "1,200") if each not in away] == []


def test_one_name_is_shown_by_pubend_with_its_selector() -> None:
    code, shown, _ = invoked(telling(HERE, AWAY), "show", "old")
    assert code == 0
    assert "y = 2" in shown
    assert "x = 1" not in shown
    assert "1970-01-01T00:00:00.005" in shown
    assert " 321 " in shown


def test_json_has_everything_by_name_and_pubend() -> None:
    code, shown, _ = invoked(telling(HERE), "list", "--json")
    assert code == 0
    assert msgspec.json.decode(shown) == {
        "app": {
            "quotes": {
                "owner": "ann",
                "broker": "sb1",
                "away_ms": None,
                "position": 7 << 16,
                "behind_ms": 1_500,
                "messages": 12,
                "is_exact": True,
                "log_bytes": 990,
                "selector": "x = 1",
                "members": None,
                "settled": 0,
            }
        }
    }


def test_a_group_is_listed_with_its_members() -> None:
    group = DurableEntry("pool", "", "", 7 << 16, 0, False, 1_500, 12, True, 990, "x = 1", 3)  # noqa: FBT003
    code, shown, _ = invoked(telling(group), "list")
    assert code == 0
    assert "group of 3" in shown


def test_a_name_that_nobody_knows_is_a_failure() -> None:
    code, _, told = invoked(telling(HERE), "show", "nobody")
    assert code == 1
    assert "no durable subscription 'nobody'" in told


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (lambda frame: Forgotten(frame.number), 0, "'app' is forgotten"),
        (lambda frame: Forgotten(frame.number, ("far", "away")), 1, "far, away could not be reached"),
        (lambda frame: Refused("forget", frame.number, "there is no 'app'"), 1, "there is no 'app'"),
    ],
)
def test_a_name_is_forgotten_or_the_reason_is_told(answer: Callable[[Forget], Frame], code: int, words: str) -> None:
    broker = ScriptedBroker({Forget: lambda frame: [answer(frame)]})
    ended, _, told = invoked(broker, "forget", "app", "--yes")
    assert ended == code
    assert words in told
    assert [(frame.durable, frame.pubends) for frame in broker.peer.of(Forget)] == [("app", ())]


def test_a_name_can_be_forgotten_at_some_pubends_only() -> None:
    broker = ScriptedBroker({Forget: lambda frame: [Forgotten(frame.number)]})
    code, _, told = invoked(broker, "forget", "app", "--pubend", "orders", "--pubend", "trades", "--yes")
    assert code == 0
    assert "'app' is forgotten at orders, trades" in told
    assert [frame.pubends for frame in broker.peer.of(Forget)] == [("orders", "trades")]


def test_nothing_is_forgotten_unless_the_user_agrees() -> None:
    broker = ScriptedBroker({Forget: lambda frame: [Forgotten(frame.number)]})
    with broker_in_a_thread(broker):
        arguments = ["durable", "forget", broker.address, "app"]
        denied = CliRunner().invoke(app, arguments, input="n\n")
        unanswered = CliRunner().invoke(app, arguments, input="")
        agreed = CliRunner().invoke(app, arguments, input="y\n")
    assert (denied.exit_code, unanswered.exit_code, agreed.exit_code) == (1, 1, 0)
    assert "'app' is not forgotten" in denied.stderr
    assert len(broker.peer.of(Forget)) == 1


@pytest.mark.parametrize("command", ["show", "forget"])
def test_a_name_that_is_none_is_misuse(command: str) -> None:
    result = CliRunner().invoke(app, ["durable", command, "penstock://127.0.0.1:1", "my app"])
    assert result.exit_code == 2
    assert "durable name 'my app'" in result.stderr
