"""Guaranteed delivery in one broker and between several: commits before words, crash and return."""

from __future__ import annotations

from overlay import Overlay, TestClient, chain
from penstock.broker import BrokerSettings
from penstock.broker.effects import Commit, ReadLog
from penstock.model.tick import TickRange
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.protocol.status import PubendStatus

PATIENT_MS = 1_000_000


def line(*names: str, **settings: object) -> Overlay:
    return chain(*names, guaranteed=True, silent_ms=PATIENT_MS, **settings)


def publish(publisher: TestClient, *numbers: int, pubend: str = "") -> None:
    publisher.publish(*({"number": number} for number in numbers), pubend=pubend)


def subscriber(overlay: Overlay, broker: str = "sb", selector: str = "", *positions: tuple[str, int]) -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, selector, *positions)
    return client


def pubend(overlay: Overlay, name: str = "pb.a") -> PubendStatus:
    return overlay.brokers["pb"].status().guaranteed.pubends[name]


def test_a_neighbour_that_asks_for_a_pubend_which_is_guaranteed_elsewhere_alone_is_no_problem() -> None:
    """Two brokers have a pubend of one name, and one of them keeps nothing: nobody can look it up there."""
    overlay = Overlay(
        BrokerSettings(name="pb", number=1, pubends=("pb.a",), best_effort=("pb.a",), neighbours=("zz",)),
        BrokerSettings(name="zz", number=2, pubends=("pb.a",), neighbours=("pb",)),
    )
    overlay.link("pb", "zz")
    overlay.wait(2_000)
    overlay.lie("pb", "zz", f.Nack("pb.a", "zz", 1, 0, ((1, 5),)))
    overlay.wait(2_000)
    assert overlay.links() == [("pb", "zz")]


def test_nothing_leaves_before_it_is_durable() -> None:
    overlay = line("pb", "sb")
    near, far = subscriber(overlay, "pb"), subscriber(overlay)
    publisher = overlay.client("pb")
    overlay.wait(1_000)
    overlay.syncs = False
    publish(publisher, 1)
    overlay.wait(900)
    assert (near.messages(), far.messages()) == ([], [])
    overlay.sync()
    assert (near.numbers(), far.numbers()) == ([1], [1])


def test_what_was_not_durable_when_the_broker_crashed_was_never_heard_of() -> None:
    overlay = line("pb", "sb")
    client = subscriber(overlay)
    publish(overlay.client("pb"), 1)
    overlay.syncs = False
    publish(overlay.client("pb"), 2)
    overlay.crash("pb")
    overlay.syncs = True
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("pb", "sb")
    publish(overlay.client("pb"), 3)
    overlay.wait(3_000)
    assert client.numbers() == [1, 3]


def test_a_life_after_a_crash_gives_no_tick_that_the_former_one_may_have_promised() -> None:
    overlay = line("pb", "sb")
    subscriber(overlay)
    overlay.wait(5_000)
    for _ in range(5):
        lease = overlay.disks["pb"].recovered().pubends["pb.a"].lease
        assert lease is not None
        assert pubend(overlay).promised <= lease
        overlay.crash("pb")
        overlay.wait(1)
        overlay.start("pb")
        overlay.link("pb", "sb")
        publish(overlay.client("pb"), 1)
        assert overlay.disks["pb"].ticks("pb.a")[-1] > lease


def test_a_stream_without_messages_moves_once_a_second_everywhere() -> None:
    overlay = line("pb", "ib", "sb")
    subscriber(overlay)
    overlay.wait(20_000)
    horizon = overlay.brokers["sb"].status().guaranteed.streams["pb.a"].horizon
    assert horizon >= overlay.now_ms - 1_000 << 16
    assert overlay.brokers["sb"].status().counts["nacks_sent"] <= 1


def test_a_large_batch_is_said_in_several_messages() -> None:
    overlay = line("pb", "sb")
    client = subscriber(overlay)
    overlay.clog("pb", "sb")
    messages: list[dict[str, AttributeValue]] = [{"number": number, "text": "x" * 30_000} for number in range(30)]
    overlay.client("pb").publish(*messages)
    waiting = overlay.brokers["pb"]._connections.links["sb"].outbox._data
    assert 12 <= len(waiting) <= 20
    overlay.unclog("pb", "sb")
    assert client.numbers() == list(range(30))


def test_streams_of_several_pubends_are_independent() -> None:
    overlay = Overlay(
        BrokerSettings("pb", number=1, pubends=("p", "q", "r"), best_effort=("r",), neighbours=("sb",)),
        BrokerSettings("sb", number=2, neighbours=("pb",)),
    )
    overlay.link("pb", "sb")
    client, publisher = subscriber(overlay), overlay.client("pb")
    for number, name in enumerate("pqrqpr"):
        publish(publisher, number, pubend=name)
    assert client.numbers() == list(range(6))
    assert set(overlay.brokers["sb"].status().guaranteed.streams) == {"p", "q"}
    said = client.all(f.Subscribed)[-1]
    assert isinstance(said, f.Subscribed)
    assert [name for name, _ in said.starts] == ["p", "q"]


def test_what_is_lost_is_told_and_is_no_message() -> None:
    overlay = line("pb", "ib", "sb", cache_bytes=200)
    publisher = overlay.client("pb")
    publish(publisher, *range(6))
    ticks = overlay.disks["pb"].ticks("pb.a")
    overlay.wait(2_000)
    overlay.disks["pb"].damage("pb.a", ticks[1])
    first = subscriber(overlay, "sb", "", ("pb.a", ticks[0]))
    overlay.wait(5_000)
    second = subscriber(overlay, "ib", "", ("pb.a", ticks[0]))
    overlay.wait(5_000)
    for client in (first, second):
        assert client.numbers() == [0, 2, 3, 4, 5]
        (lost,) = client.all(f.Lost)
        assert isinstance(lost, f.Lost)
        assert (lost.first, lost.last) == (ticks[1], ticks[1])
    assert "damaged-record" in [each.event for each in overlay.records]


def test_what_is_trimmed_while_it_is_read_does_not_look_like_silence() -> None:
    overlay = line("pb", "sb", cache_bytes=200)
    publish(overlay.client("pb"), *range(9))
    ticks = overlay.disks["pb"].ticks("pb.a")
    overlay.wait(1_500)
    client = subscriber(overlay, "sb", "", ("pb.a", ticks[0]))
    overlay.syncs = False
    overlay.wait(500)
    overlay.brokers["pb"]._guaranteed._logs["pb.a"].trim(ticks[4])
    overlay.syncs = True
    overlay.sync()
    overlay.wait(5_000)
    assert client.numbers() == [4, 5, 6, 7, 8]
    (lost,) = client.all(f.Lost)
    assert isinstance(lost, f.Lost)
    assert (lost.first, lost.last) == (ticks[0], ticks[4] - 1)


def test_answers_of_the_shell_that_nobody_waits_for_are_ignored() -> None:
    overlay = line("pb", "sb")
    broker = overlay.brokers["pb"]
    damaged = TickRange._make((1, 2))
    effects = broker.log_read(99, [], 5, now_ms=overlay.now_ms, damaged=damaged)
    assert not [each for each in effects if isinstance(each, Commit | ReadLog)]
    broker.check_invariants()


def test_a_subscriber_at_the_publishers_broker_gets_the_same_as_one_far_away() -> None:
    overlay = line("pb", "ib", "sb")
    clients = [subscriber(overlay, name, "number > 2") for name in ("pb", "ib", "sb")]
    publisher = overlay.client("pb")
    for number in range(7):
        publish(publisher, number)
        overlay.wait(100)
    overlay.wait(2_000)
    assert [each.numbers() for each in clients] == [[3, 4, 5, 6]] * 3
    late = [subscriber(overlay, name, "number > 2", ("pb.a", 0)) for name in ("pb", "ib", "sb")]
    overlay.wait(3_000)
    assert [each.numbers() for each in late] == [[3, 4, 5, 6]] * 3


def test_a_subscription_begins_with_what_nobody_has_been_told_of_yet() -> None:
    """What is not durable has not happened: after a crash its tick may be given to something that is owed."""
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    publish(publisher, 0)
    overlay.syncs = False
    publish(publisher, 1)
    clients = [subscriber(overlay, "pb"), subscriber(overlay, "sb")]
    overlay.sync()
    overlay.syncs = True
    publish(publisher, 2)
    overlay.wait(1_500)
    assert [each.numbers() for each in clients] == [[1, 2], [1, 2]]


def test_a_client_that_does_not_read_is_caught_up_at_its_own_pace() -> None:
    overlay = line("pb", "sb", client_outbox_bytes=200_000, cache_bytes=1_000)
    publisher = overlay.client("pb")
    for number in range(100):
        publisher.publish({"number": number, "text": "x" * 10_000})
        overlay.wait(50)
    overlay.wait(2_000)
    slow, quick = overlay.client("sb"), overlay.client("sb")
    slow.reads = False
    for client in (slow, quick):
        client.subscribe(1, "", ("pb.a", overlay.disks["pb"].ticks("pb.a")[0]))
    overlay.wait(5_000)
    assert slow.closed is None
    slow.reads = True
    for _ in range(60):
        overlay._carry("sb", slow.connection)
        overlay.wait(200)
    assert slow.numbers() == list(range(100))
    assert quick.numbers() == list(range(100))
    assert slow.closed is None


def test_when_nobody_is_subscribed_any_more_a_host_has_no_streams() -> None:
    overlay = line("pb", "sb")
    client, publisher = subscriber(overlay), overlay.client("pb")
    publish(publisher, 1)
    client.say(f.Unsubscribe(1))
    publish(publisher, 2)
    overlay.wait(2_000)
    assert overlay.brokers["sb"].status().guaranteed.streams == {}
    client.subscribe(2, "")
    publish(publisher, 3)
    assert client.numbers() == [1, 3]
    overlay.check_invariants()


def test_a_subscription_confirmed_without_a_stream_says_so() -> None:
    """A host whose filter stays the same, since somebody else's wider one covers it, still has to open its streams."""
    overlay = line("pb", "ib", "sb")
    wide = subscriber(overlay)
    overlay.leave(wide)
    overlay.loses = f.FilterApplied
    client = subscriber(overlay)
    overlay.wait(4_000)
    said = client.all(f.Subscribed)[-1]
    assert isinstance(said, f.Subscribed)
    assert said.pending == ("pb.a",)
    overlay.loses = None
    overlay.wait(1_000)
    publish(overlay.client("pb"), 1)
    assert client.numbers() == [1]
    assert client.start_of("pb.a") > 0


def test_figures_tell_the_operator_how_streams_and_logs_are() -> None:
    overlay = line("pb", "sb")
    subscriber(overlay)
    publish(overlay.client("pb"), 1)
    status = overlay.brokers["pb"].status().guaranteed
    assert status.commits_waiting == 0
    assert status.held_back == ""
    assert status.cache_bytes > 0
    assert pubend(overlay).size_bytes > 0
    stream = overlay.brokers["sb"].status().guaranteed.streams["pb.a"]
    assert stream.horizon == stream.heard + 1


def test_who_missed_the_last_word_gets_it_though_the_pubend_waits_for_its_disk() -> None:
    """A full log is trimmed only when everybody has had what is in it: silence about it would last for ever."""
    overlay = line("pb", "sb")
    far, publisher = subscriber(overlay), overlay.client("pb")
    overlay.wait(2_000)
    overlay.loses = f.KnowledgeMessage
    publish(publisher, 1)
    overlay.syncs = False
    publish(publisher, 2)
    overlay.wait(5_000)
    overlay.loses = None
    overlay.wait(20_000)
    assert far.numbers() == [1]
    overlay.sync()
    assert far.numbers() == [1, 2]


def test_who_catches_up_with_a_stream_that_stands_still_is_told_how_far_that_is() -> None:
    """Only then it can acknowledge all it has, and a log that is full can be trimmed."""
    overlay = line("pb", "sb")
    near, publisher = subscriber(overlay), overlay.client("pb")
    overlay.wait(2_000)
    for number in range(3):
        publish(publisher, number)
        overlay.wait(1_000)
    overlay.syncs = False
    publish(publisher, 3)
    overlay.wait(20_000)
    late = overlay.client("sb")
    late.say(f.Subscribe(1, "number < 2", otherwise=0))
    overlay.wait(20_000)
    assert (near.numbers(), late.numbers()) == ([0, 1, 2], [0, 1])
    assert late.horizon() == near.horizon()
