"""Frames with any headers in any order: the peer answers or says ERROR, and nothing else comes out of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.stomp import BODY_COMMANDS, CLIENT_COMMANDS, StompFrame, Version, encode
from penstock.stomp import StompSettings
from stomp_stage import V1_0, Stage, broker
from strategies import tries

NAMES = (
    "destination",
    "id",
    "ack",
    "selector",
    "receipt",
    "transaction",
    "message-id",
    "subscription",
    "content-type",
    "content-length",
    "expires",
    "persistent",
    "activemq.subscriptionName",
    "durable",
    "prefetch-count",
    "penstock-start",
    "penstock-missing",
    "penstock-pubend",
    "heart-beat",
    "accept-version",
    "n;type=int",
    ";type=",
    "$expires",
    "",
)
VALUES = (
    "",
    "/topic/a",
    "/topic/a.*",
    "/topic/>",
    "/topic/*.>",
    "/queue/a",
    "/pubend/p",
    "/pubend/loose",
    "/pubend/nowhere",
    "s",
    "t",
    "1-1",
    "1073741825-1",
    "client",
    "client-individual",
    "auto",
    "true",
    "false",
    "earliest",
    "latest",
    "p",
    "q",
    "loose",
    "dead",
    "n = 1",
    "n =",
    "1",
    "0",
    "-1",
    "9" * 30,
    "\u0663",
    "a\rb",
    "a\nb",
    "\\",
    "x" * 300,
    "1.2",
)
headers = st.dictionaries(
    st.one_of(st.sampled_from(NAMES), st.text(max_size=3)),
    st.one_of(st.sampled_from(VALUES), st.sampled_from(VALUES), st.text(max_size=5)),
    max_size=6,
)
usual = st.fixed_dictionaries(
    {}, optional={"destination": st.sampled_from(VALUES[1:9]), "id": st.sampled_from("st"), "receipt": st.just("r")}
)
frames = st.builds(
    lambda command, usual, headers, body: StompFrame(
        command, headers | usual, body if command in BODY_COMMANDS else b""
    ),
    st.sampled_from(sorted(CLIENT_COMMANDS)),
    usual,
    headers,
    st.binary(max_size=5),
)


@settings(max_examples=tries(600))
@given(st.sampled_from([*Version]), st.lists(frames, max_size=8), st.lists(st.integers(0, 2), min_size=8, max_size=8))
def test_whatever_a_client_says_it_gets_an_answer_or_an_error(
    version: Version, said: list[StompFrame], pauses: list[int]
) -> None:
    stage = Stage(broker(), stomp=StompSettings(port=1, transactions_max=2, unacknowledged_max=2))
    client = stage.connect(version=version, heart_beat="0,1000")
    other = stage.connect("other")
    for frame, pause in zip(said, pauses, strict=False):
        try:
            data = encode(frame, version)
        except ValueError:
            # Not all that is drawn can be written.
            continue
        client.feed(data)
        for destination in ("/topic/a", "/queue/a"):
            other.send(destination, b"x", n="1")
        stage.pass_time(pause * 100)
    stage.pass_time(6_000)
    assert bool(client.error) <= client.peer.is_over
    assert not other.error
    assert len(client.all("ERROR")) <= 1
    if client.all("ERROR"):
        assert client.frames[-1].command == "ERROR"
    client.leave()
    other.leave()
    stage.pass_time(12_000)
    status = stage.brokers["b1"].status()
    assert (status.clients, status.subscriptions) == (0, 0)
    stage.check_invariants()


@settings(max_examples=tries(300))
@given(headers, st.sampled_from(["CONNECT", "STOMP"]))
def test_whatever_a_client_connects_with_it_gets_an_answer(headers: dict[str, str], command: str) -> None:
    stage = Stage()
    client = stage.stranger_by_stomp()
    try:
        data = encode(StompFrame(command, headers), V1_0)
    except ValueError:
        return
    client.feed(data)
    stage.pass_time(100)
    assert [each.command for each in client.frames] in (["CONNECTED"], ["ERROR"])
    assert client.peer.is_known != client.peer.is_over
