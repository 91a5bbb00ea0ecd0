"""Deliveries to a host's own clients: from where they start, in order, once, whatever the stream went through."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker import BrokerSettings
from penstock.broker.host import edges
from penstock.broker.host.edge import CatchUp, Edge
from penstock.broker.host.edges import SURPRISE_MAX, Edges
from penstock.broker.share import SHARE_EFFORT_MAX
from penstock.broker.transit import carrier
from penstock.model.tick import tick_at
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000


def line(*names: str, **settings: object) -> Overlay:
    return chain(*names, guaranteed=True, silent_ms=PATIENT_MS, **settings)


def publish(publisher: TestClient, *numbers: int) -> None:
    publisher.publish(*({"number": number} for number in numbers))


def ticks(overlay: Overlay) -> list[int]:
    return overlay.disks["pb"].ticks("pb.a")


def counts(overlay: Overlay, broker: str = "sb") -> dict[str, int]:
    found = overlay.brokers[broker].status().counts
    assert isinstance(found, dict)
    return found


def subscriber(overlay: Overlay, selector: str = "", *positions: tuple[str, int], broker: str = "sb") -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, selector, *positions)
    return client


@pytest.mark.parametrize("broker", ["pb", "ib", "sb"])
def test_a_subscription_begins_at_a_stated_position(broker: str) -> None:
    overlay = line("pb", "ib", "sb")
    publisher = overlay.client("pb")
    for number in range(6):
        publish(publisher, number)
        overlay.wait(300)
    client = subscriber(overlay, "", ("pb.a", ticks(overlay)[2]), broker=broker)
    publish(publisher, 6)
    overlay.wait(3_000)
    assert client.numbers() == [2, 3, 4, 5, 6]
    assert client.start_of("pb.a") == ticks(overlay)[2]


def test_without_a_position_a_subscription_begins_with_what_comes_and_says_where() -> None:
    overlay = line("pb", "ib", "sb")
    publisher = overlay.client("pb")
    publish(publisher, 1)
    client = subscriber(overlay)
    publish(publisher, 2)
    assert client.numbers() == [2]
    assert ticks(overlay)[0] < client.start_of("pb.a") <= ticks(overlay)[1]


def test_a_position_that_is_not_reached_yet_is_waited_for() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    overlay.wait(1_000)
    client = subscriber(overlay, "", ("pb.a", tick_at(overlay.now_ms + 1_000)))
    publish(publisher, 1)
    overlay.wait(1_500)
    publish(publisher, 2)
    assert client.numbers() == [2]


@pytest.mark.parametrize("broker", ["pb", "sb"])
def test_a_position_in_the_future_is_refused(broker: str) -> None:
    overlay = line("pb", "ib", "sb")
    client = subscriber(overlay, "", ("pb.a", tick_at(overlay.now_ms + 3_600_000)), broker=broker)
    (refused,) = client.all(f.Refused)
    assert isinstance(refused, f.Refused)
    assert (refused.request, refused.number) == ("subscribe", 1)
    assert "of pubend pb.a is in the future" in refused.reason
    assert not client.all(f.Subscribed)
    assert overlay.brokers[broker].status().subscriptions == 0
    overlay.wait(1_000)
    client.subscribe(1, "")
    publish(overlay.client("pb"), 1)
    assert client.numbers() == [1]
    overlay.check_invariants()


def test_an_unknown_pubend_is_pending_while_a_broker_of_the_overlay_is_out_of_reach() -> None:
    """It may be the one that hosts it; the broker in between was restarted, and does not know it any more."""
    overlay = line("pb", "ib", "sb", members=("pb", "ib", "sb"))
    position = subscriber(overlay).start_of("pb.a")
    overlay.crash("pb")
    overlay.crash("ib")
    overlay.crash("sb")
    overlay.start("ib")
    overlay.start("sb")
    overlay.link("ib", "sb")
    client = subscriber(overlay, "", ("pb.a", position))
    assert not client.all(f.Refused)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(2_000)
    publish(overlay.client("pb"), 1)
    overlay.wait(1_000)
    assert client.numbers() == [1]
    again = subscriber(overlay, "", ("nowhere", 5))
    assert [each.reason for each in again.all(f.Refused) if isinstance(each, f.Refused)] == [
        "no guaranteed pubend 'nowhere' in this overlay; there are: pb.a"
    ]


def test_an_unknown_pubend_is_refused_unless_the_client_comes_back() -> None:
    overlay = line("pb", "sb")
    client = subscriber(overlay, "", ("nowhere", 5))
    (refused,) = client.all(f.Refused)
    assert isinstance(refused, f.Refused)
    assert refused.reason == "no guaranteed pubend 'nowhere' in this overlay; there are: pb.a"
    client.subscribe(2, "", ("nowhere", 5), resumes=True)
    assert len(client.all(f.Refused)) == 1
    assert client.start_of("pb.a", 2) > 0


def test_who_comes_back_gets_what_it_missed_and_nothing_twice() -> None:
    overlay = line("pb", "ib", "sb")
    publisher = overlay.client("pb")
    first = subscriber(overlay, "number > 0")
    publish(publisher, 0, 1, 2)
    overlay.wait(1_500)
    position = first.horizon()
    assert position > ticks(overlay)[-1]
    overlay.leave(first)
    publish(publisher, 0, 3, 4)
    overlay.wait(20_000)
    second = overlay.client("sb")
    second.subscribe(1, "number > 0", ("pb.a", position), resumes=True)
    publish(publisher, 5)
    overlay.wait(3_000)
    assert first.numbers() + second.numbers() == [1, 2, 3, 4, 5]
    assert counts(overlay)["catch_ups_met"] == counts(overlay)["catch_ups"]


def test_several_that_come_at_about_the_same_time_share_a_catch_up() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    subscriber(overlay, "number = 99")
    publish(publisher, 0, 1, 2, 3)
    overlay.wait(2_000)
    clients = []
    for place in range(4):
        clients.append(subscriber(overlay, f"number >= {place}", ("pb.a", ticks(overlay)[place])))
        overlay.wait(10)
    overlay.wait(45)
    assert overlay.brokers["sb"].status().guaranteed.streams["pb.a"].catch_ups <= 1
    overlay.wait(2_000)
    assert [each.numbers() for each in clients] == [list(range(place, 4)) for place in range(4)]
    assert overlay.brokers["sb"].status().guaranteed.streams["pb.a"].catch_ups == 0


def test_a_catch_up_by_a_costly_selector_is_spread_over_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    publish(publisher, *range(300))
    overlay.wait(2_000)
    evaluated: list[int] = []
    deliver = Edges._deliver_behind

    def counted(edges: Edges, edge: Edge, catch_up: CatchUp, ticks: list[int], bodies: list[bytes]) -> None:
        evaluated.append(len(ticks))
        deliver(edges, edge, catch_up, ticks, bodies)

    monkeypatch.setattr(Edges, "_deliver_behind", counted)
    costly = "number >= 0 AND (number = 7 OR " + " OR ".join(f"number + {n} * number = -1" for n in range(500)) + ")"
    # At the pubend's own broker: elsewhere nothing arrives but what somebody wants.
    client = overlay.client("pb")
    client.say(f.Subscribe(1, costly, otherwise=0))
    overlay.wait(10_000)
    assert client.numbers() == [7]
    assert sum(evaluated) == 300
    # Both by the catch-up's own test, and to find out who wants those that pass it.
    assert max(evaluated) <= SURPRISE_MAX * SHARE_EFFORT_MAX // 3_000 + 1


@pytest.mark.parametrize("awake_ms", [20, 1_000])
def test_a_catch_up_goes_on_as_fast_as_its_client_reads_however_often_the_broker_is_woken(awake_ms: int) -> None:
    overlay = line("pb", "sb", client_outbox_bytes=4_000, acknowledge_ms=10)
    publisher = overlay.client("pb")
    publish(publisher, *range(100))
    overlay.wait(2_000)
    client = overlay.client("pb")
    client.say(f.Subscribe(1, "number < 1000", otherwise=0))
    client.reads = False
    began_ms = overlay.now_ms
    while len(client.numbers()) < 100:
        for _ in range(1_000 // awake_ms):
            # An acknowledgement becomes due: the broker is woken, but not for the catch-up.
            publish(publisher, 1_000)
            overlay.wait(awake_ms)
        client.reads = True
        overlay._carry("pb", client.connection)
        client.reads = False
    assert overlay.now_ms - began_ms <= 6_000


def test_no_more_catch_ups_run_than_are_allowed_and_all_get_their_turn() -> None:
    overlay = line("pb", "sb", catch_ups_max=1)
    publisher = overlay.client("pb")
    subscriber(overlay, "number = 99")
    publish(publisher, *range(10))
    overlay.wait(2_000)
    overlay.clog("pb", "sb")
    clients = []
    for place in range(3):
        clients.append(subscriber(overlay, "number < 99", ("pb.a", ticks(overlay)[place])))
        overlay.wait(200)
        assert overlay.brokers["sb"].status().guaranteed.streams["pb.a"].catch_ups <= 1
    overlay.unclog("pb", "sb")
    overlay.wait(10_000)
    assert [each.numbers() for each in clients] == [list(range(place, 10)) for place in range(3)]


def test_a_catch_up_of_a_covered_subscription_starts_in_its_time() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    subscriber(overlay, "")
    publish(publisher, 0, 1)
    overlay.wait(5_000)
    deadline_ms = overlay.now_ms + 60
    client = subscriber(overlay, "number = 1", ("pb.a", ticks(overlay)[0]))
    due_ms = overlay.brokers["sb"].next_deadline()
    assert due_ms is not None
    assert due_ms <= deadline_ms
    overlay.wait(100)
    assert client.numbers() == [1]


def test_one_client_with_two_subscriptions_gets_each_from_where_it_starts() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    client = subscriber(overlay, "number > 0")
    publish(publisher, 1, 2)
    overlay.wait(1_500)
    client.subscribe(2, "number > 1", ("pb.a", ticks(overlay)[0]))
    overlay.wait(2_000)
    publish(publisher, 3)
    overlay.wait(2_000)
    got = [
        (int.from_bytes(numbers[place : place + 4]), tick)
        for each in client.heard
        if isinstance(each, f.Deliver)
        for tick, numbers in zip(each.ticks, each.numbers, strict=True)
        for place in range(0, len(numbers), 4)
    ]
    assert [tick for number, tick in got if number == 1] == ticks(overlay)
    assert [tick for number, tick in got if number == 2] == ticks(overlay)[1:]


def test_a_pubend_that_was_out_of_reach_is_pending_until_it_comes() -> None:
    overlay = Overlay(
        BrokerSettings("pb", number=1, pubends=("pb.a",), neighbours=("sb",), silent_ms=PATIENT_MS),
        BrokerSettings("qb", number=2, pubends=("qb.a",), neighbours=("sb",), silent_ms=PATIENT_MS),
        BrokerSettings("sb", number=3, neighbours=("pb", "qb"), silent_ms=PATIENT_MS),
    )
    overlay.link("pb", "sb")
    overlay.link("qb", "sb")
    overlay.cut("qb", "sb")
    client = subscriber(overlay)
    overlay.wait(3_500)
    (said,) = client.all(f.Subscribed)
    assert isinstance(said, f.Subscribed)
    assert said.pending == ("qb.a",)
    assert [pubend for pubend, _ in said.starts] == ["pb.a"]
    overlay.link("qb", "sb")
    overlay.wait(1_500)
    again = client.all(f.Subscribed)[-1]
    assert isinstance(again, f.Subscribed)
    assert again.pending == ()
    assert [pubend for pubend, _ in again.starts] == ["pb.a", "qb.a"]
    publish(overlay.client("qb"), 7)
    assert client.numbers() == [7]


def test_a_damaged_record_is_lost_to_those_who_need_it_and_the_rest_comes() -> None:
    overlay = line("pb", "sb", cache_bytes=200)
    publisher = overlay.client("pb")
    live = subscriber(overlay)
    publish(publisher, *range(10))
    overlay.wait(2_000)
    overlay.disks["pb"].damage("pb.a", ticks(overlay)[4])
    late = subscriber(overlay, "", ("pb.a", ticks(overlay)[1]))
    later = subscriber(overlay, "", ("pb.a", ticks(overlay)[6]))
    overlay.wait(5_000)
    assert late.numbers() == [1, 2, 3, 5, 6, 7, 8, 9]
    assert later.numbers() == [6, 7, 8, 9]
    assert live.numbers() == list(range(10))
    (lost,) = late.all(f.Lost)
    assert isinstance(lost, f.Lost)
    assert lost.first <= ticks(overlay)[4] <= lost.last
    assert not [tick for tick in ticks(overlay) if tick != ticks(overlay)[4] and lost.first <= tick <= lost.last]
    assert not live.all(f.Lost)
    assert not later.all(f.Lost)
    assert counts(overlay, "pb")["damaged_records"] == 1


def trimmed() -> tuple[Overlay, list[int]]:
    """A log with messages 5 and 6, and the ticks of messages 0 to 4, which are gone."""
    overlay = line("pb", "sb", cache_bytes=200, retain_ms=10_000, grace_ms=1_000)
    publisher = overlay.client("pb")
    publish(publisher, *range(5))
    old = ticks(overlay)
    overlay.wait(15_000)
    publish(publisher, 5, 6)
    assert [tick for tick in ticks(overlay) if tick in old] == []
    return overlay, old


def test_a_position_that_was_trimmed_is_lost_to_who_comes_back_and_the_rest_comes() -> None:
    overlay, old = trimmed()
    client = overlay.client("sb")
    client.subscribe(1, "", ("pb.a", old[2]), resumes=True)
    overlay.wait(5_000)
    assert client.numbers() == [5, 6]
    lost = [(each.first, each.last) for each in client.heard if isinstance(each, f.Lost)]
    assert lost[0][0] == old[2]
    assert lost[-1][1] < ticks(overlay)[0]


def test_a_position_that_was_trimmed_is_refused_and_the_oldest_is_named() -> None:
    overlay, old = trimmed()
    client = subscriber(overlay, "", ("pb.a", old[2]))
    (refused,) = client.all(f.Refused)
    assert isinstance(refused, f.Refused)
    assert f"position {old[2]} " in refused.reason
    oldest = int(refused.reason.split("the oldest available is ")[1].split()[0])
    assert old[-1] < oldest <= ticks(overlay)[0]
    assert client.numbers() == []
    assert not client.all(f.Lost)
    client.subscribe(1, "", ("pb.a", oldest))
    overlay.wait(5_000)
    assert client.numbers() == [5, 6]
    overlay.check_invariants()


@pytest.mark.parametrize(("missing", "numbers"), [("earliest", [5, 6, 7]), ("latest", [7])])
def test_a_position_that_was_trimmed_gives_way_to_what_the_client_wants_instead(
    missing: f.Missing, numbers: list[int]
) -> None:
    overlay, old = trimmed()
    client = overlay.client("sb")
    client.say(f.Subscribe(1, "", (("pb.a", old[2]),), missing=missing))
    overlay.wait(5_000)
    publish(overlay.client("pb"), 7)
    assert client.numbers() == numbers
    assert not client.all(f.Lost)
    assert not client.all(f.Refused)
    overlay.check_invariants()


def test_a_host_that_asks_for_very_many_ranges_asks_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is doubted, data in the midst of it is believed: what was one gap becomes more than fit one NACK."""
    for room in (edges, carrier):
        monkeypatch.setattr(room, "NACK_RANGES_MAX", 100)
    overlay = line("pb", "sb")
    client, publisher = subscriber(overlay), overlay.client("pb")
    publish(publisher, 0)
    overlay.clog("pb", "sb")
    publish(publisher, *range(1, 501))
    found = overlay.disks["pb"].read("pb.a", ticks(overlay)[1], 2**62, 2**40)[0][::2]
    broker = overlay.brokers["sb"]
    link = broker._connections.links["pb"].connection
    first, last = ticks(overlay)[1], ticks(overlay)[-1]
    for frame in (
        f.KnowledgeMessage("pb.a", first, last, [], [], is_whole=True),
        f.KnowledgeMessage("pb.a", first, last, [tick for tick, _ in found], [body for _, body in found]),
    ):
        overlay._act("sb", broker.receive(link, [frame], now_ms=overlay.now_ms))
    overlay.wait(3_000)
    overlay.cut("pb", "sb")
    overlay.unclog("pb", "sb")
    overlay.link("pb", "sb")
    overlay.wait(10_000)
    assert client.numbers() == list(range(501))


@pytest.mark.parametrize("victim", ["pb", "ib", "sb"])
def test_any_broker_may_crash_and_come_back(victim: str) -> None:
    overlay = line("pb", "ib", "sb")
    publisher = overlay.client("pb")
    client = subscriber(overlay)
    publish(publisher, 0, 1)
    overlay.wait(1_500)
    before, position = client.numbers(), client.horizon()
    overlay.crash(victim)
    if victim != "pb":
        publish(publisher, 2)
    overlay.wait(3_000)
    overlay.start(victim)
    for pair in (("pb", "ib"), ("ib", "sb")):
        if victim in pair:
            overlay.link(*pair)
    if victim == "sb":
        client = overlay.client("sb")
        client.subscribe(1, "", ("pb.a", position), resumes=True)
    else:
        before = []
    publish(overlay.client("pb") if victim == "pb" else publisher, 3)
    overlay.wait(8_000)
    assert before + client.numbers() == ([0, 1, 3] if victim == "pb" else [0, 1, 2, 3])
