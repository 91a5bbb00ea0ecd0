"""``penstock durable``: the answers of a broker become messages and exit codes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from client.scripted import ScriptedBroker, broker_in_a_thread
from penstock.cli.app import app
from penstock.protocol.frames import Forget, Forgotten, Frame, Refused


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
    with broker_in_a_thread(broker):
        result = CliRunner().invoke(app, ["durable", "forget", broker.address, "app"])
    assert result.exit_code == code
    assert words in result.stderr
    assert [frame.durable for frame in broker.peer.of(Forget)] == ["app"]


def test_a_name_that_is_none_is_misuse() -> None:
    result = CliRunner().invoke(app, ["durable", "forget", "penstock://127.0.0.1:1", "my app"])
    assert result.exit_code == 2
    assert "durable name 'my app'" in result.stderr
