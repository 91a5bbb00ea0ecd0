"""The door of a broker: who is let in, and who says what before that."""

from __future__ import annotations

import pytest

from overlay import chain
from penstock.protocol import frames as f


def test_a_hello_of_no_known_role_is_refused() -> None:
    overlay = chain("pb")
    stranger = overlay.stranger("pb")
    stranger.say(f.Hello(f.PROTOCOL_VERSION, "god", "me", ""))
    assert stranger.closed is not None
    assert "role 'god' is not expected here" in stranger.closed.reason


def test_a_second_hello_ends_the_connection() -> None:
    overlay = chain("pb")
    client = overlay.client("pb")
    client.say(f.Hello(f.PROTOCOL_VERSION, "client", "again", ""))
    assert client.closed is not None
    assert client.closed.code == "protocol"


@pytest.mark.parametrize("frame", [f.LinkProof(b""), f.Heartbeat(), f.Subscribe(1, ""), f.LinkState("b", 1, 1, ())])
def test_a_stranger_says_hello_and_nothing_else(frame: f.Frame) -> None:
    overlay = chain("pb")
    stranger = overlay.stranger("pb")
    stranger.say(frame)
    assert stranger.closed is not None
    assert stranger.closed.code == "protocol"
