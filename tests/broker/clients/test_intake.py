"""Publishers: acknowledged when it is durable, recognised when they repeat themselves, told why they wait."""

from __future__ import annotations

from dataclasses import replace

from overlay import Overlay, TestClient, chain
from penstock.broker import BrokerSettings
from penstock.broker.access import Access, Rule
from penstock.broker.durable import Append
from penstock.broker.effects import Commit
from penstock.broker.peers import guest_of
from penstock.model.body import BODY_BYTES_MIN, decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.selectors.selector import Selector


def acknowledged(client: TestClient) -> list[int]:
    return [each.sequence for each in client.heard if isinstance(each, f.PublishAck)]


def reasons(client: TestClient) -> list[str]:
    return [each.reason for each in client.heard if isinstance(each, f.HeldBack)]


def logged(overlay: Overlay, pubend: str = "pb.a") -> list[object]:
    found, _, _ = overlay.disks["pb"].read(pubend, 1_000_000 << 16, 2**62, 2**40)
    return [decode_attributes(body)["number"] for _, body in found]


def ask(client: TestClient) -> None:
    """An empty batch: the client wants to be acknowledged."""
    client.say(f.Publish(client.published[""] + 1, []))


def again(client: TestClient, first: int, *numbers: int, pubend: str = "") -> None:
    """Sends messages under the numbers that they had in another connection."""
    client.published[pubend] = first - 1
    client.publish(*({"number": number} for number in numbers), pubend=pubend)


def test_nothing_is_acknowledged_before_it_is_durable() -> None:
    overlay = chain("pb", "sb", guaranteed=True, acknowledge_ms=10)
    overlay.syncs = False
    client = overlay.client("pb")
    client.publish({"number": 1})
    ask(client)
    overlay.wait(500)
    assert acknowledged(client) == []
    overlay.sync()
    assert acknowledged(client) == [1]
    assert logged(overlay) == [1]


def test_who_waits_for_an_acknowledgement_waits_no_longer_than_the_settings_say_now() -> None:
    overlay = chain("pb", "sb", guaranteed=True, acknowledge_ms=20_000, silent_ms=10**9)
    overlay.wait(1_000)
    first, second = overlay.client("pb", "a"), overlay.client("pb", "b")
    first.publish({"number": 1})
    broker = overlay.brokers["pb"]
    overlay._act("pb", broker.apply(replace(overlay.settings["pb"], acknowledge_ms=50), now_ms=overlay.now_ms))
    second.publish({"number": 2})
    broker.next_deadline()
    ask(first)
    broker.check_invariants()
    overlay.wait(200)
    assert (acknowledged(first), acknowledged(second)) == ([1], [1])


def test_who_asks_for_it_is_acknowledged_once_when_everything_is_durable() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    overlay.syncs = False
    client.publish({"number": 1})
    client.publish({"number": 2}, {"number": 3})
    ask(client)
    overlay.sync()
    assert acknowledged(client) == [3]
    ask(client)
    assert acknowledged(client) == [3, 3]


def test_batches_of_one_turn_are_one_commit() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    broker = overlay.brokers["pb"]
    client.publish({"number": 1})
    overlay.syncs = False
    (body,) = (body for _, body in overlay.disks["pb"].read("pb.a", 1_000_000 << 16, 2**62, 9_999)[0])
    frames: list[f.Frame] = [f.Publish(2, [body]), f.Publish(3, [body, body])]
    effects = broker.receive(client.connection, frames, now_ms=overlay.now_ms)
    (commit,) = (each for each in effects if isinstance(each, Commit))
    assert sum(len(each.messages) for each in commit.changes if isinstance(each, Append)) == 3


def test_a_repetition_after_a_lost_acknowledgement_is_acknowledged_and_not_stored() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    first = overlay.client("pb", publisher=b"me")
    first.publish({"number": 1}, {"number": 2})
    overlay.leave(first)
    second = overlay.client("pb", publisher=b"me")
    again(second, 1, 1, 2)
    again(second, 3, 3)
    ask(second)
    assert acknowledged(second)[-1] == 3
    assert logged(overlay) == [1, 2, 3]
    assert overlay.brokers["pb"].status().counts["publishes_repeated"] == 2


def test_of_a_batch_that_was_taken_in_part_the_rest_is_taken() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    first = overlay.client("pb", publisher=b"me")
    first.publish({"number": 1}, {"number": 2})
    second = overlay.client("pb", publisher=b"me")
    again(second, 2, 2, 3)
    assert logged(overlay) == [1, 2, 3]


def test_repetitions_are_recognised_after_a_crash_and_what_was_not_durable_is_taken_anew() -> None:
    overlay = chain("pb", "sb", guaranteed=True, inquiry_ms=0)
    first = overlay.client("pb", publisher=b"me")
    first.publish({"number": 1})
    overlay.syncs = False
    first.publish({"number": 2})
    overlay.crash("pb")
    overlay.syncs = True
    overlay.wait(10)
    overlay.start("pb")
    second = overlay.client("pb", publisher=b"me")
    again(second, 1, 1, 2)
    ask(second)
    assert acknowledged(second) == [2]
    assert logged(overlay) == [1, 2]


def test_a_repetition_of_what_is_not_durable_yet_waits_for_it() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    overlay.syncs = False
    overlay.client("pb", publisher=b"me").publish({"number": 1})
    second = overlay.client("pb", publisher=b"me")
    again(second, 1, 1)
    ask(second)
    assert acknowledged(second) == []
    overlay.sync()
    assert acknowledged(second) == [1]
    assert logged(overlay) == [1]


def test_numbers_count_for_each_pubend_and_publisher() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=("p", "q")))
    for name in (b"me", b"you"):
        client = overlay.client("pb", publisher=name)
        again(client, 1, 1, pubend="p")
        again(client, 2, 2, pubend="q")
        client = overlay.client("pb", publisher=name)
        again(client, 1, 1, pubend="p")
        again(client, 2, 2, pubend="q")
    assert logged(overlay, "p") == [1, 1]
    assert logged(overlay, "q") == [2, 2]


def test_who_has_no_identity_is_not_recognised_and_counts_from_one() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    for _ in range(2):
        overlay.client("pb").publish({"number": 1})
    assert logged(overlay) == [1, 1]
    stranger = overlay.client("pb")
    again(stranger, 5, 5)
    assert stranger.closed is not None
    assert stranger.closed.reason == "message 5 is out of sequence: the last one was 0"


def test_a_publisher_that_goes_back_within_a_connection_breaks_the_protocol() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb", publisher=b"me")
    again(client, 5, 5)
    again(client, 5, 5)
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_a_publisher_that_connects_anew_ends_its_former_connection() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    first, other = overlay.client("pb", publisher=b"me"), overlay.client("pb", publisher=b"you")
    second = overlay.client("pb", publisher=b"me")
    assert first.closed is not None
    assert first.closed.code == "replaced"
    assert (second.closed, other.closed) == (None, None)
    welcomes = [each.heard[0] for each in (first, second, other)]
    numbers = [each.publisher for each in welcomes if isinstance(each, f.Welcome)]
    assert numbers[0] == numbers[1] != numbers[2]
    overlay.leave(first)
    overlay.client("pb", publisher=b"me")
    assert second.closed is not None


def test_who_waits_for_space_is_told_why_and_when_it_is_over() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    overlay.syncs = False
    waiting, idle = overlay.client("pb"), overlay.client("pb")
    waiting.publish({"number": 1})
    overlay._act("pb", overlay.brokers["pb"].log_full("the disk is full", now_ms=overlay.now_ms))
    assert reasons(waiting) == ["the disk is full"]
    assert reasons(idle) == []
    overlay._act("pb", overlay.brokers["pb"].log_full("the disk is full", now_ms=overlay.now_ms))
    assert reasons(waiting) == ["the disk is full"]
    assert [each.event for each in overlay.records].count("log-full") == 1
    ask(waiting)
    overlay.sync()
    assert reasons(waiting) == ["the disk is full", ""]
    assert acknowledged(waiting) == [1]
    assert overlay.brokers["pb"].status().guaranteed.held_back == ""


def test_who_comes_while_there_is_no_space_is_told_when_the_shell_tries_again() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    overlay.syncs = False
    early, late = overlay.client("pb"), overlay.client("pb")
    early.publish({"number": 1})
    overlay._act("pb", overlay.brokers["pb"].log_full("the disk is full", now_ms=overlay.now_ms))
    late.publish({"number": 2})
    overlay._act("pb", overlay.brokers["pb"].log_full("the disk is full", now_ms=overlay.now_ms))
    assert reasons(late) == ["the disk is full"]


def test_while_there_is_no_space_no_lease_is_asked_for_and_silence_ends_at_the_one_there_is() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    overlay.wait(2_000)
    overlay.syncs = False
    overlay.client("pb").publish({"number": 1})
    overlay._act("pb", overlay.brokers["pb"].log_full("the disk is full", now_ms=overlay.now_ms))
    overlay.wait(20_000)
    lease = overlay.disks["pb"].recovered().pubends["pb.a"].lease
    promised = overlay.brokers["pb"].status().guaranteed.pubends["pb.a"].promised
    assert lease is not None
    assert promised <= lease
    assert overlay.brokers["pb"].status().guaranteed.commits_waiting <= 3


def test_at_the_maximum_of_the_log_credit_is_withheld_until_subscribers_have_caught_up() -> None:
    overlay = chain(
        "pb", "sb", guaranteed=True, retain_bytes_max=2_000, grace_ms=1_000, credit_bytes=1_000, silent_ms=100_000
    )
    client = overlay.client("sb")
    client.subscribe(1, "")
    overlay.wait(5_000)
    publisher = overlay.client("pb")
    for number in range(60):
        publisher.publish({"number": number})
    assert "has reached its maximum" in reasons(publisher)[0]
    assert acknowledged(publisher)[-1] == 60
    credit = sum(each.credit_bytes for each in publisher.heard if isinstance(each, f.PublishAck))
    overlay.wait(1_500)
    client.say(f.Acknowledge(((0, client.horizon()),)))
    overlay.wait(3_000)
    assert reasons(publisher)[-1] == ""
    assert sum(each.credit_bytes for each in publisher.heard if isinstance(each, f.PublishAck)) > credit


def refusals(client: TestClient) -> list[tuple[int, int]]:
    return [(each.number, each.count) for each in client.heard if isinstance(each, f.Refused)]


def picky() -> Overlay:
    """A broker that takes messages with positive numbers only."""
    return chain("pb", "sb", guaranteed=True, inquiry_ms=0, access=allowing("number > 0"))


def allowing(selector: str) -> Access:
    return Access(rules=(Rule("%", publish=Selector.parse(selector)),))


def rewinds(client: TestClient) -> list[f.Rewind]:
    return [each for each in client.heard if isinstance(each, f.Rewind)]


def go_on(client: TestClient, *numbers: int) -> None:
    """Does what the broker wants: answers its last ``Rewind``, and sends messages from the wanted number on."""
    wanted = rewinds(client)[-1]
    client.say(f.Rewound(wanted.round, wanted.pubend))
    again(client, wanted.number, *numbers)


def test_one_bad_message_is_refused_and_those_after_it_come_again() -> None:
    overlay = picky()
    client = overlay.client("pb", publisher=b"me")
    client.publish(*({"number": number} for number in (1, 2, -3, 4, -5, -6, 7)))
    assert refusals(client) == [(3, 1), (5, 2)]
    assert [(each.number, each.pubend, each.credit_bytes) for each in rewinds(client)] == [(3, "", -1)]
    assert logged(overlay) == [1, 2], "the rest was not taken"
    client.publish({"number": 8})
    ask(client)
    assert logged(overlay) == [1, 2], "it was sent before the client knew"
    go_on(client, 4, 7, 8)
    assert logged(overlay) == [1, 2, 4, 7, 8]
    overlay.wait(1_000)
    assert acknowledged(client)[-1] == 5
    assert refusals(client) == [(3, 1), (5, 2)]


def test_the_answer_to_an_earlier_rewind_does_not_count() -> None:
    overlay = picky()
    client = overlay.client("pb", publisher=b"me")
    client.publish({"number": -1})
    go_on(client, -2)
    first, second = rewinds(client)
    assert second.round > first.round
    client.say(f.Rewound(first.round))
    again(client, 1, 3)
    assert logged(overlay) == []
    go_on(client, 4)
    assert logged(overlay) == [4]


def test_a_refusal_that_was_not_heard_is_said_again_on_the_next_connection() -> None:
    overlay = picky()
    first = overlay.client("pb", publisher=b"me")
    first.publish(*({"number": number} for number in (1, -2, 3)))
    overlay.leave(first)
    second = overlay.client("pb", publisher=b"me")
    again(second, 1, 1, -2, 3)
    assert refusals(second) == [(2, 1)]
    go_on(second, 3)
    assert logged(overlay) == [1, 3]


def test_a_message_that_is_allowed_by_the_time_it_is_sent_again_is_taken_and_not_mistaken_for_a_repetition() -> None:
    overlay = picky()
    first = overlay.client("pb", publisher=b"me")
    first.publish(*({"number": number} for number in (1, -2, 3)))
    overlay.crash("pb")
    overlay.settings["pb"] = replace(overlay.settings["pb"], access=allowing("TRUE"))
    overlay.start("pb")
    second = overlay.client("pb", publisher=b"me")
    again(second, 1, 1, -2, 3)
    ask(second)
    assert refusals(second) == []
    assert logged(overlay) == [1, -2, 3]


def test_refused_messages_and_those_behind_them_cost_no_credit() -> None:
    overlay = picky()
    client = overlay.client("pb", publisher=b"me")
    client.publish(*({"number": number} for number in (1, -2, 3)))
    go_on(client, 3)
    ask(client)
    overlay.wait(1_000)
    acks = [each for each in client.heard if isinstance(each, f.PublishAck)]
    sizes = [len(encode_body(MessageId(1, 1, 1, 1), Message({"number": number}, b"payload"))) for number in (1, 3)]
    assert (acks[-1].sequence, sum(each.credit_bytes for each in acks)) == (2, sum(sizes))


def test_a_rewind_that_nobody_asked_for_cannot_be_answered() -> None:
    overlay = picky()
    for pubend, ahead in (("", 1), ("pb.a", 0)):
        client = overlay.client("pb")
        client.publish({"number": -1})
        client.say(f.Rewound(rewinds(client)[-1].round + ahead, pubend))
        assert client.closed is not None
        assert client.closed.code == "protocol"
        assert "that nobody asked for" in client.closed.reason


def test_a_publisher_that_goes_on_without_credit_is_disconnected() -> None:
    overlay = chain("pb", "sb", guaranteed=True, credit_bytes=1_000)
    overlay.syncs = False
    client, other = overlay.client("pb"), overlay.client("pb")
    for number in range(100):
        client.publish({"number": number})
    assert client.closed is not None
    assert client.closed.code == "protocol"
    assert "beyond the credit of 1,000" in client.closed.reason
    other.publish({"number": -1})
    overlay.sync()
    overlay.wait(1_000)
    # What came before the end was taken, and no more than the credit and one frame of it.
    assert logged(overlay)[-1] == -1
    assert len(logged(overlay)) < 40


def test_nothing_is_kept_of_what_comes_behind_a_refused_message() -> None:
    overlay = chain("pb", "sb", guaranteed=True, access=allowing("number > 0"), credit_bytes=64_000)
    client = overlay.client("pb")
    client.publish({"number": -1})
    large: dict[str, AttributeValue] = {"number": 1, "text": "x" * 10_000}
    for _ in range(100):
        client.publish(*[large] * 10)
    assert client.closed is None
    assert logged(overlay) == []
    source = guest_of(overlay.brokers["pb"]._connections.peers[client.connection]).sources[""]
    assert (source.unpaid_bytes, len(source.outstanding)) == (0, 0)
    go_on(client, 2)
    assert logged(overlay) == [2]


def test_messages_that_cost_no_credit_break_the_protocol() -> None:
    overlay = picky()
    good = encode_body(MessageId(1, 1, overlay.now_ms, 0), Message({}))
    assert len(good) == BODY_BYTES_MIN
    for bodies in ([b""], [good, b""], [b""] * 1_000):
        client = overlay.client("pb")
        client.say(f.Publish(1, bodies))
        assert client.closed is not None
        assert client.closed.reason.endswith(f"are too small for {len(bodies):,} messages")


def test_a_message_larger_than_the_credit_goes_alone() -> None:
    overlay = chain("pb", "sb", guaranteed=True, credit_bytes=100, acknowledge_ms=10)
    client = overlay.client("pb")
    for number in range(3):
        client.publish({"number": number, "text": "x" * 5_000})
        overlay.wait(100)
    assert client.closed is None
    assert acknowledged(client)[-1] == 3


def test_nobody_publishes_with_the_identifiers_of_somebody_else() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    victim, client = overlay.client("pb"), overlay.client("pb")
    victim.publish({"number": 1})
    client.ids = victim.source()
    client.publish({"number": 2})
    ((_, number, reason),) = client.refusals()
    assert number == 1
    assert "belongs to publisher" in reason
    assert logged(overlay) == [1]


def test_identifiers_that_no_clock_can_make_are_refused() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    own = client.source().next(overlay.now_ms)
    late = replace(own, timestamp_ms=2**48 - 1)
    client.say(f.Publish(1, [encode_body(late, Message({"number": 1}))]))
    assert [reason for _, _, reason in client.refusals()] == [
        "the identifier of the message is from beyond the year 9999"
    ]


def test_identifiers_made_at_a_few_other_brokers_are_fine_and_at_any_number_of_them_not() -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    publisher = client.source().next(overlay.now_ms).publisher
    for broker in range(100, 130):
        client.ids = MessageIdSource(publisher, broker)
        client.publish({"number": broker})
        for wanted in rewinds(client)[-1:]:
            client.say(f.Rewound(wanted.round))
            client.published[""] = wanted.number - 1
    assert logged(overlay) == list(range(100, 116))
    assert len(client.refusals()) == 14
    assert "name more than 16 brokers" in client.refusals()[0][2]


class OneTurn:
    """Frames of several clients that a broker hears before it is asked for their effects."""

    def __init__(self, overlay: Overlay, broker: str) -> None:
        self._overlay = overlay
        self._broker = broker

    def hear(self, client: TestClient, *frames: f.Frame) -> None:
        broker = self._overlay.brokers[self._broker]
        broker.hear(client.connection, list(frames), now_ms=self._overlay.now_ms)

    def publish(self, client: TestClient, *numbers: int) -> None:
        bodies = [
            encode_body(client.source().next(self._overlay.now_ms), Message({"number": each})) for each in numbers
        ]
        self.hear(client, f.Publish(client.published[""] + 1, bodies))
        client.published[""] += len(numbers)

    def end(self) -> None:
        broker = self._overlay.brokers[self._broker]
        self._overlay._act(self._broker, broker.finish(now_ms=self._overlay.now_ms))


def test_what_publishers_send_in_one_turn_is_delivered_together_and_in_order() -> None:
    overlay = chain("pb", "sb")
    subscriber = overlay.client("pb")
    subscriber.subscribe(1, "number >= 0")
    first, second = overlay.client("pb", "a"), overlay.client("pb", "b")
    turn = OneTurn(overlay, "pb")
    turn.publish(first, 1)
    turn.publish(second, 2, 3)
    turn.publish(first, 4)
    assert subscriber.numbers() == []
    turn.end()
    assert subscriber.numbers() == [1, 2, 3, 4]
    assert len(subscriber.all(f.Deliver)) == 1


def test_a_large_batch_waits_for_no_other_and_takes_those_before_it_along() -> None:
    overlay = chain("pb", "sb")
    subscriber = overlay.client("pb")
    subscriber.subscribe(1, "number >= 0")
    publisher = overlay.client("pb")
    turn = OneTurn(overlay, "pb")
    turn.publish(publisher, 1)
    turn.publish(publisher, *range(2, 100))
    assert overlay.brokers["pb"].status().counts["published"] == 99
    turn.end()
    assert subscriber.numbers() == list(range(1, 100))


def test_who_subscribes_in_the_same_turn_gets_what_is_published_after_it_and_nothing_before() -> None:
    overlay = chain("pb", "sb")
    publisher, subscriber = overlay.client("pb", "a"), overlay.client("pb", "b")
    turn = OneTurn(overlay, "pb")
    turn.publish(publisher, 1)
    turn.hear(subscriber, f.Subscribe(1, "number >= 0"))
    turn.publish(publisher, 2)
    turn.end()
    assert subscriber.numbers() == [2]


def test_who_ends_a_subscription_in_the_same_turn_gets_what_was_published_before() -> None:
    overlay = chain("pb", "sb")
    publisher, subscriber = overlay.client("pb", "a"), overlay.client("pb", "b")
    subscriber.subscribe(1, "number >= 0")
    turn = OneTurn(overlay, "pb")
    turn.publish(publisher, 1)
    turn.hear(subscriber, f.Unsubscribe(1))
    turn.publish(publisher, 2)
    turn.end()
    assert subscriber.numbers() == [1]


def test_what_was_published_just_before_the_broker_stops_is_delivered() -> None:
    overlay = chain("pb", "sb")
    publisher, subscriber = overlay.client("pb", "a"), overlay.client("pb", "b")
    subscriber.subscribe(1, "number >= 0")
    turn = OneTurn(overlay, "pb")
    turn.publish(publisher, 1, 2)
    overlay._act("pb", overlay.brokers["pb"].shutdown(now_ms=overlay.now_ms))
    assert subscriber.numbers() == [1, 2]
    assert acknowledged(publisher) == [2]


def test_messages_that_are_costly_to_match_wait_for_no_others() -> None:
    overlay = chain("pb", "sb")
    subscriber = overlay.client("pb")
    for number in range(200):
        subscriber.subscribe(number, f"number + {number} > 0 OR number * {number} > 1")
    publisher = overlay.client("pb", "a")
    turn = OneTurn(overlay, "pb")
    turn.publish(publisher, 1)
    assert overlay.brokers["pb"].status().counts["published"] == 1
    turn.end()


def test_a_client_may_skip_numbers_that_were_refused_and_only_forwards() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=("pb.a",)))
    client = overlay.client("pb", publisher=b"me")
    client.publish({"number": 1}, pubend="pb.a")
    client.say(f.Skipped(5, "pb.a"))
    client.published["pb.a"] = 4
    client.publish({"number": 5}, pubend="pb.a")
    overlay.wait(1_000)
    assert [each.sequence for each in client.all(f.PublishAck) if isinstance(each, f.PublishAck)][-1:] == [5]
    assert overlay.logged("pb.a") == [1, 5]
    assert overlay.brokers["pb"].status().counts["publishes_jumped"] == 1
    client.say(f.Skipped(6, "pb.a"))
    assert client.closed is not None
    assert "message 6 does not lie beyond the last one, 5" in client.closed.reason
    stranger = overlay.client("pb")
    stranger.say(f.Skipped(2, "pb.a"))
    assert stranger.closed is not None


def test_numbers_are_skipped_on_the_way_to_a_pubend_elsewhere_too() -> None:
    overlay = Overlay(
        BrokerSettings("pb", pubends=("pb.a",), neighbours=("sb",)), BrokerSettings("sb", neighbours=("pb",))
    )
    overlay.link("sb", "pb")
    client = overlay.client("sb", publisher=b"me")
    client.publish({"number": 1}, {"number": 2}, pubend="pb.a")
    client.say(f.Skipped(9, "pb.a"))
    client.published["pb.a"] = 8
    client.publish({"number": 9}, pubend="pb.a")
    overlay.wait(2_000)
    assert overlay.logged("pb.a") == [1, 2, 9]
    assert overlay.brokers["pb"].status().counts["carry_broken"] == 0
