"""Replays: from a time, from the earliest, from stated positions; with any selector, from whatever pubend is there."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.model.tick import tick_at
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000_000
HOUR_MS = 3_600_000


def line(**settings: object) -> Overlay:
    """Ten messages, one per second: number n at the n-th second after the start."""
    settings = {"retain_ms": HOUR_MS, "cache_bytes": 400, "grace_ms": 5_000} | settings
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS, **settings)
    overlay.wait(1_000)
    publisher = overlay.client("pb")
    for number in range(10):
        publisher.publish({"number": number})
        overlay.wait(1_000)
    return overlay


def two_pubends() -> Overlay:
    overlay = star("pb", "qb", "sb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, retain_ms=HOUR_MS)
    overlay.wait(3_000)
    return overlay


def publish(overlay: Overlay, *numbers: int, broker: str = "pb") -> None:
    overlay.client(broker).publish(*({"number": number} for number in numbers))
    overlay.wait(200)


def ticks(overlay: Overlay, broker: str = "pb") -> list[int]:
    return overlay.disks[broker].ticks(f"{broker}.a")


def replay(overlay: Overlay, broker: str = "sb", selector: str = "", **wishes: object) -> TestClient:
    client = overlay.client(broker)
    client.say(f.Subscribe(1, selector, **wishes))  # type: ignore[arg-type]
    overlay.wait(5_000)
    return client


def trimmed() -> Overlay:
    """A log of which only the last messages are left."""
    overlay = line(retain_ms=4_500)
    assert 2 <= len(ticks(overlay)) <= 6
    return overlay


def pending(client: TestClient) -> tuple[str, ...]:
    return [each.pending for each in client.heard if isinstance(each, f.Subscribed)][-1]


@pytest.mark.parametrize("broker", ["pb", "ib", "sb"])
def test_the_earliest_of_a_log_that_was_not_trimmed_is_everything(broker: str) -> None:
    overlay = line()
    client = replay(overlay, broker, otherwise=0)
    publish(overlay, 10)
    assert client.numbers() == list(range(11))
    assert not client.all(f.Lost)
    overlay.check_invariants()


def test_the_earliest_of_a_log_that_was_trimmed_is_what_is_left() -> None:
    overlay = trimmed()
    left = len(ticks(overlay))
    client = replay(overlay, otherwise=0)
    publish(overlay, 10)
    assert client.numbers() == list(range(10 - left, 11))
    assert not client.all(f.Lost)
    assert client.refusals() == []


def test_the_earliest_of_a_log_that_never_had_anything_is_what_comes() -> None:
    overlay = chain("pb", "sb", guaranteed=True, silent_ms=PATIENT_MS)
    client = replay(overlay, otherwise=0)
    publish(overlay, 1)
    assert client.numbers() == [1]


def test_a_replay_from_a_time_begins_there() -> None:
    overlay = line()
    sixth_ms = ticks(overlay)[6] >> 16
    assert replay(overlay, otherwise=tick_at(sixth_ms)).numbers() == [6, 7, 8, 9]
    assert replay(overlay, otherwise=tick_at(sixth_ms + 1)).numbers() == [7, 8, 9]


def test_a_replay_has_a_selector_like_others() -> None:
    overlay = line()
    assert replay(overlay, selector="number > 3 and number <> 6", otherwise=0).numbers() == [4, 5, 7, 8, 9]


@pytest.mark.parametrize("missing", ["fail", "earliest", "latest"])
def test_the_policy_does_not_matter_where_nothing_is_missing(missing: str) -> None:
    overlay = line()
    client = replay(overlay, positions=(("pb.a", ticks(overlay)[7]),), missing=missing)
    assert client.numbers() == [7, 8, 9]


def test_a_time_before_the_oldest_fails_and_names_it() -> None:
    overlay = trimmed()
    client = replay(overlay, otherwise=tick_at(1))
    ((request, number, reason),) = client.refusals()
    assert (request, number) == ("subscribe", 1)
    assert "is not kept any more; the oldest available is " in reason
    assert client.numbers() == []
    assert overlay.brokers["sb"].status().subscriptions == 0


@pytest.mark.parametrize("missing", ["earliest", "latest"])
def test_a_time_before_the_oldest_begins_where_the_policy_says(missing: str) -> None:
    overlay = trimmed()
    left = len(ticks(overlay))
    client = replay(overlay, otherwise=tick_at(1), missing=missing)
    publish(overlay, 10)
    assert client.numbers() == (list(range(10 - left, 11)) if missing == "earliest" else [10])
    assert not client.all(f.Lost)


def test_a_time_in_the_future_is_refused() -> None:
    overlay = line()
    client = replay(overlay, otherwise=tick_at(overlay.now_ms + HOUR_MS))
    ((_, _, reason),) = client.refusals()
    assert reason.endswith("of pubend pb.a is in the future")


def test_replays_that_come_together_get_each_its_own() -> None:
    overlay = line()
    clients = [overlay.client("sb") for _ in range(10)]
    for number, client in enumerate(clients):
        client.say(f.Subscribe(1, "", (("pb.a", ticks(overlay)[number]),)))
    overlay.wait(5_000)
    assert [client.numbers() for client in clients] == [list(range(number, 10)) for number in range(10)]


def test_a_vector_states_each_pubend_and_the_rest_otherwise() -> None:
    overlay = two_pubends()
    for number in range(4):
        publish(overlay, number)
        publish(overlay, number + 10, broker="qb")
    vector = (("pb.a", ticks(overlay)[2]), ("qb.a", ticks(overlay, "qb")[3]))
    assert sorted(map(int, replay(overlay, positions=vector).numbers())) == [2, 3, 13]  # type: ignore[arg-type]
    assert replay(overlay, positions=vector[:1]).numbers() == [2, 3]
    rest = replay(overlay, positions=vector[:1], otherwise=0).numbers()
    assert sorted(map(int, rest)) == [2, 3, 10, 11, 12, 13]  # type: ignore[arg-type]


def test_one_pubend_that_cannot_give_it_refuses_the_whole() -> None:
    overlay = two_pubends()
    publish(overlay, 1)
    client = replay(overlay, positions=(("pb.a", ticks(overlay)[0]), ("qb.a", tick_at(overlay.now_ms + HOUR_MS))))
    assert [reason.endswith("of pubend qb.a is in the future") for _, _, reason in client.refusals()] == [True]
    before = len(client.numbers())
    publish(overlay, 2)
    assert len(client.numbers()) == before
    assert overlay.brokers["sb"].status().subscriptions == 0
    overlay.check_invariants()


def test_a_pubend_that_cannot_be_reached_is_pending_and_begins_at_the_right_place() -> None:
    overlay = two_pubends()
    publish(overlay, 1, 2)
    publish(overlay, 11, 12, broker="qb")
    overlay.cut("hub", "qb")
    overlay.wait(1_000)
    client = replay(overlay, otherwise=0)
    assert client.numbers() == [1, 2]
    assert pending(client) == ("qb.a",)
    publish(overlay, 13, broker="qb")
    publish(overlay, 3)
    overlay.link("hub", "qb")
    overlay.wait(5_000)
    assert client.numbers() == [1, 2, 3, 11, 12, 13]
    assert pending(client) == ()
    overlay.check_invariants()


@pytest.mark.parametrize("resumes", [False, True])
def test_a_position_counts_for_a_pubend_that_becomes_known_later(resumes: bool) -> None:
    overlay = two_pubends()
    publish(overlay, 11, 12, 13, broker="qb")
    second = ticks(overlay, "qb")[1]
    overlay.crash("sb")
    overlay.crash("qb")
    overlay.crash("hub")
    overlay.wait(10)
    overlay.start("hub")
    overlay.start("sb")
    overlay.link("hub", "pb")
    if not resumes:
        client = overlay.client("sb")
        client.subscribe(1, "", ("qb.a", second))
        overlay.link("hub", "sb")
    else:
        overlay.link("hub", "sb")
        client = overlay.client("sb")
        client.subscribe(1, "", ("qb.a", second), resumes=True)
    overlay.wait(3_000)
    assert client.refusals() == []
    publish(overlay, 1)
    overlay.start("qb")
    overlay.link("hub", "qb")
    overlay.wait(5_000)
    assert client.numbers() == [1, 12, 13]
    overlay.check_invariants()


def test_a_pubend_that_crashes_before_it_answers_is_asked_again() -> None:
    overlay = line()
    overlay.delay("pb", "ib")
    client = overlay.client("sb")
    client.say(f.Subscribe(1, "", otherwise=0))
    overlay.wait(200)
    overlay.crash("pb")
    overlay.delayed.clear()
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(10_000)
    assert client.numbers() == list(range(10))


def test_who_goes_before_it_is_answered_leaves_nothing() -> None:
    overlay = line()
    overlay.delay("ib", "sb")
    client = overlay.client("sb")
    client.say(f.Subscribe(1, "", otherwise=0))
    overlay.wait(700)
    overlay.leave(client)
    overlay.undelay("ib", "sb")
    overlay.wait(5_000)
    assert client.numbers() == []
    assert overlay.brokers["sb"].status().subscriptions == 0
    overlay.check_invariants()


def test_a_subscription_that_is_withdrawn_is_not_confused_with_one_of_the_same_number() -> None:
    overlay = line()
    client = overlay.client("pb")
    future = tick_at(overlay.now_ms + HOUR_MS)
    client.say(f.Subscribe(1, "", (("pb.a", future),)), f.Unsubscribe(1), f.Subscribe(1, ""))
    overlay.wait(1_000)
    publish(overlay, 10)
    assert client.numbers() == [10]
