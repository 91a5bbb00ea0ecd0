"""Transactions: nothing before COMMIT, all of it then, and nothing of what no pubend can take at once."""

from __future__ import annotations

import pytest

from penstock.protocol import frames as f
from penstock.protocol.work_frames import Outcome, Verdict
from stomp_stage import Stage, StompClient, frame

DURABLE = {"activemq__subscriptionName": "d"}


def reader(stage: Stage, destination: str = "/topic/x", /, **headers: str) -> StompClient:
    client = stage.connect("reader")
    client.subscribe(destination, **headers)
    stage.pass_time(200)
    return client


def client_with(stage: Stage, *names: str) -> StompClient:
    client = stage.connect("feed")
    for name in names:
        client.say("BEGIN", transaction=name)
    return client


def test_nothing_is_sent_before_commit_and_all_after_it() -> None:
    stage = Stage()
    listener = reader(stage)
    client = client_with(stage, "t")
    client.send("/topic/x", b"1", transaction="t", receipt="1")
    client.send("/topic/x", b"2", transaction="t")
    client.send("/topic/x", b"free")
    stage.pass_time(500)
    assert listener.bodies == [b"free"]
    assert client.receipts == ["1"]
    client.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(500)
    assert listener.bodies == [b"free", b"1", b"2"]
    assert client.receipts == ["1", "c"]


def test_commit_is_answered_when_it_is_durable() -> None:
    stage = Stage()
    client = client_with(stage, "t")
    client.send("/topic/x", transaction="t")
    stage.syncs = False
    client.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(1_000)
    assert client.receipts == []
    stage.sync()
    assert client.receipts == ["c"]


def test_nothing_is_sent_that_is_aborted() -> None:
    stage = Stage()
    listener = reader(stage)
    client = client_with(stage, "t")
    client.send("/topic/x", transaction="t")
    client.say("ABORT", transaction="t", receipt="a")
    stage.pass_time(500)
    assert client.receipts == ["a"]
    assert not listener.bodies
    client.say("COMMIT", transaction="t")
    assert "has not begun" in client.error


@pytest.mark.parametrize("ending", ["DISCONNECT", "break", "error"])
def test_nothing_is_sent_that_was_left_open(ending: str) -> None:
    stage = Stage()
    listener = reader(stage)
    client = client_with(stage, "t")
    client.send("/topic/x", transaction="t")
    if ending == "break":
        client.leave()
    elif ending == "error":
        client.send("nowhere")
    else:
        client.say("DISCONNECT", receipt="bye")
        assert client.receipts == ["bye"]
    stage.pass_time(500)
    assert not listener.bodies


@pytest.mark.parametrize("command", ["SEND", "COMMIT", "ABORT"])
def test_what_never_began_is_told(command: str) -> None:
    client = Stage().connect()
    client.say(command, destination="/topic/x", transaction="t", receipt="r")
    assert client.fault.headers["penstock-header"] == "transaction"
    assert client.fault.headers["receipt-id"] == "r"


@pytest.mark.parametrize("command", ["BEGIN", "COMMIT", "ABORT"])
def test_a_transaction_has_a_name(command: str) -> None:
    client = Stage().connect()
    client.say(command)
    assert client.fault.headers["penstock-header"] == "transaction"


def test_what_has_begun_begins_once() -> None:
    client = client_with(Stage(), "t", "t")
    assert "has begun already" in client.error


def test_two_pubends_in_a_transaction_are_refused_and_nothing_is_done() -> None:
    stage = Stage()
    listener = reader(stage)
    client = client_with(stage, "t")
    client.send("/topic/x", penstock_pubend="p", transaction="t")
    client.send("/topic/x", penstock_pubend="q", transaction="t")
    client.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(500)
    assert client.fault.headers["receipt-id"] == "c"
    assert "p, q" in client.error
    assert not listener.bodies


def test_a_transaction_over_a_bound_is_refused() -> None:
    client = client_with(Stage(), "t")
    client.send("/topic/x", bytes(600_000), transaction="t")
    client.send("/topic/x", bytes(600_000), transaction="t")
    assert "bytes" in client.error


def test_an_empty_transaction_is_answered() -> None:
    client = client_with(Stage(), "t")
    client.say("COMMIT", transaction="t", receipt="c")
    assert client.receipts == ["c"]


@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x"])
def test_acks_join_a_transaction_and_count_at_commit(destination: str) -> None:
    stage = Stage()
    durable = DURABLE if destination == "/topic/x" else {}
    first = reader(stage, destination, ack="client-individual", **durable)
    feed = stage.connect("feed")
    for body in (b"1", b"2", b"3"):
        feed.send(destination, body, penstock_pubend="p")
    stage.pass_time(500)
    answers = reader(stage, "/topic/answers")
    first.say("BEGIN", transaction="t")
    first.ack(first.messages[0], transaction="t", receipt="a")
    first.ack(first.messages[2], transaction="t")
    first.send("/topic/answers", b"done", transaction="t", penstock_pubend="p")
    assert first.receipts == ["a"]
    first.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(500)
    assert first.receipts == ["a", "c"]
    assert answers.bodies == [b"done"]
    first.leave()
    stage.pass_time(12_000)
    assert reader(stage, destination, ack="client-individual", **durable).bodies == [b"2"]


def test_commit_has_no_receipt_if_one_of_its_acks_does_not_count() -> None:
    stage = Stage()
    client = reader(stage, "/queue/x", ack="client-individual")
    feed = stage.connect("feed")
    for body in (b"1", b"2"):
        feed.send("/queue/x", body, penstock_pubend="p")
    stage.pass_time(500)
    one, two = client.messages
    client.say("BEGIN", transaction="t")
    client.ack(one, transaction="t")
    client.ack(two, transaction="t")
    stage.syncs = False
    client.say("COMMIT", transaction="t", receipt="c")
    ticks = [int(each.headers["penstock-tick"]) for each in (one, two)]
    number = int(one.headers["ack"].partition("-")[0])
    outcomes = ((ticks[0], 1, Verdict.DONE, Outcome.LOST), (ticks[1], 1, Verdict.DONE, Outcome.KEPT))
    client.hear(f.Outcomes(number, "p", outcomes))
    assert "not this subscription's any more" in client.error
    assert client.fault.headers["receipt-id"] == "c"
    assert client.receipts == []


@pytest.mark.parametrize("ending", ["ABORT", "DISCONNECT"])
@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x"])
def test_acks_that_are_not_committed_do_not_count(destination: str, ending: str) -> None:
    stage = Stage()
    durable = DURABLE if destination == "/topic/x" else {}
    first = reader(stage, destination, ack="client-individual", **durable)
    stage.connect("feed").send(destination, b"1")
    stage.pass_time(500)
    first.say("BEGIN", transaction="t")
    first.ack(first.messages[0], transaction="t")
    first.say(ending, transaction="t", receipt="r")
    assert first.receipts == ["r"]
    if ending == "ABORT":
        first.ack(first.messages[0], receipt="again")
        assert first.receipts == ["r", "again"]
        return
    stage.pass_time(12_000)
    assert reader(stage, destination, ack="client-individual", **durable).bodies == [b"1"]


def test_acks_and_sends_of_two_pubends_are_refused_and_nothing_is_done() -> None:
    stage = Stage()
    first = reader(stage, "/queue/x", ack="client-individual")
    stage.connect("feed").send("/queue/x", b"1", penstock_pubend="q")
    stage.pass_time(500)
    answers = reader(stage, "/topic/answers")
    first.say("BEGIN", transaction="t")
    first.ack(first.messages[0], transaction="t")
    first.send("/topic/answers", transaction="t", penstock_pubend="p")
    first.say("COMMIT", transaction="t", receipt="c")
    assert "p, q" in first.error
    stage.pass_time(12_000)
    assert not answers.bodies
    assert reader(stage, "/queue/x").bodies == [b"1"]


def test_acks_of_topics_concern_no_pubend() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual")
    feed = stage.connect("feed")
    feed.send("/topic/x", b"1", penstock_pubend="p")
    feed.send("/topic/x", b"2", penstock_pubend="q")
    stage.pass_time(500)
    first.say("BEGIN", transaction="t")
    for message in first.messages:
        first.ack(message, transaction="t")
    first.say("COMMIT", transaction="t", receipt="c")
    assert first.receipts == ["c"]


def test_a_transaction_with_a_subscription_that_has_ended_is_refused_and_nothing_is_done() -> None:
    stage = Stage()
    first = reader(stage, "/queue/x", ack="client-individual")
    stage.connect("feed").send("/queue/x", b"1", penstock_pubend="p")
    stage.pass_time(500)
    answers = reader(stage, "/topic/answers")
    first.say("BEGIN", transaction="t")
    first.ack(first.messages[0], transaction="t")
    first.send("/topic/answers", transaction="t", penstock_pubend="p")
    first.say("UNSUBSCRIBE", id="s")
    first.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(500)
    assert first.fault.headers["receipt-id"] == "c"
    assert not answers.bodies
    assert reader(stage, "/queue/x").bodies == [b"1"]


@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x"])
def test_a_subscription_that_ends_while_its_acks_are_committed_ends_after_them(destination: str) -> None:
    stage = Stage()
    durable = DURABLE if destination == "/topic/x" else {}
    first = reader(stage, destination, ack="client-individual", **durable)
    feed = stage.connect("feed")
    feed.send(destination, b"1", penstock_pubend="p")
    feed.send(destination, b"2", penstock_pubend="p")
    stage.pass_time(500)
    stage.syncs = False
    first.say_all(
        frame("BEGIN", transaction="t"),
        first.verdict(first.messages[0], transaction="t"),
        frame("SEND", destination="/topic/answers", transaction="t", penstock_pubend="p"),
        frame("COMMIT", transaction="t", receipt="c"),
        frame("UNSUBSCRIBE", id="s", receipt="u"),
        frame("DISCONNECT", receipt="bye"),
    )
    stage.pass_time(500)
    assert first.receipts == []
    for _ in range(5):
        stage.sync()
        stage.pass_time(200)
    assert first.receipts == ["c", "u", "bye"]
    stage.syncs = True
    stage.sync()
    stage.pass_time(12_000)
    assert reader(stage, destination, ack="client-individual", **durable).bodies == [b"2"]


def test_a_commit_waits_for_room_for_all_of_it() -> None:
    stage = Stage()
    client = client_with(stage, "t")
    stage.syncs = False
    for _ in range(4):
        client.send("/topic/x", bytes(500_000), penstock_pubend="p")
    client.send("/topic/x", bytes(300_000), transaction="t", penstock_pubend="p")
    client.send("/topic/x", bytes(300_000), transaction="t", penstock_pubend="p")
    client.say("COMMIT", transaction="t", receipt="c")
    assert client.peer.is_waiting
    stage.syncs = True
    stage.sync()
    stage.pass_time(500)
    assert client.receipts == ["c"]


def test_a_commit_is_refused_if_a_message_was_acknowledged_otherwise() -> None:
    stage = Stage()
    worker = reader(stage, "/queue/x", ack="client-individual")
    stage.connect("feed").send("/queue/x", b"job")
    stage.pass_time(500)
    listener = stage.connect("listener")
    listener.subscribe("/topic/x")
    worker.say("BEGIN", transaction="t")
    worker.ack(worker.messages[0], transaction="t")
    worker.send("/topic/x", transaction="t")
    worker.nack(worker.messages[0])
    worker.say("COMMIT", transaction="t", receipt="c")
    stage.pass_time(500)
    assert "waits for none any more" in worker.error
    assert worker.receipts == []
    assert listener.messages == []
