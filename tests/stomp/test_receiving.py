"""Subscriptions, and what becomes of the messages: topics, durable subscriptions, queues, ACK and NACK."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping

import pytest

from penstock.broker import Access, Rule
from penstock.protocol import frames as f
from penstock.protocol.stomp import StompFrame, Version
from penstock.protocol.work_frames import Verdict
from penstock.selectors import Selector
from penstock.stomp import StompSettings
from penstock.stomp.promises import Promises
from stomp_stage import V1_0, V1_1, V1_2, Stage, StompClient, broker, frame, linked

FIRST_TOPIC = 2**30 + 1
"""What a connection calls its first topic."""
DURABLE = {"activemq__subscriptionName": "d"}


def send(stage: Stage, destination: str, *numbers: int, **headers: str) -> None:
    """Somebody else sends messages with these numbers as bodies."""
    client = stage.connect("feed")
    for number in numbers:
        client.send(destination, b"%d" % number, receipt=str(number), **headers)
    stage.pass_time(200)
    assert client.receipts == [str(number) for number in numbers], client.error
    client.leave()


def reader(
    stage: Stage, destination: str = "/topic/x", name: str = "reader", version: Version = V1_2, /, **headers: str
) -> StompClient:
    client = stage.connect(name, version)
    client.subscribe(destination, **headers)
    stage.pass_time(200)
    assert not client.error, client.error
    return client


def numbers(client: StompClient) -> list[int]:
    return [int(body) for body in client.bodies]


def attempts(client: StompClient) -> list[tuple[int, bool]]:
    """The number of each message, and whether it came again."""
    return [(int(each.body), each.headers.get("redelivered") == "true") for each in client.messages]


# --- topics


def test_who_subscribes_gets_what_is_sent_from_then_on_once() -> None:
    stage = Stage()
    send(stage, "/topic/x", 1)
    client = reader(stage)
    send(stage, "/topic/x", 2, 3)
    send(stage, "/topic/y", 4)
    assert numbers(client) == [2, 3]
    headers = client.messages[0].headers
    assert headers["destination"] == "/topic/x"
    assert headers["subscription"] == "s"
    assert "ack" not in headers


def test_who_asks_for_the_earliest_gets_what_is_still_there() -> None:
    stage = Stage()
    send(stage, "/topic/x", 1)
    assert numbers(reader(stage, penstock_start="earliest")) == [1]


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_an_id_is_used_once_at_a_time(version: Version) -> None:
    stage = Stage()
    client = reader(stage, "/topic/x", "reader", version)
    client.subscribe("/topic/y", receipt="r")
    assert "exists already" in client.error
    assert client.fault.headers["receipt-id"] == "r"


def test_an_id_may_be_used_again() -> None:
    stage = Stage()
    client = reader(stage)
    client.say("UNSUBSCRIBE", id="s")
    client.subscribe("/topic/y")
    stage.pass_time(200)
    send(stage, "/topic/x", 1)
    send(stage, "/topic/y", 2)
    assert numbers(client) == [2]


def test_several_subscriptions_of_one_client_get_a_message_each() -> None:
    stage = Stage()
    client = reader(stage)
    client.subscribe("/topic/*", "all")
    client.subscribe("/topic/>", "rest", ack="client")
    client.subscribe("/pubend/p", "p")
    client.subscribe("/pubend/q", "q")
    stage.pass_time(200)
    send(stage, "/topic/x", 1, penstock_pubend="p")
    assert sorted(each.headers["subscription"] for each in client.messages) == ["all", "p", "rest", "s"]
    assert len({each.headers["message-id"] for each in client.messages}) == 1


def test_a_pubend_is_everything_it_has() -> None:
    stage = Stage()
    client = reader(stage, "/pubend/q")
    native = stage.client("b1")
    native.publish({"number": 1}, pubend="q")
    native.publish({"number": 2}, pubend="p")
    send(stage, "/pubend/q", 3)
    assert [each.headers.get("number") for each in client.messages] == ["1", None]
    assert {each.headers["destination"] for each in client.messages} == {"/pubend/q"}


def test_an_unknown_pubend_has_nothing_yet() -> None:
    stage = Stage()
    client = stage.connect()
    client.subscribe("/pubend/nowhere", receipt="r")
    stage.pass_time(5_000)
    assert client.receipts == ["r"]
    send(stage, "/topic/x", 1)
    assert not client.messages


def test_a_selector_holds_and_numbers_are_numbers() -> None:
    stage = Stage()
    client = reader(stage, selector="volume > 100 AND symbol LIKE 'Y%'")
    send(stage, "/topic/x", 1, volume="50", symbol="YHOO")
    send(stage, "/topic/x", 2, volume="150", symbol="YHOO")
    send(stage, "/topic/x", 3, volume="150", symbol="IBM")
    assert numbers(client) == [2]


def test_an_unsound_selector_is_told_in_one_line_and_shown_in_the_body() -> None:
    stage = Stage()
    client = stage.connect()
    client.subscribe("/topic/x", selector="volume >", receipt="r")
    fault = client.fault
    assert fault.headers["penstock-header"] == "selector"
    assert fault.headers["receipt-id"] == "r"
    assert "\n" not in fault.headers["message"]
    assert fault.body.decode().rstrip().endswith("^")
    assert "  volume >\n" in fault.body.decode()


def test_what_a_client_may_not_see_it_does_not_get() -> None:
    rules = (Rule("reader", subscribe=Selector.parse("kind = 'open'")), Rule("%"))
    stage = Stage(broker(access=Access({"reader": "r", "feed": "f"}, rules)))
    client = stage.connect("reader", passcode="r")
    client.subscribe("/topic/x")
    feed = stage.connect("feed", passcode="f")
    stage.pass_time(200)
    feed.send("/topic/x", b"1", kind="open")
    feed.send("/topic/x", b"2", kind="secret")
    stage.pass_time(500)
    assert numbers(client) == [1]


def test_who_may_not_subscribe_is_told() -> None:
    rules = (Rule("reader", subscribe=None),)
    stage = Stage(broker(access=Access({"reader": "r"}, rules)))
    client = stage.connect("reader", passcode="r")
    client.subscribe("/topic/x", receipt="r")
    assert "may not subscribe" in client.error
    assert client.fault.headers["receipt-id"] == "r"


def test_subscriptions_are_bounded() -> None:
    stage = Stage(stomp=StompSettings(port=1, subscriptions_max=2))
    client = stage.connect()
    for number in range(3):
        client.subscribe("/topic/x", str(number))
    assert "2 subscriptions" in client.error


@pytest.mark.parametrize("version", [*Version])
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_messages_of_topics_are_acknowledged_as_of_queues(version: Version, ack: str) -> None:
    stage = Stage()
    client = reader(stage, "/topic/x", "reader", version, ack=ack)
    send(stage, "/topic/x", 1, 2, 3)
    client.ack(client.messages[1], receipt="r")
    assert client.receipts == ["r"]
    if ack == "client":
        client.ack(client.messages[0])
        assert "waits for ACK" in client.error
    else:
        client.ack(client.messages[0])
        if version is not V1_0:
            client.nack(client.messages[2])
        assert not client.error


def test_the_oldest_of_too_many_unacknowledged_messages_of_a_topic_is_forgotten() -> None:
    stage = Stage(stomp=StompSettings(port=1, unacknowledged_max=2))
    client = reader(stage, ack="client-individual")
    send(stage, "/topic/x", 1, 2, 3)
    assert numbers(client) == [1, 2, 3]
    client.ack(client.messages[1])
    client.ack(client.messages[2])
    assert not client.error
    client.ack(client.messages[0])
    assert client.error


def test_unsubscribe_ends_it() -> None:
    stage = Stage()
    client = reader(stage)
    client.say("UNSUBSCRIBE", id="s", receipt="r")
    send(stage, "/topic/x", 1)
    assert client.receipts == ["r"]
    assert not client.messages
    assert stage.brokers["b1"].status().subscriptions == 0


def test_unsubscribe_of_nothing_is_told() -> None:
    client = Stage().connect()
    client.say("UNSUBSCRIBE", id="s")
    assert client.fault.headers["penstock-header"] == "id"


def test_1_0_ends_subscriptions_by_their_destinations() -> None:
    stage = Stage()
    client = stage.connect(version=V1_0)
    client.say("SUBSCRIBE", destination="/topic/x")
    stage.pass_time(200)
    client.say("UNSUBSCRIBE", destination="/topic/x", receipt="r")
    send(stage, "/topic/x", 1)
    assert client.receipts == ["r"]
    assert not client.messages


@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x", "durable"])
def test_subscribe_and_unsubscribe_at_once_are_both_answered(destination: str) -> None:
    stage = Stage()
    client = stage.connect()
    durable = {"activemq.subscriptionName": "d"} if destination == "durable" else {}
    named = {"id": "s", "destination": "/topic/x" if durable else destination, "receipt": "1"}
    client.say_all(StompFrame("SUBSCRIBE", named | durable), frame("UNSUBSCRIBE", id="s", receipt="2"))
    stage.pass_time(200)
    assert sorted(client.receipts) == ["1", "2"]
    client.say("DISCONNECT", receipt="bye")
    assert client.receipts[2:] == ["bye"]


def test_a_log_is_trimmed_as_far_as_a_client_has_read_while_a_client_listens() -> None:
    stage = Stage(broker(retain_ms=1_000))
    client = reader(stage, ack="client")
    client.reads = False
    send(stage, "/topic/x", *range(10), penstock_pubend="p")
    stage.pass_time(60_000)
    assert len(stage.disks["b1"].ticks("p")) == 10
    client.reads = True
    stage.pass_time(60_000)
    assert len(client.messages) == 10
    assert stage.disks["b1"].ticks("p") == []


def test_a_log_is_not_trimmed_behind_a_topic_that_has_just_begun() -> None:
    stage = Stage()
    client = reader(stage)
    stage.pass_time(2_000)
    client.peer.on_frame(
        frame("SUBSCRIBE", id="late", destination="/topic/y", penstock_start="earliest"),
        now_ms=stage.now_ms,
        wall_ms=stage.now_ms,
    )
    # Said before the broker knew of the second one.
    tick = stage.now_ms << 16
    client.hear(f.Horizons(client.number_of("p"), tick))
    said = client.peer.take_frames(now_ms=stage.now_ms)
    assert not [each for each in said if isinstance(each, f.Acknowledge)]
    begins = (FIRST_TOPIC + 1).to_bytes(4)
    client.hear(
        f.Horizons(client.number_of("p"), 5, begins, is_only=True), f.Horizons(client.number_of("p"), tick + 1, begins)
    )
    said = client.peer.take_frames(now_ms=stage.now_ms)
    assert not [each for each in said if isinstance(each, f.Acknowledge)]
    client.hear(f.Horizons(client.number_of("p"), tick + 2))
    said = client.peer.take_frames(now_ms=stage.now_ms)
    assert [each.positions for each in said if isinstance(each, f.Acknowledge)] == [
        ((client.number_of("p"), tick + 2),)
    ]


# --- notices of what is lost


def test_what_is_lost_is_told_with_the_next_message() -> None:
    stage = Stage()
    client = reader(stage)
    client.subscribe("/topic/x", "other", ack="client")
    client.subscribe("/topic/x", "kept", **DURABLE)
    stage.pass_time(200)
    send(stage, "/topic/x", 1, penstock_pubend="p")
    first = 1 + max(int(each.headers["penstock-tick"]) for each in client.messages)
    topic, other = FIRST_TOPIC, FIRST_TOPIC + 1
    client.hear(
        f.Lost(client.number_of("p"), first, first, (topic, other, 1)),
        f.Lost(client.number_of("p"), first + 2, first + 3, (topic, 1)),
    )
    client.frames.clear()
    stage.pass_time(2_000)
    send(stage, "/topic/x", 2, 3, penstock_pubend="p")
    told = [(each.headers["subscription"], each.headers.get("penstock-lost", "")) for each in client.messages]
    counted = {name: text.count("p ") for name, text in told if text}
    assert counted == {"s": 2, "other": 1, "kept": 2}
    assert [name for name, text in told if text] == [name for name, _ in told[:3]]


# --- durable subscriptions


@pytest.mark.parametrize("headers", [DURABLE, {"durable": "true", "auto_delete": "false"}])
@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_who_comes_back_gets_exactly_what_was_not_acknowledged(headers: dict[str, str], version: Version) -> None:
    stage = Stage()
    first = reader(stage, "/topic/x", "reader", version, ack="client-individual", **headers)
    send(stage, "/topic/x", 1, 2, 3, 4)
    assert numbers(first) == [1, 2, 3, 4]
    first.ack(first.messages[0], receipt="1")
    first.ack(first.messages[2], receipt="3")
    assert first.receipts == ["1", "3"]
    first.leave()
    send(stage, "/topic/x", 5)
    second = reader(stage, "/topic/x", "reader", version, ack="client-individual", **headers)
    assert numbers(second) == [2, 4, 5]


def test_cumulative_acknowledgements_count_for_all_before() -> None:
    stage = Stage()
    first = reader(stage, ack="client", **DURABLE)
    send(stage, "/topic/x", 1, 2, 3)
    first.ack(first.messages[1], receipt="r")
    first.leave()
    assert numbers(reader(stage, ack="client", **DURABLE)) == [3]


def test_automatic_acknowledgement_counts_what_was_sent() -> None:
    stage = Stage()
    first = reader(stage, **DURABLE)
    send(stage, "/topic/x", 1, 2)
    first.say("DISCONNECT", receipt="bye")
    send(stage, "/topic/x", 3)
    assert numbers(reader(stage, **DURABLE)) == [3]


def test_nothing_comes_again_whose_ack_got_a_receipt_whatever_becomes_of_the_broker() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2, 3)
    stage.syncs = False
    first.ack(first.messages[1], receipt="2")
    assert first.receipts == []
    stage.sync()
    assert first.receipts == ["2"]
    stage.crash("b1")
    stage.syncs = True
    stage.start("b1")
    stage.pass_time(6_000)
    assert numbers(reader(stage, ack="client-individual", **DURABLE)) == [1, 3]


def test_an_ack_without_a_receipt_counts_before_disconnect_is_answered() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2, 3)
    stage.syncs = False
    first.say_all(
        first.verdict(first.messages[0]), first.verdict(first.messages[2]), frame("DISCONNECT", receipt="bye")
    )
    stage.pass_time(1_000)
    assert first.receipts == []
    stage.sync()
    assert first.receipts == ["bye"]
    stage.crash("b1")
    stage.syncs = True
    stage.start("b1")
    stage.pass_time(6_000)
    assert numbers(reader(stage, ack="client-individual", **DURABLE)) == [2]


def test_an_ack_is_answered_though_the_subscription_ends_at_once() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2)
    stage.syncs = False
    first.say_all(first.verdict(first.messages[1], receipt="1"), frame("UNSUBSCRIBE", id="s", receipt="2"))
    stage.pass_time(1_000)
    assert first.receipts == []
    stage.sync()
    stage.pass_time(2_000)
    assert first.receipts == ["1", "2"]
    stage.syncs = True
    stage.sync()
    first.say("DISCONNECT", receipt="bye")
    assert first.receipts[2:] == ["bye"]
    assert numbers(reader(stage, ack="client-individual", **DURABLE)) == [1]


def test_a_nack_of_a_durable_subscription_counts_like_an_ack() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2)
    first.nack(first.messages[0], receipt="r")
    first.leave()
    assert numbers(reader(stage, ack="client-individual", **DURABLE)) == [2]


def test_who_takes_a_name_over_gets_the_rest_and_the_other_an_error() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2)
    first.ack(first.messages[0], receipt="r")
    second = reader(stage, ack="client-individual", **DURABLE)
    assert "taken over" in first.error
    assert first.peer.is_over
    assert numbers(second) == [2]


def test_an_ack_that_waits_when_the_name_is_taken_over_is_told() -> None:
    stage = Stage()
    first = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1)
    stage.syncs = False
    first.ack(first.messages[0], receipt="r")
    second = stage.connect("reader")
    second.subscribe("/topic/x", ack="client-individual", **DURABLE)
    stage.pass_time(500)
    stage.sync()
    stage.pass_time(500)
    stage.sync()
    assert first.peer.is_over
    assert first.error or first.receipts == ["r"]


def test_a_durable_subscription_needs_a_client() -> None:
    client = Stage().stranger_by_stomp()
    client.say("CONNECT", accept_version="1.2")
    client.subscribe("/topic/x", **DURABLE)
    assert client.fault.headers["penstock-header"] == "client-id"


def test_names_are_within_those_of_the_client() -> None:
    stage = Stage()
    reader(stage, "/topic/x", "a", **DURABLE)
    other = stage.connect("b")
    other.subscribe("/topic/x", **DURABLE)
    same = stage.connect("c", client_id="a")
    send(stage, "/topic/x", 1)
    assert numbers(other) == [1]
    same.subscribe("/topic/x", **DURABLE)
    assert not other.error


@pytest.mark.parametrize("name", ["a b", "x" * 300, "\u00e9"])
def test_a_name_that_no_durable_subscription_can_have_is_told(name: str) -> None:
    client = Stage().connect()
    client.subscribe("/topic/x", activemq__subscriptionName=name)
    assert client.fault.headers["penstock-header"] == "activemq.subscriptionName"


@pytest.mark.parametrize("is_live", [True, False])
def test_unsubscribe_forgets_by_activemqs_header(is_live: bool) -> None:
    stage = Stage()
    client = reader(stage, **DURABLE)
    if not is_live:
        client.say("UNSUBSCRIBE", id="s")
    client.say("UNSUBSCRIBE", id="s", receipt="r", **DURABLE)
    stage.pass_time(500)
    assert client.receipts == ["r"]
    assert stage.brokers["b1"].status().guaranteed.pubends["p"].durables == {}


@pytest.mark.parametrize("is_live", [True, False])
def test_unsubscribe_forgets_by_rabbitmqs_header(is_live: bool) -> None:
    stage = Stage()
    client = reader(stage, durable="true")
    if not is_live:
        client.say("UNSUBSCRIBE", id="s")
    client.say("UNSUBSCRIBE", id="s", durable="true", receipt="r")
    stage.pass_time(500)
    assert client.receipts == ["r"]
    assert stage.brokers["b1"].status().guaranteed.pubends["p"].durables == {}


def test_what_nobody_knows_cannot_be_forgotten() -> None:
    client = Stage().connect()
    client.say("UNSUBSCRIBE", receipt="r", activemq__subscriptionName="never")
    client.stage.pass_time(500)
    assert "never" in client.error
    assert client.fault.headers["receipt-id"] == "r"


def test_a_name_that_is_claimed_again_at_once_keeps_what_was_acknowledged() -> None:
    stage = Stage()
    client = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2)
    client.say_all(
        client.verdict(client.messages[0]),
        frame("UNSUBSCRIBE", id="s"),
        frame("SUBSCRIBE", id="t", destination="/topic/x", ack="client-individual", **DURABLE),
    )
    stage.pass_time(1_000)
    assert not client.error
    again = [each for each in client.messages if each.headers["subscription"] == "t"]
    assert [each.body for each in again] == [b"2"]


def test_a_name_that_is_forgotten_and_claimed_again_at_once_begins_anew() -> None:
    stage = Stage()
    client = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", 1, 2)
    client.say_all(
        client.verdict(client.messages[0]),
        frame("UNSUBSCRIBE", id="s", receipt="u", **DURABLE),
        frame("SUBSCRIBE", id="t", destination="/topic/x", ack="client-individual", receipt="s", **DURABLE),
    )
    stage.pass_time(1_000)
    assert client.error == ""
    assert client.receipts == ["u", "s"]
    send(stage, "/topic/x", 3)
    assert [each.body for each in client.messages if each.headers["subscription"] == "t"] == [b"3"]


def test_many_acks_that_come_together_are_one_look_at_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    client = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", *range(200))
    looks: list[int] = []
    take_kept = Promises.take_kept

    def counted(self: Promises) -> Iterator[tuple[str, Mapping[str, str]]]:
        looks.append(1)
        return take_kept(self)

    monkeypatch.setattr(Promises, "take_kept", counted)
    verdicts = [client.verdict(each, receipt=each.headers["ack"]) for each in client.messages]
    client.say_all(*verdicts)
    stage.pass_time(1_000)
    assert len(client.receipts) == 200
    assert len(looks) < 100


def test_receipts_of_acks_hold_nothing_back_and_end_in_an_error() -> None:
    stage = Stage(stomp=StompSettings(port=1))
    client = reader(stage, ack="client-individual", **DURABLE)
    stage.syncs = False
    send_all = stage.connect("feed")
    for number in range(300):
        send_all.send("/topic/x", b"%d" % number)
    stage.sync()
    stage.pass_time(500)
    for message in client.messages:
        client.ack(message, receipt=message.headers["ack"] + "r" * 60_000)
        if client.error:
            break
    assert "too many ACKs" in client.error
    assert client.peer.unread_bytes < 1_000_000


@pytest.mark.parametrize("headers", [{}, DURABLE])
def test_the_receipt_of_a_subscription_names_pubends_that_are_out_of_reach(headers: dict[str, str]) -> None:
    stage = linked()
    stage.cut("b1", "b2")
    stage.pass_time(500)
    client = stage.connect()
    client.subscribe("/topic/x", receipt="r", **headers)
    client.subscribe("/pubend/p1", "t", receipt="q")
    stage.pass_time(30_000)
    told = {each.headers["receipt-id"]: each.headers.get("penstock-pending") for each in client.all("RECEIPT")}
    assert told == {"r": "p2", "q": None}


def test_the_receipt_of_an_ack_does_not_wait_for_another_pubend() -> None:
    stage = linked()
    client = reader(stage, "/queue/x", ack="client-individual")
    stage.pass_time(1_000)
    for pubend in ("p1", "p2"):
        client.send("/queue/x", pubend.encode(), penstock_pubend=pubend, receipt=pubend)
    stage.pass_time(1_000)
    assert sorted(client.bodies) == [b"p1", b"p2"]
    stage.cut("b1", "b2")
    for body in (b"p2", b"p1"):
        client.ack(client.messages[client.bodies.index(body)], receipt=body.decode() + " done")
    stage.pass_time(500)
    assert client.receipts[2:] == ["p1 done"]


@pytest.mark.parametrize("headers", [{}, DURABLE])
def test_a_large_message_is_in_memory_once_for_all_subscriptions_of_a_client(headers: dict[str, str]) -> None:
    stage = Stage()
    client = stage.connect("reader")
    for number in range(40):
        named = {name: f"{value}{number}" for name, value in headers.items()}
        client.subscribe("/topic/x", str(number), ack="client", **named)
    stage.pass_time(1_000)
    client.reads = False
    tracemalloc.start()
    stage.connect("feed").send("/topic/x", bytes(2_000_000))
    stage.pass_time(1_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20_000_000
    client.reads = True
    stage.pass_time(1_000)
    assert [len(each.body) for each in client.messages] == [2_000_000] * 40


def test_what_waits_for_an_ack_is_bounded_in_bytes() -> None:
    stage = Stage()
    client = reader(stage, ack="client-individual", **DURABLE)
    feed = stage.connect("feed")
    for _ in range(40):
        feed.send("/topic/x", bytes(1_000_000))
        stage.pass_time(50)
    stage.pass_time(1_000)
    assert 16 <= len(client.messages) <= 18
    for number in range(40):
        client.ack(client.messages[number])
    assert len(client.messages) == 40


def test_a_name_that_some_pubend_still_knows_is_not_forgotten() -> None:
    stage = linked()
    client = reader(stage, **DURABLE)
    stage.pass_time(1_000)
    stage.cut("b1", "b2")
    client.say("UNSUBSCRIBE", id="s", receipt="r", **DURABLE)
    stage.pass_time(30_000)
    assert client.receipts == []
    assert "p2" in client.error
    assert client.fault.headers["penstock-header"] == "activemq.subscriptionName"


def test_more_messages_come_as_earlier_ones_are_acknowledged() -> None:
    stage = Stage(stomp=StompSettings(port=1, unacknowledged_max=3))
    client = reader(stage, ack="client-individual", **DURABLE)
    send(stage, "/topic/x", *range(7))
    assert numbers(client) == [0, 1, 2]
    client.ack(client.messages[1])
    assert numbers(client) == [0, 1, 2, 3]
    client.ack(client.messages[0])
    client.ack(client.messages[2])
    client.ack(client.messages[3])
    assert numbers(client) == [0, 1, 2, 3, 4, 5, 6]


def test_a_client_that_waits_for_each_receipt_gets_through_a_full_backlog() -> None:
    stage = Stage(stomp=StompSettings(port=1, unacknowledged_max=2))
    client = reader(stage, ack="client-individual", **DURABLE)
    feed = stage.connect("feed")
    for number in range(20):
        feed.send("/topic/x", b"%d" % number + bytes(1_000_000))
        stage.pass_time(50)
    stage.pass_time(2_000)
    was_full = client.peer.is_full
    for number in range(20):
        client.ack(client.messages[number], receipt=str(number))
        stage.pass_time(50)
        assert client.receipts[-1:] == [str(number)]
    assert (was_full, client.peer.is_full) == (True, False)
    assert [int(each.body.rstrip(b"\0")) for each in client.messages] == [*range(20)]


# --- queues


def worker(
    stage: Stage, name: str = "worker", version: Version = V1_2, /, *, ack: str = "client-individual", **headers: str
) -> StompClient:
    return reader(stage, "/queue/x", name, version, ack=ack, **headers)


def test_a_queue_is_made_by_the_first_who_subscribes() -> None:
    stage = Stage()
    client = worker(stage)
    send(stage, "/queue/x", 1)
    assert attempts(client) == [(1, False)]
    assert client.messages[0].headers["destination"] == "/queue/x"


def test_a_queue_is_made_by_the_first_who_sends_and_keeps_it_for_who_comes() -> None:
    stage = Stage()
    send(stage, "/queue/x", 1, 2)
    assert attempts(worker(stage)) == [(1, False), (2, False)]


def test_what_is_sent_to_a_queue_survives_a_crash_before_anybody_subscribes() -> None:
    stage = Stage()
    send(stage, "/queue/x", 1)
    stage.crash("b1")
    stage.start("b1")
    stage.pass_time(6_000)
    assert numbers(worker(stage)) == [1]


def test_workers_share_a_queue() -> None:
    stage = Stage(stomp=StompSettings(port=1, prefetch=1))
    first, second = worker(stage, "one"), worker(stage, "two")
    feed = stage.connect("feed")
    for number in range(6):
        feed.send("/queue/x", b"%d" % number, penstock_pubend="p")
    for _ in range(10):
        for client in (first, second):
            for message in client.messages[len(client.receipts) :]:
                client.ack(message, receipt=message.body.decode())
        stage.pass_time(100)
    assert sorted(numbers(first) + numbers(second)) == [*range(6)]
    assert numbers(first)
    assert numbers(second)


def test_a_member_gets_as_many_at_a_time_as_it_wants() -> None:
    stage = Stage()
    client = worker(stage, prefetch_count="2")
    send(stage, "/queue/x", 1, 2, 3, penstock_pubend="p")
    assert numbers(client) == [1, 2]
    client.ack(client.messages[0])
    stage.pass_time(200)
    assert numbers(client) == [1, 2, 3]


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_an_ack_of_a_queue_counts_when_it_is_kept(version: Version) -> None:
    stage = Stage()
    client = worker(stage, "worker", version)
    send(stage, "/queue/x", 1, 2)
    stage.syncs = False
    client.ack(client.messages[0], receipt="1")
    stage.pass_time(500)
    assert client.receipts == []
    stage.sync()
    assert client.receipts == ["1"]
    stage.crash("b1")
    stage.syncs = True
    stage.start("b1")
    stage.pass_time(16_000)
    assert numbers(worker(stage)) == [2]


def test_a_cumulative_ack_of_a_queue_counts_for_all_before() -> None:
    stage = Stage()
    client = worker(stage, ack="client")
    send(stage, "/queue/x", 1, 2, 3)
    client.ack(client.messages[1], receipt="r")
    assert client.receipts == ["r"]
    client.leave()
    stage.pass_time(12_000)
    assert attempts(worker(stage)) == [(3, True)]


def test_with_automatic_acknowledgement_what_was_sent_is_done() -> None:
    stage = Stage()
    client = worker(stage, ack="auto")
    send(stage, "/queue/x", 1, 2)
    assert numbers(client) == [1, 2]
    client.say("DISCONNECT", receipt="bye")
    assert client.receipts == ["bye"]
    stage.pass_time(12_000)
    assert numbers(worker(stage)) == []


def test_a_refused_message_comes_again_and_then_is_a_dead_letter() -> None:
    stage = Stage(stomp=StompSettings(port=1, deliveries_max=2, nack_delay_ms=100))
    watcher = reader(stage, "/pubend/dead", "watcher")
    client = worker(stage)
    send(stage, "/queue/x", 1)
    client.nack(client.messages[0], receipt="r")
    assert client.receipts == ["r"]
    stage.pass_time(1_000)
    assert attempts(client) == [(1, False), (1, True)]
    assert client.messages[1].headers["penstock-attempt"] == "2"
    assert not watcher.messages
    client.nack(client.messages[1])
    stage.pass_time(2_000)
    assert len(client.messages) == 2
    assert numbers(watcher) == [1]
    assert watcher.messages[0].headers["dead_group"] == "x"


def test_when_a_connection_is_lost_others_get_what_it_had() -> None:
    stage = Stage()
    first, second = worker(stage, "one"), worker(stage, "two")
    send(stage, "/queue/x", 1, 2, penstock_pubend="p")
    had = numbers(first)
    first.leave()
    stage.pass_time(12_000)
    assert sorted(numbers(second)) == [1, 2]
    assert {number for number, is_again in attempts(second) if is_again} == set(had)


def test_what_a_client_has_not_even_seen_comes_to_others_at_once() -> None:
    stage = Stage(stomp=StompSettings(port=1, unacknowledged_max=1))
    first = worker(stage, "one")
    send(stage, "/queue/x", 1, 2, penstock_pubend="p")
    assert numbers(first) == [1]
    first.leave()
    stage.pass_time(500)
    second = worker(stage, "two")
    assert attempts(second) == [(1, True)]
    second.ack(second.messages[0])
    assert numbers(second) == [1, 2]


def test_a_message_stays_with_who_has_it_however_long_it_takes() -> None:
    stage = Stage(stomp=StompSettings(port=1, work_ms=1_000))
    first, second = worker(stage, "one"), worker(stage, "two")
    send(stage, "/queue/x", 1)
    stage.pass_time(60_000)
    assert len(numbers(first) + numbers(second)) == 1
    (has,) = [client for client in (first, second) if client.messages]
    has.ack(has.messages[0], receipt="r")
    assert has.receipts == ["r"]


def test_unsubscribe_gives_back_what_is_not_acknowledged() -> None:
    stage = Stage()
    client = worker(stage)
    send(stage, "/queue/x", 1, 2)
    client.say_all(client.verdict(client.messages[0], receipt="1"), frame("UNSUBSCRIBE", id="s", receipt="2"))
    stage.pass_time(500)
    assert client.receipts == ["1", "2"]
    assert attempts(worker(stage, "two")) == [(2, True)]
    assert not client.error


@pytest.mark.parametrize("destination", ["/queue/x", "/topic/x"])
def test_an_ack_after_unsubscribe_is_told_to_come_too_late(destination: str) -> None:
    stage = Stage()
    client = reader(stage, destination, ack="client-individual")
    send(stage, destination, 1)
    client.say_all(frame("UNSUBSCRIBE", id="s"), client.verdict(client.messages[0], receipt="r"))
    stage.pass_time(500)
    assert not client.receipts
    assert client.fault.headers["receipt-id"] == "r"


def test_sending_to_a_queue_disturbs_nobody() -> None:
    stage = Stage()
    send(stage, "/queue/x", 1, 2, 3, penstock_pubend="p")
    send(stage, "/queue/x", 4, penstock_pubend="p")
    send(stage, "/queue/x", 5, penstock_pubend="p")
    assert attempts(worker(stage)) == [(number, False) for number in range(1, 6)]


def test_nobody_selects_from_a_queue() -> None:
    stage = Stage()
    client = stage.connect("two")
    client.subscribe("/queue/x", selector="n = 1", receipt="r")
    assert client.error == (
        "all consumers of a queue share all of it: select from a topic, or send what is selected to a queue of its own"
    )
    assert client.fault.headers["penstock-header"] == "selector"
    send(stage, "/queue/x", 1)
    assert attempts(worker(stage)) == [(1, False)]


@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x"])
def test_what_was_not_written_comes_again_although_it_needs_no_ack(destination: str) -> None:
    stage = Stage()
    durable = DURABLE if destination == "/topic/x" else {}
    first = reader(stage, destination, **durable)
    first.read = lambda: None  # type: ignore[method-assign]
    send(stage, destination, 1, 2, penstock_pubend="p")
    assert first.peer.has_bytes
    first.leave()
    second = reader(stage, destination, **durable)
    assert numbers(second) == [1, 2]
    second.leave()
    assert numbers(reader(stage, destination, **durable)) == []


def test_members_that_want_something_else_are_refused() -> None:
    stage = Stage()
    worker(stage, "one")
    stage.stomp = StompSettings(port=1, deliveries_max=7)
    client = stage.connect("two")
    client.subscribe("/queue/x", receipt="r")
    stage.pass_time(500)
    assert "group 'x'" in client.error
    assert client.fault.headers["receipt-id"] == "r"
    assert not client.receipts


def test_native_members_and_stomp_members_share_a_queue() -> None:
    stage = Stage()
    client = worker(stage)
    native = stage.client("b1", "native")
    native.say(f.Join(1, "destination = '/queue/x'", "x", b"native", 1, "", 30_000, prefetch=5))
    stage.pass_time(200)
    assert native.refusals() == []
    send(stage, "/queue/x", *range(10), penstock_pubend="p")
    handed = [each for each in native.heard if isinstance(each, f.Handed)]
    assert len(client.messages) + sum(len(each.ticks) for each in handed) == 10
    assert client.messages
    assert handed


@pytest.mark.parametrize(
    "headers", [{"id": "nonsense"}, {"id": "1-999"}, {"id": "99999999999999-1"}, {"id": ""}, {"id": "\u0663-1"}]
)
def test_an_ack_of_nothing_is_told(headers: dict[str, str]) -> None:
    stage = Stage()
    client = worker(stage)
    send(stage, "/queue/x", 1)
    client.say_all(StompFrame("ACK", headers | {"receipt": "r"}))
    assert client.fault.headers["penstock-header"] == "id"
    assert client.fault.headers["receipt-id"] == "r"


@pytest.mark.parametrize(
    ("version", "headers", "header"),
    [
        (V1_2, {"message-id": "x", "subscription": "s"}, "id"),
        (V1_1, {"id": "1-1"}, "message-id"),
        (V1_1, {"message-id": "x"}, "subscription"),
        (V1_1, {"message-id": "x", "subscription": "s"}, "message-id"),
        (V1_1, {"message-id": "x", "subscription": "t"}, "message-id"),
        (V1_0, {"message-id": "x"}, "message-id"),
    ],
)
def test_an_ack_names_a_message_in_the_way_of_its_version(
    version: Version, headers: dict[str, str], header: str
) -> None:
    client = worker(Stage(), "worker", version)
    client.say_all(StompFrame("ACK", headers))
    assert client.fault.headers["penstock-header"] == header


def test_an_ack_twice_is_told() -> None:
    stage = Stage()
    client = worker(stage)
    send(stage, "/queue/x", 1)
    client.ack(client.messages[0], receipt="1")
    client.ack(client.messages[0], receipt="2")
    assert client.receipts == ["1"]
    assert client.fault.headers["receipt-id"] == "2"


def test_in_1_0_a_message_is_named_alone() -> None:
    stage = Stage()
    client = worker(stage, "worker", V1_0)
    send(stage, "/queue/x", 1)
    client.say("ACK", message_id=client.messages[0].headers["message-id"], receipt="r")
    assert client.receipts == ["r"]


def test_an_ack_that_comes_too_late_is_told() -> None:
    stage = Stage()
    client = worker(stage)
    send(stage, "/queue/x", 1)
    headers = client.messages[0].headers
    # Somebody else has it by now, as far as the pubend knows.
    refused = (int(headers["penstock-tick"]), 1, Verdict.REFUSED, 0, "")
    client.native.say(f.Verdicts(1, headers["penstock-pubend"], (refused,)))
    other = worker(stage, "other")
    stage.pass_time(500)
    client.ack(client.messages[0], receipt="r")
    stage.pass_time(500)
    assert numbers(other) == [1]
    assert client.receipts == []
    assert client.fault.headers["receipt-id"] == "r"
    assert "not this subscription's any more" in client.error


def test_who_connects_after_others_knows_the_pubends_from_the_welcome() -> None:
    stage = Stage()
    reader(stage, "/topic/x", "first")
    second = reader(stage, "/topic/x", "second")
    send(stage, "/topic/x", 1)
    assert numbers(second) == [1]
