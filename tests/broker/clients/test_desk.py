from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker import Access, BrokerSettings, Rule
from penstock.broker.accounts import Account
from penstock.broker.clients.desk import _NARROWED_CHARS_MAX, Selecting
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.peers import Guest
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.selectors import Selector
from penstock.selectors.selector import EVERYTHING

GUARDED = Access(
    tokens={"feed": "secret", "reader": "word", "outsider": "none"},
    rules=(
        Rule("feed", publish=Selector.parse("class = 'STOCK'"), subscribe=None),
        Rule("read%", publish=None, subscribe=Selector.parse("class = 'STOCK'")),
    ),
)
NO_STATUS = Access({"mallory": "token"}, (Rule("%"),))
SYSTEM = ("$class = 'AJIL'", "x = 1 OR $class = 'PIE'", "NOT ($class = 'PIE')", '"$class" IS NULL', "$a + x > 1")


def guarded() -> Overlay:
    return Overlay(BrokerSettings("pb", pubends=("pb.a", "pb.b"), members=("pb",), access=GUARDED))


def last_refusal(client: TestClient) -> f.Refused:
    refused = client.heard[-1] if isinstance(client.heard[-1], f.Refused) else client.all(f.Refused)[-1]
    assert isinstance(refused, f.Refused)
    return refused


def begin_anew(client: TestClient) -> None:
    """Does what the broker wants after a refusal."""
    rewind = client.all(f.Rewind)[-1]
    assert isinstance(rewind, f.Rewind)
    client.say(f.Rewound(rewind.round, rewind.pubend))
    client.published[rewind.pubend] = rewind.number - 1


def test_a_client_is_welcomed_with_its_number_the_clock_and_its_credit() -> None:
    overlay = chain("pb", "sb")
    first, second = overlay.client("pb"), overlay.client("pb")
    one, two = first.heard[0], second.heard[0]
    assert isinstance(one, f.Welcome)
    assert isinstance(two, f.Welcome)
    assert one.publisher != two.publisher
    assert (one.broker, one.now_ms, one.pubends) == ("pb", overlay.now_ms, ("pb.a",))


@pytest.mark.parametrize(
    ("name", "token", "overlay_name", "reason"),
    [
        ("feed", "wrong", "", "name 'feed': wrong or missing token"),
        ("nobody", "", "", "name 'nobody': wrong or missing token"),
        ("feed", "secret", "another", "this is overlay penstock, not another"),
    ],
)
def test_a_client_that_cannot_prove_who_it_is_or_asks_for_another_overlay_is_turned_away(
    name: str, token: str, overlay_name: str, reason: str
) -> None:
    client = guarded().client("pb", name, token, overlay_name)
    assert client.heard == [f.Goodbye("refused", reason)]
    assert client.closed is not None


def test_a_client_of_another_version_is_turned_away() -> None:
    client = guarded().stranger("pb")
    client.say(f.Hello(99, "client", "feed", "", credential="secret"))
    assert client.heard == [f.Goodbye("refused", f"protocol version 99 is not {f.PROTOCOL_VERSION}")]


def test_what_a_client_may_not_publish_is_refused_and_the_rest_goes_on() -> None:
    overlay = guarded()
    feed, reader = overlay.client("pb", "feed", "secret"), overlay.client("pb", "reader", "word")
    reader.subscribe(1, "")
    feed.publish({"class": "SPORTS"})
    assert "may publish: class = 'STOCK'" in last_refusal(feed).reason
    begin_anew(feed)
    feed.publish({"class": "STOCK"})
    assert reader.messages() == [{"class": "STOCK"}]
    overlay.wait(250)
    assert feed.all(f.PublishAck)
    reader.publish({"class": "STOCK"})
    assert last_refusal(reader).reason == "client reader may not publish"


def test_a_subscribers_selector_is_narrowed_by_what_it_may_see() -> None:
    overlay = guarded()
    reader = overlay.client("pb", "reader", "word")
    reader.subscribe(1, "volume > 5")
    (confirmed,) = reader.all(f.Subscribed)
    assert isinstance(confirmed, f.Subscribed)
    assert (confirmed.number, confirmed.selector) == (1, "class = 'STOCK' AND volume > 5")
    feed = overlay.client("pb", "feed", "secret")
    feed.subscribe(1, "")
    assert last_refusal(feed).reason == "client feed may not subscribe"
    outsider = overlay.client("pb", "outsider", "none")
    outsider.subscribe(1, "")
    assert last_refusal(outsider).reason == "client outsider may not subscribe"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (f.Subscribe(2, "a >"), "expected a value or attribute"),
        (f.Subscribe(1, "b = 1"), "subscription 1 exists already"),
        (f.Subscribe(2**40, "b = 1"), "more than 32 bits"),
        (f.Unsubscribe(9), "there is no subscription 9"),
    ],
)
def test_requests_that_cannot_be_granted_are_refused_with_a_reason(frame: f.ControlFrame, reason: str) -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("sb")
    client.subscribe(1, "a = 1")
    client.say(frame)
    assert reason in last_refusal(client).reason
    assert client.closed is None


def test_a_broker_that_has_its_limit_of_subscriptions_refuses_more() -> None:
    overlay = chain("pb", "sb", subscriptions_max=1)
    client = overlay.client("sb")
    client.subscribe(1, "a = 1")
    client.subscribe(2, "a = 2")
    assert "which is its limit" in last_refusal(client).reason


def test_after_unsubscribing_nothing_follows() -> None:
    overlay = chain("pb", "ib", "sb")
    client, publisher = overlay.client("sb"), overlay.client("pb")
    client.subscribe(1, "a = 1")
    client.subscribe(2, "a > 0")
    client.say(f.Unsubscribe(2))
    assert client.heard[-1] == f.Unsubscribed(2)
    publisher.publish({"a": 1}, {"a": 2})
    assert client.messages() == [{"a": 1}]
    client.say(f.Unsubscribe(1))
    publisher.publish({"a": 1})
    assert client.messages() == [{"a": 1}]
    assert overlay.brokers["pb"].status().filters.entries == 0
    overlay.check_invariants()


def test_a_client_that_has_gone_is_wanted_for_no_longer() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    for number in range(50):
        client.subscribe(number, f"a = {number}")
    assert overlay.brokers["pb"].status().filters.entries == 50
    overlay.leave(client)
    overlay.wait(100)
    assert overlay.brokers["pb"].status().filters.entries == 0
    assert overlay.brokers["sb"].status().subscriptions == 0
    overlay.check_invariants()


def test_messages_go_to_the_named_pubend_or_to_one_by_hash() -> None:
    overlay = guarded()
    reader, feed = overlay.client("pb", "reader", "word"), overlay.client("pb", "feed", "secret")
    reader.subscribe(1, "")
    feed.publish({"class": "STOCK"}, pubend="pb.b")
    names = dict(each for frame in reader.all(f.PubendNames) for each in frame.names)  # type: ignore[union-attr]
    delivered = reader.heard[-1]
    assert isinstance(delivered, f.Deliver)
    assert names[delivered.pubend] == "pb.b"
    feed.publish({"class": "STOCK"}, pubend="pb.c")
    assert last_refusal(feed).reason == "no pubend 'pb.c' in this overlay; there are: pb.a, pb.b"
    feed.publish({"class": "STOCK"})
    assert len(reader.messages()) == 2


def test_a_broker_without_pubends_cannot_choose_one() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("sb")
    client.publish({"a": 1})
    assert last_refusal(client).reason == "this broker hosts no pubends, and the message names none"


def test_reserved_attributes_cannot_be_published_by_clients() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("pb")
    client.publish({"$class": "PIE"}, system=True)
    assert last_refusal(client).reason.startswith("attribute '$class' is reserved")


def test_a_gap_in_the_numbers_of_messages_breaks_the_protocol() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("pb")
    client.say(f.Publish(5, [encode_body(MessageId(1, 1, 1, 1), Message({"a": 1}))]))
    assert client.closed is not None
    assert client.closed.reason == "message 5 is out of sequence: the last one was 0"


def test_a_malformed_body_closes_the_connection_of_its_publisher() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("pb")
    client.say(f.Publish(1, [b"not a message at all"]))
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_publishers_get_no_credit_while_too_much_waits_to_be_sent() -> None:
    overlay = chain("pb", "sb", held_back_bytes=550, credit_bytes=500)
    slow, publisher = overlay.client("pb"), overlay.client("pb")
    slow.subscribe(1, "")
    slow.reads = False
    for number in range(20):
        publisher.publish({"number": number})
    given = [frame.credit_bytes for frame in publisher.all(f.PublishAck)]  # type: ignore[union-attr]
    assert given[0] > 0
    assert given[-1] == 0
    held = publisher.all(f.HeldBack)[-1]
    assert "bytes waiting to be sent" in held.reason  # type: ignore[union-attr]
    overlay.brokers["pb"].outbox(slow.connection).take(1_000_000)
    overlay.wait(20)
    last = publisher.all(f.PublishAck)[-1]
    assert isinstance(last, f.PublishAck)
    assert last.sequence == 20
    # A quarter of the credit comes back at a time: four messages.
    assert sum(given) + last.credit_bytes == 5 * given[0]
    assert publisher.all(f.HeldBack)[-1] == f.HeldBack("")


def test_a_number_that_is_used_again_is_not_confirmed_for_its_earlier_use() -> None:
    overlay = chain("pb", "ib", "sb")
    overlay.loses = f.FilterProbe
    client = overlay.client("sb")
    client.say(f.Subscribe(1, "x = 1"), f.Unsubscribe(1), f.Subscribe(1, "y = 1"))
    overlay.brokers["sb"]._readiness.confirm("pb.a", 1, 1)
    overlay.wait(1)
    assert not client.all(f.Subscribed)
    overlay.loses = None
    overlay.wait(1_000)
    assert client.all(f.Subscribed) == [f.Subscribed(1, "y = 1")]


def test_an_acknowledgement_waits_for_others_unless_it_is_asked_for() -> None:
    overlay = chain("pb", "sb", acknowledge_ms=100)
    patient, hasty = overlay.client("pb"), overlay.client("pb")
    for client in (patient, hasty):
        for number in range(3):
            client.publish({"number": number})
    hasty.say(f.Publish(4, []))
    assert [frame.sequence for frame in hasty.all(f.PublishAck)] == [3]  # type: ignore[union-attr]
    assert not patient.all(f.PublishAck)
    overlay.wait(100)
    assert [frame.sequence for frame in patient.all(f.PublishAck)] == [3]  # type: ignore[union-attr]
    assert len(hasty.all(f.PublishAck)) == 1


def test_a_window_that_gets_small_is_acknowledged_at_once() -> None:
    overlay = chain("pb", "sb", credit_bytes=400)
    client = overlay.client("pb")
    client.publish({"text": "x" * 200})
    assert client.all(f.PublishAck)


def test_a_broker_that_stops_acknowledges_first() -> None:
    overlay = chain("pb", "sb")
    client = overlay.client("pb")
    client.publish({"number": 1})
    overlay._act("pb", overlay.brokers["pb"].shutdown(now_ms=overlay.now_ms))
    assert [type(frame) for frame in client.heard[-2:]] == [f.PublishAck, f.Goodbye]


def test_the_many_subscriptions_of_a_client_that_left_leave_the_filter_by_and_by() -> None:
    overlay = chain("pb", "sb")
    client, other = overlay.client("sb"), overlay.client("sb")
    other.subscribe(1, "x = 5")
    for number in range(100):
        client.subscribe(number, f"x = {number}")
    overlay.wait(1_000)
    filters = overlay.brokers["pb"]._filters
    assert filters.status().entries == 100
    overlay.leave(client)
    assert 1 < filters.status().entries < 100
    overlay.wait(100)
    assert filters.status().entries == 1
    overlay.check_invariants()


def test_the_subscriptions_of_a_client_that_leaves_end_at_once_and_leave_the_index_by_and_by() -> None:
    overlay = chain("pb", "sb")
    leaving, staying = overlay.client("sb"), overlay.client("sb")
    for number in range(200):
        leaving.subscribe(number, f"x >= {number}")
    staying.subscribe(1, "x > 0")
    overlay.leave(leaving)
    broker = overlay.brokers["sb"]
    left = []
    while (found := broker.status().subscriptions) > 1:
        left.append(found)
        overlay.client("pb").publish({"x": 500})
        overlay.check_invariants()
        overlay.wait(1)
    assert left == [73]
    assert staying.messages() == [{"x": 500}]
    assert broker.rooms.router.counts["delivered"] == 1
    overlay.wait(200)
    assert broker.status().filters.own == 1
    overlay.check_invariants()


# --- what clients may select


def guest(rule: Rule) -> Guest:
    return Guest(Account("mallory"), 1, rule)


def selecting(access: Access = NO_STATUS) -> Selecting:
    return Selecting(BrokerSettings("b", access=access))


@pytest.mark.parametrize("text", SYSTEM)
def test_the_systems_own_publications_are_for_clients_that_may_see_the_status(text: str) -> None:
    refused = ("client mallory may not select on reserved attributes ($)", None)
    assert selecting().select(guest(Rule("%")), text) == refused
    assert selecting().select(guest(Rule("%", status=True)), text) == ("", Selector.parse(text))
    assert selecting(Access()).select(guest(Rule("%")), text) == ("", Selector.parse(text))


def test_a_value_may_look_like_something_of_the_system() -> None:
    text = "price = '$class'"
    assert selecting().select(guest(Rule("%")), text) == ("", Selector.parse(text))


def test_what_a_client_wants_is_narrowed_by_its_rule() -> None:
    desk = selecting()
    narrow = guest(Rule("%", subscribe=Selector.parse("x = 1")))
    for _ in range(2):
        assert desk.select(narrow, "y = 2") == ("", Selector.parse("x = 1 AND y = 2"))
    assert desk.select(guest(Rule("%", subscribe=EVERYTHING)), "y = 2") == ("", Selector.parse("y = 2"))


def test_what_is_no_selector_is_a_problem() -> None:
    problem, selector = selecting().select(guest(Rule("%")), "x = = 1")
    assert selector is None
    assert "x = = 1" in problem


def test_selectors_that_were_narrowed_are_remembered_up_to_a_number_of_characters() -> None:
    desk = selecting()
    narrow = guest(Rule("%", subscribe=Selector.parse("x = 1")))
    for number in range(200):
        desk.select(narrow, f"y = '{number}" + "y" * 15_000 + "'")
    assert 0 < desk._narrowed.weight <= _NARROWED_CHARS_MAX


def test_positions_are_reported_once_for_all_durable_subscriptions_of_a_client_that_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=("pb.a",), members=("pb",)))
    client = overlay.client("pb")
    for number in range(1, 51):
        client.durable(number, f"name-{number}")
    overlay.wait(1_000)
    reports: list[int] = []
    report = Guaranteed.report_durables

    def counted(self: Guaranteed, *, now_ms: int) -> None:
        reports.append(now_ms)
        report(self, now_ms=now_ms)

    monkeypatch.setattr(Guaranteed, "report_durables", counted)
    overlay.leave(client)
    assert len(reports) <= 2
