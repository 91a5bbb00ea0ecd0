"""One STOMP client and its broker: how the conversation begins, goes on while frames wait, and ends."""

from __future__ import annotations

import pytest

from penstock.broker import Access, Rule
from penstock.protocol import frames as f
from penstock.protocol.stomp import StompFrame, Version, encode
from penstock.selectors import Selector
from penstock.stomp import StompSettings
from stomp_stage import V1_0, V1_1, V1_2, Stage, StompClient, broker, frame

LISTED = Access({"alice": "secret", "bob": "word"}, (Rule("alice"), Rule("bob", publish=None)))


def stranger(stage: Stage | None = None, command: str = "CONNECT", /, **headers: str) -> StompClient:
    client = (stage or Stage()).stranger_by_stomp()
    client.say(command, **headers)
    return client


def is_ended(client: StompClient) -> bool:
    """Whether both the client and the broker know that it is over."""
    return client.peer.is_over and not client.peer.has_bytes and client.peer.next_deadline() is None


@pytest.mark.parametrize(
    ("version", "receipt"), [(V1_2, "a\rb"), (V1_2, "a\nb:c\\"), (V1_1, "a\rb"), (V1_1, "\n"), (V1_0, "a:b")]
)
def test_an_error_has_the_receipt_id_that_was_asked_for(version: Version, receipt: str) -> None:
    client = Stage().connect(version=version)
    client.say("SEND", destination="nowhere", receipt=receipt)
    assert client.fault.headers["receipt-id"] == receipt


def test_a_receipt_that_1_0_cannot_name_is_not_named() -> None:
    client = Stage().connect(version=V1_0)
    client.say("SEND", destination="/topic/a", receipt="a\rb")
    assert "receipt-id" not in client.fault.headers


# --- CONNECT


@pytest.mark.parametrize(
    ("command", "headers"),
    [("SEND", {"destination": "/topic/a"}), ("CONNECT", {"accept_version": "2.0"}), ("CONNECT", {"heart_beat": "x"})],
)
def test_a_stranger_that_is_refused_is_none_any_more_to_its_broker(command: str, headers: dict[str, str]) -> None:
    stage = Stage()
    client = stranger(stage, command, **headers)
    assert client.error
    assert client.native.closed is not None
    assert stage.brokers["b1"].status().strangers == 0


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(
    ("accepted", "version"),
    [("1.0,1.1,1.2", V1_2), ("1.2,2.0", V1_2), ("1.1,1.0", V1_1), ("1.0", V1_0)],
)
def test_the_highest_version_that_both_know_is_spoken(command: str, accepted: str, version: Version) -> None:
    client = stranger(None, command, accept_version=accepted, host="test")
    assert client.frames[0].command == "CONNECTED"
    assert client.frames[0].headers["version"] == version.value
    assert client.peer.is_known
    assert client.peer.version is version


def test_who_names_no_version_speaks_1_0() -> None:
    assert stranger().frames[0].headers["version"] == "1.0"


def test_who_shares_no_version_is_told_which_there_are() -> None:
    client = stranger(None, accept_version="2.0")
    assert client.fault.headers["version"] == "1.0,1.1,1.2"
    assert is_ended(client)


@pytest.mark.parametrize("header", ["x", "1", "5,-1", "a,b"])
def test_unsound_heart_beats_are_told_by_their_header(header: str) -> None:
    client = stranger(None, accept_version="1.2", heart_beat=header)
    assert client.fault.headers["penstock-header"] == "heart-beat"
    assert is_ended(client)


def test_heart_beats_are_answered() -> None:
    client = stranger(None, accept_version="1.2", heart_beat="0,2000")
    assert client.frames[0].headers["heart-beat"] == "500,10000"


def test_a_right_token_lets_a_client_in() -> None:
    stage = Stage(broker(access=LISTED))
    assert stranger(stage, accept_version="1.2", login="alice", passcode="secret").peer.is_known


@pytest.mark.parametrize(("login", "passcode"), [("alice", "word"), ("alice", ""), ("eve", "secret"), ("", "")])
def test_a_wrong_token_is_told_and_ends_it(login: str, passcode: str) -> None:
    client = stranger(Stage(broker(access=LISTED)), accept_version="1.2", login=login, passcode=passcode)
    assert client.error
    assert not client.all("CONNECTED")
    assert is_ended(client)
    assert client.native.closed is not None


@pytest.mark.parametrize("name", ["login", "passcode", "client-id"])
@pytest.mark.parametrize("value", ["x" * 5_000, "a\nb", "\u2028", "\x1b[2J", "x" * 201])
def test_names_that_no_client_can_have_are_refused(name: str, value: str) -> None:
    stage = Stage(broker(access=LISTED))
    client = stage.stranger_by_stomp()
    headers = {"accept-version": "1.2", "login": "alice", "passcode": "secret"} | {name: value}
    client.say_all(StompFrame("CONNECT", headers))
    assert is_ended(client) or (name == "client-id" and client.peer.is_known)
    assert bool(client.error) == client.peer.is_over


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT"])
def test_nothing_is_done_before_connect(command: str) -> None:
    client = stranger(None, command, destination="/topic/x", id="s", transaction="t", receipt="r")
    assert command in client.error
    assert client.fault.headers["receipt-id"] == "r"
    assert not client.receipts
    assert is_ended(client)


def test_disconnect_before_connect_is_refused_too() -> None:
    assert "DISCONNECT" in stranger(None, "DISCONNECT", receipt="r").error


def test_a_client_connects_once() -> None:
    client = Stage().connect()
    client.say("CONNECT", accept_version="1.2")
    assert "already" in client.error


def test_frames_that_come_with_connect_are_handled_after_it() -> None:
    stage = Stage()
    client = stage.stranger_by_stomp()
    client.say_all(
        frame("CONNECT", accept_version="1.2"),
        frame("SUBSCRIBE", id="s", destination="/topic/x"),
        frame("SEND", b"hello", destination="/topic/x", receipt="r"),
    )
    stage.pass_time(1_000)
    assert client.frames[0].command == "CONNECTED"
    assert client.bodies == [b"hello"]
    assert client.receipts == ["r"]


def test_malformed_bytes_end_it_with_an_error() -> None:
    client = Stage().connect()
    client.feed(b"NONSENSE\n\n\0")
    assert "unknown" in client.error
    assert is_ended(client)


def test_malformed_bytes_of_a_stranger_end_it_with_an_error() -> None:
    client = Stage().stranger_by_stomp()
    client.feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0")
    assert client.error
    assert client.peer.is_over


def test_messages_sent_before_a_mistake_are_sent() -> None:
    stage = Stage()
    reader = stage.connect("reader")
    reader.subscribe("/topic/x")
    stage.pass_time(500)
    client = stage.connect()
    client.say_all(
        frame("SEND", b"before", destination="/topic/x"),
        frame("SEND", destination="nowhere"),
        frame("SEND", b"after", destination="/topic/x"),
    )
    stage.pass_time(500)
    assert "nowhere" in client.error
    assert reader.bodies == [b"before"]


# --- receipts that cannot be told


def test_a_receipt_that_1_0_cannot_tell_is_refused() -> None:
    client = Stage().connect(version=V1_0)
    client.feed(b"SEND\ndestination:/topic/x\nreceipt:a\rb\n\nbody\0")
    assert client.fault.headers["penstock-header"] == "receipt"


def test_receipts_have_any_characters_in_1_2() -> None:
    client = Stage().connect()
    client.say("SEND", destination="/topic/x", receipt="a\r\nb:c\\ \u00e9")
    client.stage.pass_time(500)
    assert client.receipts == ["a\r\nb:c\\ \u00e9"]


# --- the end


def test_disconnect_is_answered_and_ends_it() -> None:
    client = Stage().connect()
    client.say("DISCONNECT", receipt="bye")
    assert client.receipts == ["bye"]
    assert is_ended(client)
    assert client.native.closed is not None


def test_frames_after_disconnect_are_ignored() -> None:
    client = Stage().connect()
    client.say_all(frame("DISCONNECT", receipt="bye"), frame("SEND", destination="nowhere", receipt="r"))
    client.say("SEND", destination="nowhere")
    assert client.receipts == ["bye"]
    assert not client.error


def test_frames_after_an_error_are_ignored() -> None:
    client = Stage().connect()
    client.say("SEND", destination="nowhere")
    client.say("SEND", destination="elsewhere", receipt="r")
    assert "nowhere" in client.fault.headers["message"]
    assert not client.receipts


def test_disconnect_is_answered_when_everything_before_is_durable() -> None:
    stage = Stage()
    client = stage.connect()
    stage.syncs = False
    client.say_all(
        frame("SEND", destination="/topic/x"),
        frame("SEND", destination="/topic/x", receipt="1"),
        frame("DISCONNECT", receipt="bye"),
    )
    stage.pass_time(1_000)
    assert client.receipts == []
    stage.sync()
    assert client.receipts == ["1", "bye"]
    assert is_ended(client)


def test_disconnect_does_not_wait_for_ever() -> None:
    stage = Stage()
    client = stage.connect()
    stage.syncs = False
    client.say_all(frame("SEND", destination="/topic/x"), frame("DISCONNECT", receipt="bye"))
    stage.pass_time(5_200)
    assert client.receipts == []
    assert "durable" in client.error
    assert client.fault.headers["receipt-id"] == "bye"
    assert is_ended(client)


def test_the_brokers_goodbye_is_an_error() -> None:
    client = Stage().connect()
    client.hear(f.Goodbye("quota", "too much"))
    assert client.error == "too much"
    assert is_ended(client)


def test_a_client_that_cannot_be_moved_is_told_where_to_go() -> None:
    client = Stage().connect()
    client.hear(f.Migrate(1, 1, "b2", "penstock://b2:7000"))
    assert "b2" in client.error
    assert client.peer.is_over


@pytest.mark.parametrize("state", ["new", "greeting", "up", "subscribed", "sending", "waiting", "leaving", "over"])
def test_a_connection_that_breaks_leaves_nothing_behind(state: str) -> None:
    stage = Stage()
    client = stage.stranger_by_stomp()
    connect = frame("CONNECT", accept_version="1.2")
    if state == "greeting":
        client.peer.on_frame(connect, now_ms=stage.now_ms, wall_ms=stage.now_ms)
    elif state != "new":
        client.say_all(connect)
    if state == "subscribed":
        client.subscribe("/topic/x")
        client.subscribe("/queue/x", "q", ack="client")
    stage.syncs = state not in ("sending", "leaving")
    if state in ("sending", "leaving"):
        client.send("/topic/x", b"x", receipt="r")
    if state == "waiting":
        client.peer.on_frame(frame("SEND", destination="/queue/y"), now_ms=stage.now_ms, wall_ms=stage.now_ms)
        assert client.peer.is_waiting
    if state == "leaving":
        client.say("DISCONNECT", receipt="bye")
    if state == "over":
        client.say("SEND", destination="nowhere")
    client.leave()
    stage.sync()
    stage.pass_time(15_000)
    assert client.peer.is_over
    assert not client.peer.is_waiting
    assert not client.peer.is_full
    assert client.peer.take_frames(now_ms=stage.now_ms) == []
    assert client.peer.next_deadline() is None
    status = stage.brokers["b1"].status()
    assert (status.clients, status.strangers, status.subscriptions) == (0, 0, 0)


# --- heart-beats


def test_the_broker_beats_when_it_has_nothing_to_say() -> None:
    client = Stage().connect(heart_beat="0,2000")
    client.stage.pass_time(10_000)
    assert 5 <= client.beats <= 7


def test_a_client_that_breaks_its_promise_is_told_so() -> None:
    client = Stage().connect(heart_beat="3000,0")
    client.stage.pass_time(20_500)
    assert not client.error
    client.stage.pass_time(1_000)
    assert client.fault.headers["penstock-header"] == "heart-beat"
    assert client.peer.is_silent
    assert is_ended(client)


def test_a_client_that_beats_stays() -> None:
    client = Stage().connect(heart_beat="10000,10000")
    for _ in range(10):
        client.stage.pass_time(10_000)
        client.beat()
    assert client.peer.is_known


def test_silence_does_not_count_while_nobody_listens_to_the_client() -> None:
    stage = Stage(broker(credit_bytes=5_000))
    client = stage.connect(heart_beat="10000,0")
    stage.syncs = False
    client.send("/topic/x", bytes(4_000))
    client.send("/topic/x", bytes(4_000), receipt="r")
    assert client.peer.is_waiting
    stage.pass_time(60_000)
    assert client.peer.is_waiting
    assert not client.error
    stage.syncs = True
    stage.sync()
    stage.pass_time(15_000)
    assert client.receipts == ["r"]
    assert not client.error
    stage.pass_time(15_000)
    assert client.fault.headers["penstock-header"] == "heart-beat"


def test_no_beat_is_due_while_the_client_does_not_read() -> None:
    client = Stage().connect(heart_beat="0,1000")
    client.reads = False
    client.stage.pass_time(10_000)
    client.peer.take_bytes(1, now_ms=client.stage.now_ms)
    assert not client.peer.has_bytes


# --- a slow client, and time


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("ack", ["auto", "client-individual"])
@pytest.mark.parametrize("destination", ["/topic/x", "/queue/x", "durable"])
def test_nothing_is_due_at_once_again_and_again(destination: str, ack: str, reads: bool) -> None:
    stage = Stage(stomp=StompSettings(port=1, unacknowledged_max=5))
    client = stage.connect(heart_beat="0,1000")
    headers = {"activemq__subscriptionName": "d"} if destination == "durable" else {}
    client.subscribe("/topic/x" if destination == "durable" else destination, ack=ack, **headers)
    stage.pass_time(500)
    other = stage.connect("other")
    for number in range(20):
        other.send("/queue/x" if destination == "/queue/x" else "/topic/x", b"%d" % number)
    client.reads = reads
    # Each deadline is checked on the way.
    stage.pass_time(40_000)
    client.reads = True
    stage.pass_time(1_000)
    assert not client.error
    expected = 5 if (destination, ack) in (("/queue/x", "client-individual"), ("durable", "client-individual")) else 20
    assert client.bodies == [b"%d" % number for number in range(expected)]


def test_bytes_cut_anywhere_say_the_same() -> None:
    data = b"".join(
        encode(each, V1_2)
        for each in (
            frame("CONNECT", accept_version="1.2", login="me"),
            frame("SUBSCRIBE", id="s", destination="/topic/x", receipt="1"),
            frame("SEND", b"\0body\0", destination="/topic/x", receipt="2"),
            frame("DISCONNECT", receipt="3"),
        )
    )
    found = []
    for size in (1, 7, len(data)):
        client = Stage().stranger_by_stomp()
        for start in range(0, len(data), size):
            client.feed(data[start : start + size])
        client.stage.pass_time(1_000)
        found.append([(each.command, each.headers.get("receipt-id")) for each in client.frames])
    assert found[0] == found[1]
    assert sorted(found[0]) == sorted(found[2])


# --- what is refused


def test_a_message_that_may_not_be_published_is_told_with_its_receipt() -> None:
    rules = (Rule("alice", publish=Selector.parse("kind = 'good'")),)
    stage = Stage(broker(access=Access({"alice": "secret"}, rules)))
    client = stage.connect("alice", passcode="secret")
    client.say_all(
        frame("SEND", destination="/topic/x", kind="good", receipt="1"),
        frame("SEND", destination="/topic/x", kind="bad", receipt="2"),
        frame("SEND", destination="/topic/x", kind="good", receipt="3"),
    )
    stage.pass_time(1_000)
    assert client.fault.headers["receipt-id"] == "2"
    assert "alice" in client.error
    assert "2" not in client.receipts
    assert is_ended(client)


def test_a_refused_message_without_a_receipt_is_told_as_well() -> None:
    stage = Stage(broker(access=LISTED))
    client = stage.connect("bob", passcode="word")
    client.send("/topic/x")
    assert "bob" in client.error
    assert "receipt-id" not in client.fault.headers
