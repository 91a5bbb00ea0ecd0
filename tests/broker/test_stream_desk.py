"""Questions up the trees and answers down: durable names in an overlay, taken over, forgotten, and hostile words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from overlay import Overlay, TestClient, star
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000_000
TAKEN = "durable subscription 'D' was taken over or forgotten"


def overlay_of_two(**settings: object) -> Overlay:
    """Two pubends and two hosts around a hub, which have found each other."""
    overlay = star("pb", "qb", "sb", "tb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, **settings)
    overlay.wait(3_000)
    return overlay


def durable(overlay: Overlay, broker: str, name: str = "D", number: int = 1, **wishes: Any) -> TestClient:
    client = overlay.client(broker)
    client.durable(number, name, **wishes)
    overlay.wait(2_000)
    return client


def publish(overlay: Overlay, *numbers: int, broker: str = "pb") -> None:
    overlay.client(broker).publish(*({"number": number} for number in numbers))
    overlay.wait(200)


def owners(overlay: Overlay, name: str = "D") -> list[str]:
    """Where the owner of a name is, as the pubends know it."""
    return [str(overlay.durables(pubend)[name].host) for pubend in ("pb.a", "qb.a")]


def let_clock_run_ahead(overlay: Overlay, broker: str) -> None:
    """Lets a broker claim names with numbers of the far future."""
    overlay.brokers[broker]._guaranteed.claims.next(above=10**16)


# --- claims


def test_a_name_is_known_at_all_pubends_and_its_subscription_begins_on_all() -> None:
    overlay = overlay_of_two()
    client = durable(overlay, "sb")
    assert owners(overlay) == ["sb", "sb"]
    assert {client.start_of("pb.a"), client.start_of("qb.a")} == {
        overlay.durables("pb.a")["D"].tick,
        overlay.durables("qb.a")["D"].tick,
    }
    publish(overlay, 1)
    publish(overlay, 2, broker="qb")
    assert client.numbers() == [1, 2]
    overlay.check_invariants()


@pytest.mark.parametrize("place", ["sb", "tb", "pb"])
def test_who_comes_later_ends_the_former_owner(place: str) -> None:
    overlay = overlay_of_two()
    former = durable(overlay, "sb")
    later = durable(overlay, place)
    assert former.refusals() == [("subscribe", 1, TAKEN)]
    assert later.refusals() == []
    assert owners(overlay) == [place, place]
    publish(overlay, 1)
    assert (former.numbers(), later.numbers()) == ([], [1])
    overlay.check_invariants()


def test_who_comes_later_wins_although_the_clock_of_the_former_owner_is_ahead() -> None:
    overlay = overlay_of_two()
    let_clock_run_ahead(overlay, "sb")
    former = durable(overlay, "sb")
    later = durable(overlay, "tb")
    assert former.refusals() == [("subscribe", 1, TAKEN)]
    assert later.refusals() == []
    assert owners(overlay) == ["tb", "tb"]
    publish(overlay, 1)
    assert (former.numbers(), later.numbers()) == ([], [1])


DIRECTIONS = [(name, "hub") for name in ("pb", "qb", "sb", "tb")] + [("hub", name) for name in ("pb", "qb", "sb", "tb")]
races = st.lists(
    st.one_of(
        st.tuples(st.just("delay"), st.integers(0, 7)),
        st.tuples(st.just("undelay"), st.integers(0, 7)),
        st.tuples(st.just("claim"), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.sampled_from([1, 100, 600])),
    ),
    max_size=16,
)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(races, st.sampled_from(["", "sb", "tb"]))
@example([("claim", 0), ("delay", 6)], "sb")
@example([("delay", 2), ("delay", 3), ("claim", 0), ("claim", 1), ("delay", 5), ("undelay", 2), ("delay", 4)], "")
def test_of_all_that_claim_a_name_at_about_the_same_time_one_survives(race: list[tuple[str, int]], ahead: str) -> None:
    overlay = overlay_of_two()
    clients = [overlay.client(name) for name in ("sb", "tb", "sb")]
    for client in clients:
        client.subscribe(9, "number < 0")
    overlay.wait(1_500)
    if ahead:
        let_clock_run_ahead(overlay, ahead)
    claims = dict.fromkeys([0, 1, 2])
    for what, number in race:
        if what == "delay":
            overlay.delay(*DIRECTIONS[number])
        elif what == "undelay":
            overlay.undelay(*DIRECTIONS[number])
        elif what == "wait":
            overlay.wait(number)
        elif number in claims:
            del claims[number]
            clients[number].durable(1, "D")
    for number in claims:
        clients[number].durable(1, "D")
    for direction in DIRECTIONS:
        overlay.undelay(*direction)
    overlay.wait(30_000)
    publish(overlay, 1)
    publish(overlay, 2, broker="qb")
    assert sorted(client.numbers() for client in clients) == [[], [], [1, 2]]
    overlay.check_invariants()


def test_of_two_that_claim_a_name_at_two_pubends_in_different_order_one_survives() -> None:
    """The one is first at the one pubend, the other at the other."""
    overlay = overlay_of_two()
    clients = {name: overlay.client(name) for name in ("sb", "tb")}
    for client in clients.values():
        client.subscribe(9, "number < 0")
    overlay.wait(1_500)
    overlay.delay("hub", "qb")
    clients["sb"].durable(1, "D")
    overlay.cut("hub", "qb")
    overlay.delayed.clear()
    overlay.delay("hub", "pb")
    overlay.link("hub", "qb")
    clients["tb"].durable(1, "D")
    overlay.wait(600)
    overlay.undelay("hub", "pb")
    overlay.wait(15_000)
    publish(overlay, 1)
    publish(overlay, 2, broker="qb")
    assert sorted(client.numbers() for client in clients.values()) == [[], [1, 2]]


def test_a_claim_survives_a_round_trip_that_is_longer_than_the_time_to_ask_again() -> None:
    overlay = overlay_of_two()
    let_clock_run_ahead(overlay, "tb")
    former = durable(overlay, "tb")
    later = overlay.client("sb")
    later.subscribe(9, "number < 0")
    overlay.wait(1_500)
    overlay.delay("hub", "sb")
    later.durable(1, "D")
    overlay.wait(1_700)
    overlay.undelay("hub", "sb")
    overlay.wait(5_000)
    assert former.refusals() == [("subscribe", 1, TAKEN)]
    assert later.refusals() == []
    publish(overlay, 1)
    assert later.numbers() == [1]


def test_a_former_owner_that_was_cut_off_is_ended_when_it_can_be_told() -> None:
    overlay = overlay_of_two()
    former = durable(overlay, "sb")
    overlay.cut("hub", "sb")
    later = durable(overlay, "tb")
    assert former.refusals() == []
    overlay.link("hub", "sb")
    overlay.wait(30_000)
    assert former.refusals() == [("subscribe", 1, TAKEN)]
    publish(overlay, 1)
    assert (former.numbers(), later.numbers()) == ([], [1])


def test_a_former_owner_that_was_never_told_is_ended_by_who_claims_the_name_at_its_own_host() -> None:
    """The pubends name only the last owner, who is elsewhere by then."""
    overlay = overlay_of_two()
    first = durable(overlay, "sb")
    overlay.loses = f.StreamTaken
    second = durable(overlay, "tb")
    overlay.loses = None
    assert not first.refusals()
    overlay.leave(second)
    third = durable(overlay, "sb")
    assert first.refusals() == [("subscribe", 1, TAKEN)]
    publish(overlay, 1, 2)
    assert (first.numbers(), third.numbers()) == ([], [1, 2])


def test_an_answer_to_a_former_life_of_a_host_is_not_taken_for_one_to_this_life() -> None:
    """The pubend's disk is slow; meanwhile the host starts anew, and somebody else asks for something else."""
    overlay = overlay_of_two(retain_ms=PATIENT_MS)
    publish(overlay, 1, 2)
    overlay.syncs = False
    overlay.client("sb").durable(1, "D")
    overlay.wait(100)
    overlay.crash("sb")
    overlay.wait(50)
    overlay.start("sb")
    overlay.link("hub", "sb")
    other = overlay.client("sb")
    other.durable(1, "E", otherwise=0)
    overlay.wait(50)
    overlay.syncs = True
    overlay.sync()
    overlay.wait(5_000)
    assert other.numbers() == [1, 2]


# --- positions


def test_positions_reported_late_by_a_former_owner_do_not_count() -> None:
    overlay = overlay_of_two()
    former = durable(overlay, "sb")
    publish(overlay, 1, 2, 3)
    overlay.wait(2_000)
    overlay.delay("sb", "hub")
    former.acknowledge("pb.a", former.horizon(), 1)
    overlay.wait(1_500)
    later = durable(overlay, "tb")
    overlay.undelay("sb", "hub")
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].tick == later.start_of("pb.a")
    assert later.numbers() == [1, 2, 3]


def test_acknowledged_positions_move_with_silence() -> None:
    overlay = overlay_of_two()
    client = durable(overlay, "sb", selector="number < 0")
    before = overlay.durables("pb.a")["D"].tick
    overlay.wait(10_000)
    client.acknowledge("pb.a", client.horizon(), 1)
    overlay.wait(2_000)
    assert overlay.durables("pb.a")["D"].tick == client_horizon(client, "pb.a", until=overlay.now_ms - 2_000)
    assert overlay.durables("pb.a")["D"].tick > before + (8_000 << 16)
    assert overlay.durables("qb.a")["D"].tick < before + (1_000 << 16)


def client_horizon(client: TestClient, pubend: str, until: int) -> int:
    """The last tick of a pubend that a client was told by a time."""
    names = {name: each for said in client.heard if isinstance(said, f.PubendNames) for each, name in said.names}
    told = [each.tick for each in client.heard if isinstance(each, f.Horizons) and each.pubend == names[pubend]]
    return max(tick for tick in told if tick <= until << 16)


def test_reports_that_were_lost_on_the_way_are_repeated() -> None:
    overlay = overlay_of_two()
    client = durable(overlay, "sb")
    publish(overlay, 1)
    overlay.wait(2_000)
    reached = client_horizon(client, "pb.a", overlay.now_ms)
    overlay.loses = f.Positions
    client.acknowledge("pb.a", reached, 1)
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].tick < reached
    overlay.loses = None
    overlay.wait(15_000)
    assert overlay.durables("pb.a")["D"].tick == reached


# --- forgetting


def test_a_name_that_is_in_use_can_be_forgotten_and_begins_anew() -> None:
    overlay = overlay_of_two()
    owner, other = durable(overlay, "sb"), overlay.client("tb")
    other.say(f.Forget(5, "D"))
    overlay.wait(1_000)
    assert other.all(f.Forgotten) == [f.Forgotten(5)]
    assert owner.refusals() == [("subscribe", 1, TAKEN)]
    assert overlay.durables("pb.a") == overlay.durables("qb.a") == {}
    publish(overlay, 1)
    again = durable(overlay, "sb")
    publish(overlay, 2)
    assert (owner.numbers(), again.numbers()) == ([], [2])


@pytest.mark.parametrize("name", ["D", "", "/", "ü \0", "x" * 200, "durable/pb.a/E"])
def test_a_name_that_nobody_knows_cannot_be_forgotten(name: str) -> None:
    overlay = overlay_of_two()
    durable(overlay, "sb", "E")
    client = overlay.client("tb")
    client.say(f.Forget(5, name))
    overlay.wait(1_000)
    assert client.refusals() == [("forget", 5, f"there is no durable subscription {name!r}")]
    assert list(overlay.durables("pb.a")) == ["E"]


def test_a_pubend_that_cannot_be_reached_is_pending_when_a_name_is_forgotten() -> None:
    overlay = overlay_of_two()
    client = durable(overlay, "sb")
    overlay.cut("hub", "qb")
    overlay.wait(1_000)
    client.say(f.Forget(5, "D"))
    overlay.wait(10_000)
    assert client.all(f.Forgotten) == [f.Forgotten(5, ("qb.a",))]
    overlay.link("hub", "qb")
    overlay.wait(3_000)
    assert (list(overlay.durables("pb.a")), list(overlay.durables("qb.a"))) == ([], ["D"])
    client.say(f.Forget(6, "D"))
    overlay.wait(3_000)
    assert client.all(f.Forgotten)[1:] == [f.Forgotten(6)]
    assert list(overlay.durables("qb.a")) == []


def test_who_has_gone_is_not_told_that_its_name_was_forgotten() -> None:
    overlay = overlay_of_two()
    durable(overlay, "sb")
    client = overlay.client("tb")
    overlay.cut("hub", "qb")
    client.say(f.Forget(5, "D"))
    overlay.leave(client)
    overlay.wait(10_000)
    assert not client.all(f.Forgotten)
    overlay.check_invariants()


# --- hostile words


HOSTILE: list[f.Frame] = [
    f.StreamOpen("nowhere", "sb", 1, 5, "fail"),
    f.StreamOpen("pb.a", "nobody", 1, 5, "fail"),
    f.StreamOpen("pb.a", "hub", 1, 0, "earliest", "", 2**62),
    f.StreamOpen("pb.a", "nobody", 2**62, f.LATEST, "latest", "x" * 200, 2**62),
    f.StreamOpen("pb.a", "pb", 2**62, f.LATEST, "latest", "d/", 0, resumes=True),
    f.StreamOpened("pb.a", "sb", 2**62, 5),
    f.StreamOpened("pb.a", "sb", 1, 2**62, 2**62, 2**62, "why"),
    f.StreamOpened("nowhere", "nobody", 1, 5),
    f.StreamTaken("pb.a", "sb", "E", 2**62),
    f.StreamTaken("nowhere", "nobody", "D", 2**62),
    f.StreamForget("pb.a", "nobody", 1, "E"),
    f.StreamForget("nowhere", "sb", 1, "D"),
    f.StreamForgotten("pb.a", "sb", 2**62, existed=True),
    f.StreamForgotten("nowhere", "nobody", 1, existed=False),
    f.Positions("pb.a", (), (("E", 2**62, 2**62, "nobody"), ("d", 0, 0, "hub"), ("E", 0, 0, "sb"))),
    f.Positions("nowhere", (), (("D", 2**62, 2**62, "sb"),)),
]


@pytest.mark.parametrize("place", ["pb", "hub", "sb"])
@pytest.mark.parametrize("frame", HOSTILE, ids=lambda frame: type(frame).__name__)
def test_hostile_words_of_a_broker_harm_no_name_they_do_not_speak_of(frame: f.Frame, place: str) -> None:
    overlay = overlay_of_two()
    client = durable(overlay, "sb")
    broker = overlay.brokers[place]
    link = broker._connections.links["tb" if place == "hub" else "hub"]
    for _ in range(2):
        overlay._act(place, broker.receive(link.connection, [frame], now_ms=overlay.now_ms))
    overlay.wait(3_000)
    assert client.refusals() == []
    assert owners(overlay) == ["sb", "sb"]
    assert len(overlay.links()) == 4
    publish(overlay, 1)
    assert client.numbers() == [1]
    overlay.check_invariants()


def test_a_client_does_not_speak_as_a_broker() -> None:
    for frame in HOSTILE:
        overlay = overlay_of_two()
        client = overlay.client("sb")
        client.say(frame)
        assert client.closed is not None


def test_a_name_that_was_claimed_with_the_highest_number_of_all_breaks_no_link() -> None:
    overlay = overlay_of_two()
    broker = overlay.brokers["pb"]
    frame = f.StreamOpen("pb.a", "tb", 1, f.LATEST, "fail", "D", 2**62)
    link = broker._connections.links["hub"]
    overlay._act("pb", broker.receive(link.connection, [frame], now_ms=overlay.now_ms))
    durable(overlay, "sb")
    overlay.wait(5_000)
    assert len(overlay.links()) == 4
    overlay.check_invariants()
