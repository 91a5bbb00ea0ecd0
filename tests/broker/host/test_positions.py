"""How far clients are: told in order with their deliveries, acknowledged, kept for a while when they vanish."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000
GRACE_MS = 10_000


def line(*names: str, **settings: object) -> Overlay:
    return chain(*names, guaranteed=True, silent_ms=PATIENT_MS, grace_ms=GRACE_MS, **settings)


def publish(publisher: TestClient, *numbers: int) -> None:
    publisher.publish(*({"number": number} for number in numbers))


def subscriber(overlay: Overlay, selector: str = "", *positions: tuple[str, int], broker: str = "sb") -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, selector, *positions)
    return client


def acknowledge(client: TestClient, tick: int | None = None) -> None:
    client.say(f.Acknowledge(((0, client.horizon() if tick is None else tick),)))


def reported(overlay: Overlay) -> dict[str, int]:
    """What the pubend knows of its hosts."""
    found = overlay.brokers["pb"].status().guaranteed.pubends["pb.a"].hosts
    assert isinstance(found, dict)
    return found


def test_positions_move_with_silence_about_once_a_second() -> None:
    overlay = line("pb", "ib", "sb")
    client = subscriber(overlay)
    overlay.wait(10_500)
    told = [each.tick for each in client.heard if isinstance(each, f.Horizons) and not each.numbers]
    assert told == sorted(set(told))
    assert 9 <= len(told) <= 12
    assert told[-1] > overlay.now_ms - 3_000 << 16


def test_a_horizon_comes_after_all_messages_below_it() -> None:
    overlay = line("pb", "sb")
    client, publisher = subscriber(overlay), overlay.client("pb")
    for number in range(30):
        publish(publisher, number)
        overlay.wait(170)
    reached = 0
    for frame in client.heard:
        if isinstance(frame, f.Horizons) and not frame.numbers:
            reached = frame.tick
        elif isinstance(frame, f.Deliver):
            assert frame.ticks[0] >= reached
    assert reached > 0


def test_who_is_being_caught_up_is_told_of_its_own_stream_and_left_out_of_the_shared_one() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb")
    client = subscriber(overlay, "number = 1")
    publish(publisher, 1, 2)
    overlay.wait(5_000)
    overlay.clog("pb", "sb")
    client.subscribe(2, "number = 2", ("pb.a", overlay.disks["pb"].ticks("pb.a")[0]))
    heard = len(client.heard)
    overlay.wait(1_500)
    second = (2).to_bytes(4)
    told = [each for each in client.heard[heard:] if isinstance(each, f.Horizons)]
    assert all(second in (each.numbers[:4], each.numbers[4:]) for each in told)
    assert [each.is_only for each in told if each.is_only]
    overlay.unclog("pb", "sb")
    overlay.wait(3_000)
    last = client.all(f.Horizons)[-1]
    assert isinstance(last, f.Horizons)
    assert (last.numbers, last.is_only) == (b"", False)
    assert client.numbers() == [1, 2]


def test_what_clients_acknowledge_reaches_the_pubend() -> None:
    overlay = line("pb", "ib", "sb")
    one, other = subscriber(overlay), subscriber(overlay, broker="ib")
    overlay.wait(GRACE_MS + 1_000)
    expected = {"sb": one.horizon(), "ib": other.horizon()}
    acknowledge(one)
    acknowledge(other)
    overlay.wait(3_000)
    assert reported(overlay) == expected


def test_a_host_is_as_far_as_its_slowest_client() -> None:
    overlay = line("pb", "sb")
    one, other = subscriber(overlay), subscriber(overlay)
    overlay.wait(GRACE_MS + 1_000)
    acknowledge(one)
    start = other.start_of("pb.a")
    overlay.wait(2_000)
    assert reported(overlay)["sb"] == start
    tick = other.horizon()
    acknowledge(other)
    acknowledge(one)
    overlay.wait(2_000)
    assert reported(overlay)["sb"] == tick


def test_acknowledgements_of_unknown_pubends_or_beyond_the_end_are_harmless() -> None:
    overlay = line("pb", "sb")
    client = subscriber(overlay)
    overlay.wait(2_000)
    client.say(f.Acknowledge(((0, 2**62), (7, 5), (65_536, 2**62))))
    overlay.wait(2_000)
    assert client.closed is None
    assert reported(overlay)["sb"] <= overlay.now_ms << 16
    overlay.check_invariants()


def test_an_acknowledgement_of_who_never_subscribed_is_harmless() -> None:
    overlay = line("pb", "sb")
    client = overlay.client("sb")
    client.say(f.Acknowledge(((0, 5),)))
    assert client.closed is None


def test_a_client_that_vanished_holds_its_position_for_a_grace_period() -> None:
    overlay = line("pb", "sb", retain_ms=0)
    stays, goes = subscriber(overlay), subscriber(overlay)
    publisher = overlay.client("pb")
    overlay.wait(GRACE_MS + 2_000)
    acknowledge(goes)
    held = goes.horizon()
    overlay.leave(goes)
    publish(publisher, 1, 2, 3)
    for _ in range(GRACE_MS // 1_000 - 1):
        overlay.wait(1_000)
        acknowledge(stays)
    assert reported(overlay)["sb"] == held
    assert len(overlay.disks["pb"].ticks("pb.a")) == 3
    back = overlay.client("sb")
    back.subscribe(1, "", ("pb.a", held), resumes=True)
    overlay.wait(2_000)
    assert back.numbers() == [1, 2, 3]
    assert not back.all(f.Lost)
    overlay.leave(back)
    for _ in range(GRACE_MS // 1_000 + 4):
        overlay.wait(1_000)
        acknowledge(stays)
    assert reported(overlay)["sb"] > held
    assert overlay.disks["pb"].ticks("pb.a") == []


def vanished(overlay: Overlay, stays: TestClient, publisher: bytes) -> int:
    """A client with two subscriptions comes and vanishes, while another stays; the position that is kept for it."""
    client = overlay.client("sb", publisher=publisher)
    client.subscribe(1, "number < 0")
    client.subscribe(2, "number > 0")
    overlay.wait(GRACE_MS + 2_000)
    acknowledge(client)
    held = client.horizon()
    overlay.leave(client)
    overlay.wait(2_000)
    acknowledge(stays)
    overlay.wait(2_000)
    assert reported(overlay)["sb"] == held
    return held


def test_a_client_that_came_back_holds_what_it_has_not_and_no_more() -> None:
    overlay = line("pb", "sb", retain_ms=0)
    stays, publisher = subscriber(overlay), overlay.client("pb")
    held = vanished(overlay, stays, b"recognised")
    publish(publisher, 1, 2, 3)
    back = overlay.client("sb", publisher=b"recognised")
    back.subscribe(1, "number < 0", ("pb.a", held), resumes=True)
    back.subscribe(2, "number > 0", ("pb.a", held), resumes=True)
    overlay.wait(2_000)
    acknowledge(stays)
    overlay.wait(2_000)
    # It has come back, but has not said yet that it has got anything.
    assert reported(overlay)["sb"] == held
    assert back.numbers() == [1, 2, 3]
    acknowledge(back)
    overlay.wait(2_000)
    assert reported(overlay)["sb"] > held
    assert overlay.disks["pb"].ticks("pb.a") == []
    assert not back.all(f.Lost)


@pytest.mark.parametrize(
    ("publisher", "numbers", "resumes"),
    [
        pytest.param(b"recognised", (2,), True, id="with one of two subscriptions"),
        pytest.param(b"recognised", (1, 2), False, id="as if it had never been here"),
        pytest.param(b"somebody else", (1, 2), True, id="as somebody else"),
        pytest.param(b"", (1, 2), True, id="without saying who it is"),
    ],
)
def test_who_may_not_have_come_back_is_waited_for(publisher: bytes, numbers: tuple[int, ...], resumes: bool) -> None:
    overlay = line("pb", "sb", retain_ms=0)
    stays = subscriber(overlay)
    held = vanished(overlay, stays, b"recognised" if publisher else b"")
    back = overlay.client("sb", publisher=publisher)
    for number in numbers:
        back.subscribe(number, "", ("pb.a", stays.horizon()), resumes=resumes)
    for _ in range(3):
        overlay.wait(1_000)
        acknowledge(stays)
        acknowledge(back)
    assert reported(overlay)["sb"] == held
    for _ in range(GRACE_MS // 1_000):
        overlay.wait(1_000)
        acknowledge(stays)
        acknowledge(back)
    assert reported(overlay)["sb"] > held
    assert not overlay.brokers["sb"]._guaranteed.positions._recognised


def test_a_pubend_of_which_who_came_back_said_nothing_is_waited_for() -> None:
    overlay = line("pb", "sb", retain_ms=0)
    stays = subscriber(overlay)
    held = vanished(overlay, stays, b"recognised")
    back = overlay.client("sb", publisher=b"recognised")
    back.say(f.Subscribe(1, "", resumes=True), f.Subscribe(2, "", resumes=True))
    overlay.wait(2_000)
    acknowledge(stays)
    acknowledge(back)
    overlay.wait(2_000)
    assert reported(overlay)["sb"] == held


def test_the_last_client_of_a_host_is_waited_for_too() -> None:
    overlay = line("pb", "ib", "sb", retain_ms=0)
    client, publisher = subscriber(overlay), overlay.client("pb")
    overlay.wait(GRACE_MS + 2_000)
    acknowledge(client)
    overlay.wait(3_000)
    held = client.horizon()
    overlay.leave(client)
    publish(publisher, 1, 2)
    overlay.wait(GRACE_MS - 4_000)
    back = overlay.client("sb")
    back.subscribe(1, "", ("pb.a", held), resumes=True)
    overlay.wait(3_000)
    assert back.numbers() == [1, 2]
    assert not back.all(f.Lost)


def test_positions_of_an_unknown_pubend_or_beyond_the_end_are_harmless() -> None:
    overlay = line("pb", "sb")
    broker = overlay.brokers["pb"]
    link = broker._connections.links["sb"].connection
    frames: list[f.Frame] = [f.Positions("nowhere", (("sb", 5, True),)), f.Positions("pb.a", (("sb", 2**62, True),))]
    overlay._act("pb", broker.receive(link, frames, now_ms=overlay.now_ms))
    overlay.wait(2_000)
    assert reported(overlay)["sb"] <= overlay.now_ms << 16
    overlay.check_invariants()


def test_what_everybody_has_is_trimmed_in_the_end() -> None:
    overlay = line("pb", "ib", "sb", retain_ms=0)
    client, publisher = subscriber(overlay), overlay.client("pb")
    publish(publisher, 1, 2)
    for _ in range(GRACE_MS // 1_000 + 4):
        overlay.wait(1_000)
        acknowledge(client)
    assert overlay.disks["pb"].ticks("pb.a") == []
    publish(publisher, 3)
    overlay.wait(2_500)
    assert len(overlay.disks["pb"].ticks("pb.a")) == 1
    for _ in range(4):
        acknowledge(client)
        overlay.wait(1_000)
    assert overlay.disks["pb"].ticks("pb.a") == []
    assert client.numbers() == [1, 2, 3]


@pytest.mark.parametrize("name", ["", "D"])
def test_nobody_has_acknowledged_what_its_host_has_not_sent(name: str) -> None:
    """The pubend is further on, so it would believe it: its host must not."""
    overlay = line("pb", "sb")
    client, publisher = overlay.client("sb"), overlay.client("pb")
    if name:
        client.durable(1, name)
    else:
        client.subscribe(1, "")
    overlay.wait(GRACE_MS + 1_000)
    sent = client.horizon()
    overlay.clog("pb", "sb")
    publish(publisher, 1, 2, 3)
    overlay.wait(2_000)
    client.acknowledge("pb.a", sent + (3_000 << 16), 1 if name else -1)
    overlay.wait(2_000)
    assert (overlay.durables("pb.a")[name].tick if name else reported(overlay)["sb"]) <= sent
    # Nor does it count once the host has sent it: the client does not have it yet.
    overlay.unclog("pb", "sb")
    overlay.wait(2_000)
    assert client.numbers() == [1, 2, 3]
    assert (overlay.durables("pb.a")[name].tick if name else reported(overlay)["sb"]) <= sent


def held_for(overlay: Overlay, client: TestClient) -> dict[str, int]:
    guest = overlay.brokers[client.broker].connections.peers[client.connection].guest
    assert guest is not None
    return guest.acknowledged


def test_what_a_client_has_acknowledged_stays_so_when_another_pubend_comes_into_reach() -> None:
    """It would not say it again before the stream moves on, which may wait for just that."""
    overlay = star("pb", "qb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, grace_ms=GRACE_MS)
    overlay.cut("hub", "qb")
    client = subscriber(overlay, broker="hub")
    overlay.wait(3_000)
    overlay.syncs = False
    publish(overlay.client("pb"), 1)
    overlay.wait(3_000)
    client.acknowledge("pb.a", client.horizon())
    acknowledged = dict(held_for(overlay, client))
    overlay.link("hub", "qb")
    overlay.wait(5_000)
    held = held_for(overlay, client)
    assert (sorted(held), held["pb.a"]) == (["pb.a", "qb.a"], acknowledged["pb.a"])
    assert acknowledged["pb.a"] > client.start_of("pb.a")


def invented(turn: int) -> list[tuple[str, int]]:
    return [(f"invented-{turn}-{number}", 5) for number in range(10)]


def test_what_is_held_for_pubends_that_nobody_knows_ends_with_the_subscription() -> None:
    overlay = line("pb")
    client = subscriber(overlay, broker="pb")
    client.subscribe(2, "", *invented(0), ("pb.a", 1 << 36), resumes=True)
    for turn in range(1, 6):
        client.subscribe(turn + 2, "", *invented(turn), *invented(0)[:1], resumes=True)
        client.say(f.Unsubscribe(turn + 2))
    assert held_for(overlay, client).keys() == {"pb.a", *dict(invented(0))}
    client.say(f.Unsubscribe(2))
    assert held_for(overlay, client).keys() == {"pb.a"}


def test_a_client_that_vanishes_again_and_again_keeps_no_positions_of_pubends_that_do_not_exist() -> None:
    overlay = line("pb", client_positions_max=10)
    positions = overlay.brokers["pb"]._guaranteed.positions
    for turn in range(5):
        client = overlay.client("pb", "feed")
        client.subscribe(1, "", *invented(turn), resumes=True)
        assert client.refusals() == []
        overlay.leave(client)
    assert [each.positions.keys() for each in positions._ghosts] == [{"pb.a"}] * 5


def test_positions_of_pubends_that_may_exist_are_kept_and_count_for_the_client_until_they_are_forgotten() -> None:
    overlay = line("pb", "sb", client_positions_max=25)
    overlay.cut("pb", "sb")
    broker = overlay.brokers["sb"]
    clients = [overlay.client("sb", "feed") for _ in range(3)]
    for turn, client in enumerate(clients[:2]):
        client.subscribe(1, "", *invented(turn), resumes=True)
        overlay.leave(client)
    assert sum(len(each.positions) for each in broker._guaranteed.positions._ghosts) >= 20
    clients[2].subscribe(1, "", *invented(2), resumes=True)
    assert "states more than 25 positions" in clients[2].refusals()[0][2]
    overlay.wait(GRACE_MS + 2_000)
    clients[2].subscribe(2, "", *invented(2), resumes=True)
    assert len(clients[2].refusals()) == 1


def test_a_name_has_no_more_clients_that_vanished_than_it_may_have_connections() -> None:
    overlay = line("pb", client_connections_max=3)
    broker = overlay.brokers["pb"]
    for name in ("feed", "feed", "other", "feed", "feed", "feed"):
        client = overlay.client("pb", name)
        client.subscribe(1, "")
        overlay.wait(100)
        overlay.leave(client)
    names = [each.account.client for each in broker._guaranteed.positions._ghosts]
    assert names == ["other", "feed", "feed", "feed"]
    overlay.wait(GRACE_MS + 3_000)
    subscriber(overlay, broker="pb")
    overlay.wait(2_000)
    assert len(broker.rooms.accounts) == 1
