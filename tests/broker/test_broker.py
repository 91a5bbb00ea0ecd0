from __future__ import annotations

from overlay import Overlay, chain, ring
from penstock.broker import BrokerSettings, Record
from penstock.broker.mechanisms.interface import Answer, PublishSystem, Tell
from penstock.model.body import decode_attributes
from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.protocol import frames as f
from penstock.selectors import Selector


class Echo:
    """A mechanism that notes what it hears, and says what the test prepared."""

    def __init__(self, name: str = "echo", selector: str | None = None) -> None:
        self.name = name
        self.selector = None if selector is None else Selector.parse(selector)
        self.heard: list[tuple[object, ...]] = []
        self.due_ms: int | None = None
        self.answers: list[Answer] = []

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:
        self.heard.append(("neighbour", neighbour, up))
        return []

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:
        self.heard.append(("message", neighbour, payload))
        return []

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        self.heard.append(("publication", dict(attributes)))
        return []

    def next_deadline(self) -> int | None:
        return self.due_ms

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        self.due_ms = None
        return self.answers

    def status(self) -> dict[str, object]:
        return {"heard": len(self.heard)}


def pair_with(first: list[Echo], second: list[Echo]) -> Overlay:
    overlay = Overlay(
        BrokerSettings("pb", pubends=("pb.a",), neighbours=("sb",)),
        BrokerSettings("sb", number=2, neighbours=("pb",)),
        mechanisms={"pb": list(first), "sb": list(second)},
    )
    overlay.link("pb", "sb")
    return overlay


def test_messages_reach_those_who_asked_for_them_by_content_and_nobody_else() -> None:
    overlay = chain("pb", "ib", "sb")
    wide, narrow, other = (overlay.client(name) for name in ("sb", "sb", "ib"))
    wide.subscribe(1, "class = 'STOCK'")
    narrow.subscribe(1, "class = 'STOCK' AND volume > 15")
    other.subscribe(1, "class = 'SPORTS'")
    overlay.client("pb").publish({"class": "STOCK", "volume": 10}, {"class": "STOCK", "volume": 20})
    assert [each["volume"] for each in wide.messages()] == [10, 20]
    assert [each["volume"] for each in narrow.messages()] == [20]
    assert not other.messages()
    overlay.check_invariants()


def test_a_message_that_nobody_wants_does_not_leave_its_broker() -> None:
    overlay = chain("pb", "ib", "sb")
    overlay.client("sb").subscribe(1, "volume > 15")
    overlay.client("pb").publish({"volume": 1}, {"volume": 2})
    assert overlay.brokers["pb"].status().counts["forwarded"] == 0


def test_a_cut_link_is_avoided_when_there_is_another_way() -> None:
    overlay = ring("a", "b", "c", "d")
    subscriber, publisher = overlay.client("c"), overlay.client("a")
    subscriber.subscribe(1, "")
    for number, (first, second) in enumerate([("a", "b"), ("c", "d")]):
        publisher.publish({"number": number})
        overlay.cut(first, second)
        publisher.publish({"number": number + 10})
        overlay.link(first, second)
    assert [each["number"] for each in subscriber.messages()] == [0, 10, 1, 11]
    overlay.check_invariants()


def test_a_broker_that_crashed_and_came_back_serves_again() -> None:
    overlay = chain("pb", "ib", "sb")
    subscriber, publisher = overlay.client("sb"), overlay.client("pb")
    subscriber.subscribe(1, "")
    overlay.crash("ib")
    publisher.publish({"number": 1})
    overlay.now_ms += 5
    overlay.start("ib")
    overlay.link("pb", "ib")
    overlay.link("ib", "sb")
    publisher.publish({"number": 2})
    assert [each["number"] for each in subscriber.messages()] == [2]
    overlay.check_invariants()


def test_a_peer_that_breaks_a_rule_loses_its_connection_and_nobody_elses() -> None:
    overlay = chain("pb", "sb")
    good, bad = overlay.client("sb"), overlay.client("sb")
    good.subscribe(1, "")
    bad.say(f.Forward("pb.a", [1], [b"x" * 40]))
    assert bad.closed is not None
    assert bad.closed.code == "protocol"
    assert bad.closed.reason == "Forward frames are not accepted from a client"
    assert isinstance(bad.heard[-1], f.Goodbye)
    overlay.client("pb").publish({"a": 1})
    assert good.messages() == [{"a": 1}]
    assert overlay.brokers["sb"].status().malformed == 1


def test_frames_that_are_not_for_brokers_and_second_hellos_are_refused() -> None:
    overlay = chain("pb", "sb")
    for frame in (f.Subscribed(1, ""), f.Hello(f.PROTOCOL_VERSION, "client", "x", ""), f.FilterAck(1)):
        client = overlay.client("sb")
        client.say(frame)
        assert client.closed is not None
        assert client.closed.code == "protocol"


def test_who_says_nothing_is_disconnected_and_heartbeats_keep_the_others() -> None:
    overlay = chain("pb", "sb")
    silent, stranger = overlay.client("sb"), overlay.stranger("sb")
    overlay.wait(20_000)
    assert silent.closed is not None
    assert silent.closed.code == "silent"
    assert stranger.closed is not None
    assert overlay.brokers["sb"].status().links == ["pb"]
    assert silent.all(f.Heartbeat)


def test_a_shutdown_says_goodbye_to_everybody() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("sb")
    overlay._act("sb", overlay.brokers["sb"].shutdown(now_ms=overlay.now_ms))
    assert client.all(f.Goodbye) == [f.Goodbye("shutdown", "broker sb stops")]
    assert client.closed is not None
    assert overlay.brokers["pb"].status().links == []


def test_too_many_connections_are_turned_away() -> None:
    overlay = Overlay(BrokerSettings("sb", connections_max=2))
    first, second, third = (overlay.stranger("sb") for _ in range(3))
    assert first.closed is None
    assert second.closed is None
    assert third.closed is not None
    assert third.closed.code == "full"


def test_a_mechanism_hears_of_neighbours_and_of_its_own_messages_from_them() -> None:
    first, second = Echo(), Echo()
    overlay = pair_with([first], [second])
    first.answers, first.due_ms = [Tell("sb", b"hello"), Record("said", (("to", "sb"),))], overlay.now_ms + 10
    overlay.wait(10)
    assert ("neighbour", "sb", True) in first.heard
    assert ("message", "pb", b"hello") in second.heard
    assert Record("said", (("to", "sb"),)) in overlay.records
    overlay.cut("pb", "sb")
    assert ("neighbour", "pb", False) in second.heard
    assert overlay.brokers["sb"].status().mechanisms == {"echo": {"heard": 3}}


def test_a_mechanism_without_a_counterpart_is_spoken_to_in_vain() -> None:
    alone = Echo()
    overlay = pair_with([alone], [])
    alone.answers, alone.due_ms = [Tell("sb", b"hello")], overlay.now_ms + 10
    overlay.wait(10)
    assert overlay.brokers["sb"].status().malformed == 0


def test_system_publications_reach_the_mechanisms_and_clients_that_select_them() -> None:
    sender, receiver = Echo(), Echo(selector="$class = 'PIE' AND load > 0.5")
    overlay = pair_with([sender], [receiver])
    curious, everything = overlay.client("sb"), overlay.client("sb")
    curious.subscribe(1, "$class = 'PIE'")
    everything.subscribe(1, "")
    for load in (0.25, 0.75):
        sender.answers = [PublishSystem(Message.system({"$class": "PIE", "load": load}))]
        sender.due_ms = overlay.now_ms + 10
        overlay.wait(10)
    assert [each for each in receiver.heard if each[0] == "publication"] == [
        ("publication", {"$class": "PIE", "load": 0.75})
    ]
    assert [each["load"] for each in curious.messages()] == [0.25, 0.75]
    assert not everything.messages()


def test_a_client_can_ask_how_the_broker_is() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("sb")
    client.say(f.StatusRequest(5))
    reply = client.heard[-1]
    assert isinstance(reply, f.StatusReply)
    assert reply.number == 5
    assert b'"links":["pb"]' in reply.status


def test_reading_a_log_is_part_of_the_brokers_deadlines_figures_and_partings() -> None:
    overlay = chain("pb", "sb", guaranteed=True, heartbeat_ms=10**8, silent_ms=10**9)
    overlay.client("pb").publish({"number": 1}, {"number": 2})
    overlay.wait(5_000)
    host = overlay.brokers["sb"]
    client = overlay.client("sb")
    client.say(f.ReadRequest(1, "pb.a", 0, 2**61, "number = 1", 1_000))
    counts = overlay.brokers["pb"].status().counts
    assert (counts["log_requests"], counts["log_rows_read"], counts["log_rows_sent"]) == (1, 2, 1)
    assert host.status().counts["log_requests"] == 0
    overlay.loses = f.LogRequest
    client.say(f.SurveyRequest(2))
    due_ms = host.next_deadline()
    assert due_ms is not None
    assert due_ms <= overlay.now_ms + 2_000
    client.say(f.Goodbye("goodbye", "done"))
    assert host._log_desk.next_deadline() is None


def test_reads_for_subscribers_and_for_readers_of_logs_do_not_mix() -> None:
    overlay = chain("pb", "sb", guaranteed=True, silent_ms=10**9)
    overlay.client("pb").publish(*({"number": number} for number in range(5)))
    overlay.syncs = False
    reader, subscriber = overlay.client("sb"), overlay.client("sb")
    reader.say(f.ReadRequest(1, "pb.a", 0, 2**61, "number > 2", 10_000))
    subscriber.say(f.Subscribe(1, "number < 3", otherwise=0))
    overlay.syncs = True
    overlay.sync()
    overlay.wait(10_000)
    (answer,) = reader.all(f.LogAnswer)
    assert isinstance(answer, f.LogAnswer)
    assert [decode_attributes(each)["number"] for each in answer.bodies] == [3, 4]
    assert subscriber.numbers() == [0, 1, 2]
    assert (reader.numbers(), subscriber.all(f.LogAnswer)) == ([], [])
