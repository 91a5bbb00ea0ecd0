"""What STOMP clients publish: where it goes, when it waits, and when its receipt comes."""

from __future__ import annotations

import pytest

from overlay import TestClient
from penstock.broker import Access, Rule
from penstock.model.body import decode_message
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.stomp import StompSettings
from stomp_stage import V1_2, Stage, StompClient, broker, frame, linked


def listener(stage: Stage, selector: str = "", at: str = "b1") -> TestClient:
    client = stage.client(at, "listener")
    client.subscribe(1, selector)
    stage.pass_time(200)
    return client


def heard(client: TestClient) -> list[Message]:
    return [decode_message(body)[1] for each in client.heard if isinstance(each, f.Deliver) for body in each.bodies]


def pubends(client: TestClient) -> list[str]:
    """The pubend of each message that came."""
    names = {number: name for each in client.heard if isinstance(each, f.PubendNames) for number, name in each.names}
    return [names[each.pubend] for each in client.heard if isinstance(each, f.Deliver) for _ in each.bodies]


# --- content


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("infer", {"n": 5, "x": 1.5, "yes": True, "text": "a", "forced": "5", "wide": 5.0}),
        ("string", {"n": "5", "x": "1.5", "yes": "true", "text": "a", "forced": "5", "wide": 5.0}),
    ],
)
def test_native_clients_see_headers_as_attributes(types: str, expected: dict[str, AttributeValue]) -> None:
    stage = Stage(stomp=StompSettings(port=1, types=types))
    native = listener(stage)
    headers = {"n": "5", "x": "1.5", "yes": "true", "text": "a", "forced;type=string": "5", "wide;type=float": "5"}
    sent = frame("SEND", b"\0body\0", destination="/topic/x", content_type="image/png", reply_to="/topic/y")
    sent.headers.update(headers)
    stage.connect().say_all(sent)
    stage.pass_time(200)
    (message,) = heard(native)
    assert dict(message.attributes) == expected | {"destination": "/topic/x", "reply-to": "/topic/y"}
    assert (message.payload, message.content_type) == (b"\0body\0", "image/png")


def test_stomp_clients_see_native_messages() -> None:
    stage = Stage()
    client = stage.connect()
    client.subscribe("/topic/x")
    stage.pass_time(200)
    stage.client("b1").publish({"destination": "/topic/x", "n": 5, "none": None, "message-id": "fake"}, expires=30)
    stage.pass_time(200)
    (message,) = client.messages
    assert message.body == b"payload"
    assert message.headers["n"] == "5"
    assert "none" not in message.headers
    assert message.headers["message-id"] != "fake"
    assert int(message.headers["expires"]) == int(message.headers["timestamp"]) + 30_000


def test_an_expiry_comes_back_as_it_was_sent() -> None:
    stage = Stage()
    client = stage.connect()
    client.subscribe("/topic/x")
    stage.pass_time(200)
    expires = str(stage.now_ms + 12_345)
    client.send("/topic/x", expires=expires)
    stage.pass_time(200)
    assert [each.headers["expires"] for each in client.messages] == [expires]


def test_what_has_expired_gets_its_receipt_and_goes_nowhere() -> None:
    stage = Stage()
    native = listener(stage)
    client = stage.connect()
    client.send("/topic/x", expires="1", receipt="r")
    stage.pass_time(2_000)
    assert client.receipts == ["r"]
    assert heard(native) == [] or heard(native)[0].expires == 0.001


@pytest.mark.parametrize("name", ["$expires", "$request", "$x"])
def test_reserved_names_are_refused(name: str) -> None:
    client = Stage().connect()
    sent = frame("SEND", destination="/topic/x", receipt="r")
    sent.headers[name] = "1"
    client.say_all(sent)
    assert client.fault.headers["penstock-header"] == name
    assert client.fault.headers["receipt-id"] == "r"


def test_a_message_that_is_too_large_is_refused() -> None:
    client = Stage().connect()
    client.send("/topic/x", bytes(8 * 1024 * 1024 + 1), receipt="r")
    assert "payload" in client.error
    assert client.fault.headers["receipt-id"] == "r"


def test_a_message_of_the_largest_size_gets_through() -> None:
    stage = Stage()
    client = stage.connect()
    client.send("/topic/x", bytes(8 * 1024 * 1024), receipt="r")
    stage.pass_time(200)
    assert client.receipts == ["r"]


# --- where it goes


def test_a_client_s_messages_stay_with_one_pubend_wherever_it_comes_back() -> None:
    stage = Stage()
    native = listener(stage)
    for _ in range(3):
        client = stage.connect("feed")
        client.send("/topic/x", receipt="1")
        client.send("/queue/y", receipt="2")
        stage.pass_time(200)
        client.leave()
    assert len({*pubends(native)}) == 1
    assert len(pubends(native)) == 6
    assert {*pubends(native)} < {"p", "q"}


def test_what_need_not_be_kept_goes_to_a_best_effort_pubend() -> None:
    stage = Stage()
    native = listener(stage)
    client = stage.connect()
    client.send("/topic/x", persistent="false", receipt="r")
    stage.pass_time(200)
    assert pubends(native) == ["loose"]
    assert client.receipts == ["r"]


def test_what_is_sent_to_a_queue_is_kept_all_the_same() -> None:
    stage = Stage()
    native = listener(stage)
    stage.connect().send("/queue/x", persistent="false")
    stage.pass_time(200)
    assert pubends(native) in (["p"], ["q"])


def test_where_nothing_else_is_it_goes_to_what_there_is() -> None:
    stage = Stage(broker(pubends=("p", "dead"), best_effort=()))
    native = listener(stage)
    stage.connect().send("/topic/x", persistent="false")
    stage.pass_time(200)
    assert pubends(native) == ["p"]


def test_a_named_pubend_is_where_it_goes() -> None:
    stage = Stage()
    native = listener(stage)
    client = stage.connect()
    client.send("/pubend/q")
    client.send("/topic/x", penstock_pubend="p")
    client.send("/pubend/loose")
    stage.pass_time(200)
    assert sorted(pubends(native)) == ["loose", "p", "q"]


@pytest.mark.parametrize("headers", [{"penstock_pubend": "nowhere"}, {"penstock_pubend": "x" * 200}])
def test_an_unknown_pubend_is_told(headers: dict[str, str]) -> None:
    client = Stage().connect()
    client.say_all(frame("SEND", destination="/topic/x", receipt="r", **headers))
    assert client.fault.headers["penstock-header"] == "penstock-pubend"
    assert client.fault.headers["receipt-id"] == "r"


def test_an_unknown_pubend_as_destination_is_told() -> None:
    client = Stage().connect()
    client.send("/pubend/nowhere", receipt="r")
    assert "nowhere" in client.error
    assert client.fault.headers["receipt-id"] == "r"


# --- receipts


@pytest.mark.parametrize("destination", ["/topic/x", "/pubend/p"])
def test_a_receipt_comes_when_it_is_durable_and_not_before(destination: str) -> None:
    stage = Stage()
    client = stage.connect()
    stage.syncs = False
    client.send(destination, receipt="r")
    stage.pass_time(3_000)
    assert client.receipts == []
    stage.sync()
    assert client.receipts == ["r"]


def test_receipts_come_in_order_and_once() -> None:
    stage = Stage()
    client = stage.connect()
    client.say_all(*(frame("SEND", destination="/topic/x", receipt=str(number)) for number in range(50)))
    stage.pass_time(1_000)
    assert client.receipts == [str(number) for number in range(50)]


def test_nothing_whose_receipt_came_is_lost_when_the_broker_dies() -> None:
    stage = Stage()
    client = stage.connect()
    stage.syncs = False
    client.say_all(*(frame("SEND", b"%d" % each, destination="/topic/x", receipt=str(each)) for each in range(3)))
    stage.sync()
    client.say_all(*(frame("SEND", b"%d" % each, destination="/topic/x", receipt=str(each)) for each in range(3, 6)))
    stage.crash("b1")
    stage.syncs = True
    stage.start("b1")
    stage.pass_time(6_000)
    assert client.receipts == ["0", "1", "2"]
    reader = stage.connect("reader")
    reader.subscribe("/topic/x", penstock_start="earliest")
    stage.pass_time(500)
    assert reader.bodies == [b"0", b"1", b"2"]


# --- waiting


def waiting(stage: Stage) -> StompClient:
    """A client whose second message has to wait."""
    client = stage.connect()
    stage.syncs = False
    client.send("/topic/x", bytes(4_000), receipt="1")
    client.say_all(
        frame("SEND", bytes(4_000), destination="/topic/x", receipt="2"),
        frame("BEGIN", transaction="t", receipt="3"),
    )
    assert client.peer.is_waiting
    return client


def test_send_waits_for_credit_and_everything_behind_it_too() -> None:
    stage = Stage(broker(credit_bytes=5_000))
    client = waiting(stage)
    stage.pass_time(1_000)
    assert client.receipts == []
    stage.syncs = True
    stage.sync()
    stage.pass_time(200)
    assert sorted(client.receipts) == ["1", "2", "3"]
    assert not client.peer.is_waiting


def test_who_waits_and_goes_away_leaves_nothing_behind() -> None:
    stage = Stage(broker(credit_bytes=5_000))
    client = waiting(stage)
    client.leave()
    stage.sync()
    assert stage.brokers["b1"].status().clients == 0


def test_disconnect_behind_what_waits_is_answered_after_it() -> None:
    stage = Stage(broker(credit_bytes=5_000))
    client = waiting(stage)
    client.say("DISCONNECT", receipt="bye")
    stage.pass_time(1_000)
    assert client.receipts == []
    stage.syncs = True
    stage.sync()
    stage.pass_time(200)
    assert client.receipts[-1] == "bye"
    assert sorted(client.receipts) == ["1", "2", "3", "bye"]


def test_a_message_larger_than_the_credit_goes_alone() -> None:
    stage = Stage(broker(credit_bytes=5_000))
    client = stage.connect()
    client.send("/topic/x", bytes(20_000), receipt="1")
    client.send("/topic/x", bytes(20_000), receipt="2")
    stage.pass_time(200)
    assert client.receipts == ["1", "2"]


def test_send_waits_until_the_broker_knows_the_pubend() -> None:
    stage = linked()
    stage.cut("b1", "b2")
    stage.crash("b1")
    stage.start("b1")
    stage.pass_time(1_000)
    client = stage.connect()
    client.send("/pubend/p2", receipt="r")
    stage.pass_time(5_000)
    assert client.peer.is_waiting
    assert not client.error
    stage.link("b1", "b2")
    stage.pass_time(5_000)
    assert client.receipts == ["r"]


# --- queues


def test_a_queue_exists_where_its_messages_go_before_they_do() -> None:
    stage = linked()
    stage.cut("b1", "b2")
    stage.pass_time(500)
    client = stage.connect()
    client.send("/queue/x", b"job", penstock_pubend="p2", receipt="r")
    stage.pass_time(10_000)
    assert client.receipts == []
    stage.link("b1", "b2")
    stage.pass_time(10_000)
    assert client.receipts == ["r"]
    client.leave()
    worker = stage.connect("worker", at="b2")
    worker.subscribe("/queue/x", ack="client")
    stage.pass_time(2_000)
    assert worker.bodies == [b"job"]


def test_a_queue_that_was_forgotten_is_made_anew_after_a_while() -> None:
    stage = Stage()
    client = stage.connect()
    client.send("/queue/x", b"1", receipt="1")
    stage.pass_time(200)
    native = stage.client("b1")
    native.say(f.Forget(1, "x"))
    stage.pass_time(61_000)
    assert native.all(f.Forgotten)
    client.send("/queue/x", b"2", receipt="2")
    stage.pass_time(200)
    worker = stage.connect("worker")
    worker.subscribe("/queue/x")
    stage.pass_time(200)
    assert worker.bodies == [b"2"]


def test_who_may_not_use_a_queue_is_told() -> None:
    stage = Stage(broker(access=Access({"feed": "f"}, (Rule("feed"),))))
    client = stage.connect("feed", passcode="f")
    client.send("/queue/x", receipt="r")
    assert "queue x" in client.error
    assert client.fault.headers["receipt-id"] == "r"


def test_sending_to_a_queue_leaves_no_subscription_behind() -> None:
    stage = Stage()
    client = stage.connect()
    client.send("/queue/x", receipt="r")
    stage.pass_time(200)
    assert client.receipts == ["r"]
    assert client.peer._resident is not None
    assert [*client.peer._resident._inboxes] == []
    assert client.peer.version is V1_2


@pytest.mark.parametrize("pubend", ["loose", "dead"])
def test_a_queue_gets_nothing_from_pubends_that_it_does_not_work_on(pubend: str) -> None:
    client = Stage().connect()
    client.send("/queue/x", penstock_pubend=pubend, receipt="r")
    assert client.fault.headers["penstock-header"] == "penstock-pubend"
    assert client.fault.headers["receipt-id"] == "r"
