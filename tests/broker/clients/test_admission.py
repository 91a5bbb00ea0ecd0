"""The door of a broker: who is let in, and who says what before that."""

from __future__ import annotations

import pytest

from overlay import chain
from penstock.broker.access import Access
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


@pytest.mark.parametrize(
    ("name", "token", "reason"),
    [("feed", "", "no token"), ("feed", "wrong", "wrong token"), ("stranger", "word", "unknown name")],
)
def test_the_operator_hears_what_a_refused_client_lacks_and_the_client_does_not(
    name: str, token: str, reason: str
) -> None:
    overlay = chain("pb", access=Access(tokens={"feed": "secret"}))
    client = overlay.client("pb", name, token)
    (record,) = (each for each in overlay.records if each.event == "client-refused")
    fields = dict(record.fields)
    assert (fields["client"], fields["address"], fields["reason"]) == (name, "unknown", reason)
    assert client.heard == [f.Goodbye("refused", f"name {name!r}: wrong or missing token")]


def test_the_operator_hears_of_clients_that_are_refused_for_other_reasons() -> None:
    overlay = chain("pb", access=Access(tokens={"feed": "secret"}))
    overlay.client("pb", "feed", "secret", "another")
    stranger = overlay.stranger("pb")
    stranger.say(f.Hello(99, "client", "feed", "", credential="secret"))
    overlay.client("pb", "feed", "secret")
    reasons = [dict(each.fields)["reason"] for each in overlay.records if each.event == "client-refused"]
    assert reasons == ["this is overlay penstock, not another", f"protocol version 99 is not {f.PROTOCOL_VERSION}"]
