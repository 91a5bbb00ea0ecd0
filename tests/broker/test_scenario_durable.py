"""Durable subscribers that are away: their positions hold the log, and they get what they had not acknowledged."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.broker import Access, Rule
from penstock.protocol import frames as f
from penstock.selectors import Selector
from penstock.sim.world import World

PATIENT_MS = 1_000_000_000
LONG_MS = 300_000
"""More than anybody waits for anybody who is not durable."""


def line(**settings: object) -> Overlay:
    """A pubend that keeps nothing for its own sake, and hosts at two distances."""
    settings = {"retain_ms": 0, "grace_ms": 5_000} | settings
    overlay = chain("pb", "ib", "sb", "tb", guaranteed=True, silent_ms=PATIENT_MS, **settings)
    overlay.wait(10_000)
    return overlay


def durable(overlay: Overlay, broker: str = "sb", name: str = "D", selector: str = "", **wishes: object) -> TestClient:
    client = overlay.client(broker)
    client.durable(1, name, selector, **wishes)
    overlay.wait(2_000)
    return client


def publish(overlay: Overlay, *numbers: int, broker: str = "pb") -> None:
    publisher = overlay.client(broker)
    for number in numbers:
        publisher.publish({"number": number})
        overlay.wait(20)


def ticks(overlay: Overlay) -> list[int]:
    return overlay.disks["pb"].ticks("pb.a")


def vanish_after(overlay: Overlay, client: TestClient, number: int) -> None:
    """The client has everything up to a message, and is gone when the pubend knows that."""
    came = [tick for each in client.heard if isinstance(each, f.Deliver) for tick in each.ticks]
    last = dict(zip(client.numbers(), came, strict=True))[number]
    client.acknowledge("pb.a", last + 1, 1)
    overlay.wait(2_500)
    overlay.leave(client)


# --- absence


@pytest.mark.parametrize("place", ["sb", "tb", "ib", "pb"])
def test_who_returns_anywhere_gets_what_it_had_not_acknowledged_in_order(place: str) -> None:
    overlay = line()
    first = durable(overlay)
    publish(overlay, *range(6))
    vanish_after(overlay, first, 3)
    publish(overlay, *range(6, 9))
    overlay.wait(LONG_MS)
    publish(overlay, 9)
    second = durable(overlay, place)
    publish(overlay, 10)
    overlay.wait(3_000)
    assert second.numbers() == [4, 5, 6, 7, 8, 9, 10]
    assert not second.all(f.Lost)
    assert second.refusals() == []
    overlay.check_invariants()


def test_who_returns_is_caught_up_while_live_traffic_goes_on() -> None:
    overlay = line(cache_bytes=500)
    first, steady = durable(overlay), durable(overlay, "tb", "steady")
    publish(overlay, *range(5))
    overlay.leave(first)
    publish(overlay, *range(5, 100))
    second = overlay.client("tb")
    second.durable(1, "D")
    for number in range(100, 200):
        publish(overlay, number)
    overlay.wait(10_000)
    assert second.numbers() == list(range(200))
    assert steady.numbers() == list(range(200))
    counts = overlay.brokers["tb"].status().counts
    assert isinstance(counts, dict)
    assert counts["catch_ups_met"] >= 1
    overlay.check_invariants()


def test_nothing_acknowledged_comes_again_over_many_absences() -> None:
    overlay = line()
    got: list[object] = []
    durable(overlay)
    for life, place in enumerate(["sb", "tb", "pb", "sb", "ib"]):
        publish(overlay, *range(4 * life, 4 * life + 4))
        client = durable(overlay, place)
        overlay.wait(3_000)
        got += client.numbers()
        vanish_after(overlay, client, 4 * life + 3)
    assert got == list(range(20))


def test_unsubscribing_keeps_the_position() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, 0, 1, 2)
    client.acknowledge("pb.a", ticks(overlay)[0] + 1, 1)
    client.say(f.Unsubscribe(1))
    publish(overlay, 3)
    overlay.wait(LONG_MS)
    client.durable(1, "D")
    overlay.wait(3_000)
    assert client.numbers() == [0, 1, 2, 1, 2, 3]


def test_a_new_selector_applies_from_the_position_on() -> None:
    overlay = line()
    first = durable(overlay, selector="number >= 0")
    publish(overlay, 0, 1, 2, 3)
    vanish_after(overlay, first, 1)
    publish(overlay, 4, 5, 6)
    second = durable(overlay, "tb", selector="number = 3 or number > 5 or number < 2")
    publish(overlay, 7)
    overlay.wait(2_000)
    assert second.numbers() == [3, 6, 7]


# --- what is kept


def test_an_absent_one_holds_the_log_for_any_time_and_forgetting_frees_it() -> None:
    overlay = line()
    first = durable(overlay)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    vanish_after(overlay, first, 1)
    overlay.wait(LONG_MS)
    assert ticks(overlay) == kept[2:]
    other = overlay.client("tb")
    other.say(f.Forget(1, "D"))
    overlay.wait(LONG_MS)
    assert other.all(f.Forgotten) == [f.Forgotten(1)]
    assert ticks(overlay) == []


def test_what_was_acknowledged_goes_while_its_owner_is_there() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    overlay.wait(20_000)
    assert ticks(overlay) == kept
    client.acknowledge("pb.a", kept[3], 1)
    overlay.wait(5_000)
    assert ticks(overlay) == kept[3:]


def test_two_of_one_client_are_kept_apart() -> None:
    overlay = line()
    client = durable(overlay)
    client.durable(2, "E", "number > 2")
    overlay.wait(2_000)
    publish(overlay, *range(6))
    client.acknowledge("pb.a", ticks(overlay)[4], 1)
    client.acknowledge("pb.a", ticks(overlay)[3], 2)
    overlay.wait(2_500)
    overlay.leave(client)
    overlay.wait(LONG_MS)
    assert durable(overlay, "tb").numbers() == [4, 5]
    assert durable(overlay, "tb", "E").numbers() == [3, 4, 5]


def test_a_durable_one_and_a_plain_one_of_a_client_do_not_speak_for_each_other() -> None:
    overlay = line()
    client = durable(overlay)
    client.subscribe(2, "")
    overlay.wait(2_000)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    client.acknowledge("pb.a", kept[5])
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].tick < kept[0]
    assert ticks(overlay) == kept
    client.acknowledge("pb.a", kept[4], 1)
    overlay.wait(3_000)
    assert ticks(overlay) == kept[4:]
    client.acknowledge("pb.a", kept[5], 1)
    client.acknowledge("pb.a", kept[2])
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].tick == kept[5]


def test_a_plain_one_that_was_withdrawn_does_not_hold_the_log_any_more() -> None:
    overlay = line()
    client = durable(overlay)
    client.subscribe(2, "")
    overlay.wait(2_000)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    client.acknowledge("pb.a", kept[1])
    client.say(f.Unsubscribe(2))
    client.acknowledge("pb.a", kept[5], 1)
    overlay.wait(LONG_MS)
    assert ticks(overlay) == kept[5:]


def test_who_has_only_durable_ones_leaves_nothing_behind_but_their_positions() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    vanish_after(overlay, client, 4)
    overlay.wait(2_000)
    assert ticks(overlay) == kept[5:]


# --- crashes


@pytest.mark.parametrize("crashed", [("pb",), ("sb",), ("ib",), ("pb", "sb"), ("pb", "ib", "sb", "tb")])
def test_names_and_positions_survive_crashes(crashed: tuple[str, ...]) -> None:
    overlay = line()
    links = overlay.links()
    first = durable(overlay)
    publish(overlay, *range(6))
    vanish_after(overlay, first, 2)
    for name in crashed:
        overlay.crash(name)
    overlay.wait(10)
    for name in crashed:
        overlay.start(name)
    for pair in links:
        if pair not in overlay.links():
            overlay.link(*pair)
    overlay.wait(LONG_MS)
    assert durable(overlay, "tb").numbers() == [3, 4, 5]


def test_a_claim_that_was_not_durable_is_made_again_after_a_crash_of_the_pubend() -> None:
    overlay = line()
    overlay.syncs = False
    client = overlay.client("sb")
    client.durable(1, "D")
    overlay.wait(300)
    assert not [each for each in client.heard if isinstance(each, f.Subscribed) and each.starts]
    overlay.crash("pb")
    overlay.syncs = True
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(5_000)
    assert client.start_of("pb.a") == overlay.durables("pb.a")["D"].tick
    publish(overlay, 1)
    assert client.numbers() == [1]


def test_an_owner_goes_on_through_a_crash_of_the_pubend() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, 0, 1)
    overlay.crash("pb")
    overlay.wait(1_000)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(5_000)
    publish(overlay, 2)
    overlay.wait(20_000)
    assert client.numbers() == [0, 1, 2]
    assert client.refusals() == []
    client.acknowledge("pb.a", ticks(overlay)[1], 1)
    overlay.wait(3_000)
    assert durable(overlay, "tb").numbers() == [1, 2]


def test_who_comes_back_to_a_damaged_position_is_told_and_the_others_go_on() -> None:
    overlay = line()
    first, second = durable(overlay), durable(overlay, "sb", "E")
    publish(overlay, 0, 1)
    overlay.leave(first)
    overlay.leave(second)
    overlay.crash("pb")
    overlay.disks["pb"]._values["durable/pb.a/D"] = b"\xc1"
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(3_000)
    again, other = durable(overlay), durable(overlay, "tb", "E")
    publish(overlay, 2)
    overlay.wait(1_000)
    assert again.numbers() == []
    ((_, _, reason),) = again.refusals()
    assert "is damaged on its disk" in reason
    assert other.numbers() == [0, 1, 2]
    # The name still holds the log, and whoever accepts repetitions gets everything in it.
    third = overlay.client("tb")
    third.durable(1, "D", missing="earliest")
    overlay.wait(1_000)
    assert third.numbers() == [0, 1, 2]


def test_a_client_that_stays_goes_on_though_the_stored_position_is_damaged() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, 0, 1)
    overlay.crash("pb")
    overlay.disks["pb"]._values["durable/pb.a/D"] = b""
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(3_000)
    client.acknowledge("pb.a", ticks(overlay)[1], 1)
    publish(overlay, 2)
    overlay.wait(20_000)
    assert client.numbers() == [0, 1, 2]
    assert client.refusals() == []
    overlay.leave(client)
    overlay.wait(3_000)
    assert durable(overlay, "tb").numbers() == [1, 2]


# --- pubends that come later


def test_a_pubend_that_cannot_be_reached_goes_on_at_the_right_place_when_it_can() -> None:
    overlay = star("pb", "qb", "sb", "tb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, retain_ms=0, grace_ms=5_000)
    overlay.wait(3_000)
    first = durable(overlay)
    publish(overlay, 1, 2)
    publish(overlay, 11, 12, broker="qb")
    overlay.leave(first)
    overlay.cut("hub", "qb")
    publish(overlay, 3)
    publish(overlay, 13, broker="qb")
    second = durable(overlay, "tb")
    overlay.wait(20_000)
    assert second.numbers() == [1, 2, 3]
    assert [each.pending for each in second.heard if isinstance(each, f.Subscribed)][-1] == ("qb.a",)
    overlay.link("hub", "qb")
    overlay.wait(5_000)
    assert second.numbers() == [1, 2, 3, 11, 12, 13]
    assert [each.pending for each in second.heard if isinstance(each, f.Subscribed)][-1] == ()
    overlay.check_invariants()


# --- single messages


@pytest.mark.parametrize("place", ["sb", "tb", "ib", "pb"])
def test_single_messages_are_kept_and_named_to_whoever_comes_next_before_any_comes(place: str) -> None:
    overlay = line()
    first = durable(overlay, place)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    first.settle("pb.a", kept[1], kept[4], kept[2])
    overlay.wait(200)
    assert first.settled() == [(kept[1], (kept[4], kept[2]))]
    overlay.leave(first)
    overlay.crash("pb")
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.wait(20_000)
    assert ticks(overlay) == kept[1:], "its position holds the log"
    second = durable(overlay, "tb")
    assert second.numbers() == [1, 2, 3, 4, 5], "brokers deliver them, and the session drops them"
    assert second.settled() == [(0, (kept[2], kept[4]))]
    heard = [each for each in second.heard if isinstance(each, f.Settled | f.Deliver | f.Horizons)]
    assert isinstance(heard[0], f.Settled), "in order with its deliveries"
    second.settle("pb.a", kept[3])
    overlay.wait(200)
    assert second.settled()[1:] == [(kept[3], ())]
    assert overlay.durables("pb.a")["D"].settled == 1


def test_who_has_lost_the_name_settles_nothing() -> None:
    overlay = line()
    first = durable(overlay)
    publish(overlay, *range(4))
    kept = ticks(overlay)
    overlay.clog("ib", "sb")
    second = durable(overlay, "ib")
    first.settle("pb.a", kept[1], kept[2])
    overlay.wait(5_000)
    overlay.unclog("ib", "sb")
    overlay.wait(5_000)
    assert first.settled() == []
    assert first.refusals()[0][:2] == ("subscribe", 1)
    assert overlay.durables("pb.a")["D"].settled == 0
    assert second.numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [2, 3, 2**40, -1, -5])
def test_single_messages_of_what_is_not_durable_or_unknown_are_not_kept(number: int) -> None:
    overlay = line()
    client = durable(overlay)
    client.subscribe(2, "")
    overlay.wait(2_000)
    publish(overlay, *range(3))
    before = overlay.durables("pb.a")
    client.settle("pb.a", 2**62, *ticks(overlay), number=number)
    client.say(f.Settle(1, 999, 5, (5,)))
    overlay.wait(15_000)
    assert overlay.durables("pb.a") == before
    assert client.settled(number) == []
    assert client.closed is None


def test_what_a_client_says_in_one_turn_is_one_frame_and_no_more_than_it_holds() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    numbers = {name: each for said in client.heard if isinstance(said, f.PubendNames) for each, name in said.names}
    pubend = numbers["pb.a"]
    many = [f.Settle(1, pubend, kept[1], tuple(range(kept[1] + 1, kept[1] + 900)))] * 2
    client.say(f.Settle(1, pubend, kept[0], (kept[4],)), f.Settle(1, pubend, kept[1], (kept[2],)), *many)
    client.say(f.Settle(1, pubend, kept[1], tuple(range(kept[2] + 1, kept[2] + 900))))
    overlay.wait(500)
    (first, second) = client.settled()
    assert (first[0], first[1][:2], len(first[1])) == (kept[1], (kept[4], kept[2]), 901)
    assert len(second[1]) == 99, "there is no room for more"
    assert overlay.durables("pb.a")["D"].settled == 1_000


def test_what_is_said_just_before_the_end_counts_before_anybody_else_claims_the_name() -> None:
    overlay = line()
    # With somebody who wants the same, the name is claimed in the turn in which it is asked for.
    durable(overlay, name="E")
    client = durable(overlay)
    publish(overlay, *range(6))
    kept = ticks(overlay)
    numbers = {name: each for said in client.heard if isinstance(said, f.PubendNames) for each, name in said.names}
    settle = f.Settle(1, numbers["pb.a"], kept[1], (kept[3],))
    client.say(settle, f.Unsubscribe(1), f.Subscribe(2, "", durable="D"))
    overlay.wait(2_000)
    assert client.settled(2) == [(0, (kept[3],))]


def test_an_answer_for_a_subscription_that_has_ended_is_told_to_nobody_else() -> None:
    overlay = line()
    client = durable(overlay)
    (hosted,) = overlay.brokers["sb"]._guaranteed.edges.durables.values()
    ours = ("D", hosted.ownership)
    for key in range(10):
        for owner in (("E", hosted.ownership), ("D", hosted.ownership + 1)):
            overlay.lie("sb", "ib", f.StreamSettled("pb.a", "sb", key, *owner, 5, (5,)))
        overlay.lie("sb", "ib", f.StreamSettled("pb.b", "sb", key, *ours, 5, (5,)))
    assert client.settled() == []
    for key in range(10):
        overlay.lie("sb", "ib", f.StreamSettled("pb.a", "sb", key, *ours, 5, (7,)))
    assert client.settled() == [(5, (7,))]


def test_nobody_settles_what_its_host_has_not_sent() -> None:
    overlay = line()
    client = durable(overlay)
    publish(overlay, *range(3))
    kept = ticks(overlay)
    overlay.clog("ib", "sb")
    publish(overlay, 3, 4)
    overlay.wait(100)
    client.settle("pb.a", kept[0], kept[1], *ticks(overlay)[3:], 2**62)
    overlay.unclog("ib", "sb")
    overlay.wait(3_000)
    assert overlay.durables("pb.a")["D"].settled == 1
    assert client.settled()[-1] == (kept[0], (kept[1],))
    assert client.numbers() == [0, 1, 2, 3, 4]


# --- odd acknowledgements


@pytest.mark.parametrize("number", [2, 3, 2**40, -5])
def test_acknowledgements_of_what_is_not_durable_or_unknown_move_no_name(number: int) -> None:
    overlay = line()
    client = durable(overlay)
    client.subscribe(2, "")
    overlay.wait(2_000)
    publish(overlay, *range(3))
    before = overlay.durables("pb.a")
    client.acknowledge("pb.a", 2**62, number)
    client.say(f.Acknowledge(((999, 5), (0, 0)), 1))
    overlay.wait(15_000)
    assert overlay.durables("pb.a") == before
    assert client.closed is None


def test_nobody_acknowledges_what_was_not_published() -> None:
    overlay = line()
    client = durable(overlay)
    client.acknowledge("pb.a", 2**62, 1)
    overlay.wait(2_000)
    overlay.leave(client)
    overlay.wait(5_000)
    publish(overlay, 1, 2)
    assert durable(overlay, "tb").numbers() == [1, 2]


def test_what_was_sent_and_is_not_acknowledged_is_pending() -> None:
    overlay = line()
    client, other = durable(overlay), durable(overlay, name="E", selector="number > 2")
    publish(overlay, *range(5))
    overlay.wait(1_000)
    status = overlay.brokers["sb"].status().guaranteed.durables
    assert status == {"D": {"pb.a": 5}, "E": {"pb.a": 2}}
    came = [tick for each in client.heard if isinstance(each, f.Deliver) for tick in each.ticks]
    client.acknowledge("pb.a", came[3] + 1, 1)
    assert overlay.brokers["sb"].status().guaranteed.durables == {"E": {"pb.a": 2}, "D": {"pb.a": 1}}
    overlay.leave(other)
    assert overlay.brokers["sb"].status().guaranteed.durables == {"D": {"pb.a": 1}}


def test_a_full_store_gets_room_by_a_durable_subscription_that_comes_back_meanwhile() -> None:
    """The claim is a commit behind the messages that wait for space, and only its owner can make room for them."""
    world = World(1)
    world.add_overlay([("b1", "b2")], guaranteed=True, settings={"retain_ms": 0, "grace_ms": 2_000})
    publisher, reader = world.add_client("pub", "b1"), world.add_client("reader", "b2")
    reader.subscribe("", durable="D")
    assert world.run_until_ready()
    reader.die(loud=True)
    world.withdraw("reader")
    world.run_for(5_000)
    device = world.broker("b1").device
    device.capacity_bytes = device.disk.size_bytes + 2_000
    for number in range(20):
        publisher.publish({"n": number}, bytes(300))
    world.run_for(5_000)
    assert "no space left" in publisher.held_back
    world.place("reader", "b2")
    reader.subscribe("", durable="D")
    assert world.run_until(lambda: publisher.acknowledged == 20, limit_ms=120_000)
    world.run_for(3_000)
    assert [each.attributes["n"] for each in reader.deliveries] == list(range(20))


# --- whose they are

WORD = "token"
RULES = (Rule("ops-%", durable="reports/%"), Rule("%", subscribe=Selector.parse("number < 0")))
PROVED = Access(dict.fromkeys(("alice", "mallory", "ops-1", "ops-2"), WORD), (Rule("alice"), *RULES))


def proved(**settings: object) -> Overlay:
    return line(access=PROVED, **settings)


def named(overlay: Overlay, client: str, broker: str = "sb", name: str = "D") -> TestClient:
    made = overlay.client(broker, client, token=WORD)
    made.durable(1, name)
    overlay.wait(2_000)
    return made


def test_nobody_takes_over_what_another_client_made_and_nothing_of_it_is_lost() -> None:
    overlay = proved()
    alice = named(overlay, "alice")
    for number in range(4):
        overlay.client("pb", "alice", token=WORD).publish({"number": number})
        overlay.wait(20)
    vanish_after(overlay, alice, 1)
    mallory = overlay.client("tb", "mallory", token=WORD)
    mallory.durable(1, "D")
    overlay.wait(5_000)
    assert mallory.refusals() == [("subscribe", 1, "durable subscription 'D' belongs to another client")]
    mallory.say(f.Forget(9, "D"))
    overlay.wait(5_000)
    assert mallory.refusals()[1:] == [("forget", 9, "durable subscription 'D' belongs to another client")]
    overlay.wait(LONG_MS)
    again = named(overlay, "alice", "ib")
    assert again.numbers() == [2, 3]


def test_what_is_acknowledged_before_the_pubend_has_answered_does_not_count() -> None:
    overlay = proved()
    alice = named(overlay, "alice")
    overlay.client("tb", "alice", token=WORD).subscribe(1, "")
    publisher = overlay.client("pb", "alice", token=WORD)
    publisher.publish({"number": 1}, {"number": 2})
    overlay.wait(3_000)
    before = overlay.durables("pb.a")["D"].tick
    overlay.leave(alice)
    overlay.delay("tb", "sb")
    mallory = overlay.client("tb", "mallory", token=WORD)
    mallory.durable(1, "D")
    mallory.acknowledge("pb.a", ticks(overlay)[-1] + 1, 1)
    overlay.wait(5_000)
    mallory.say(f.Unsubscribe(1))
    overlay.undelay("tb", "sb")
    overlay.wait(5_000)
    assert overlay.durables("pb.a")["D"].tick == before


def test_who_uses_it_is_not_disturbed_by_who_may_not() -> None:
    overlay = proved()
    alice = named(overlay, "alice")
    named(overlay, "mallory", "sb")
    named(overlay, "mallory", "tb")
    overlay.client("pb", "alice", token=WORD).publish({"number": 1})
    overlay.wait(1_000)
    assert (alice.numbers(), alice.refusals()) == ([1], [])


def test_a_rule_lets_clients_share_names() -> None:
    overlay = proved()
    first = named(overlay, "ops-1", name="reports/daily")
    second = named(overlay, "ops-2", "tb", name="reports/daily")
    assert first.refusals() == [("subscribe", 1, "durable subscription 'reports/daily' was taken over or forgotten")]
    assert second.refusals() == []
    assert named(overlay, "alice", name="reports/daily").refusals() != []
    second.say(f.Forget(2, "reports/daily"))
    overlay.wait(2_000)
    assert second.all(f.Forgotten) == [f.Forgotten(2)]


# --- acknowledgements at awkward moments


def positions_known(overlay: Overlay, pubend: str = "pb.a") -> dict[str, int]:
    return {name: each.tick for name, each in overlay.durables(pubend).items()}


def test_what_is_acknowledged_before_the_pubend_has_given_the_name_counts_when_it_has() -> None:
    overlay = line()
    first = durable(overlay)
    publish(overlay, 0, 1, 2)
    overlay.leave(first)
    overlay.wait(2_500)
    behind = ticks(overlay)[2] + 1
    overlay.delay("ib", "pb")
    second = overlay.client("sb")
    second.durable(1, "D", positions=(("pb.a", behind),), resumes=True)
    second.acknowledge("pb.a", behind, 1)
    assert positions_known(overlay)["D"] < behind
    overlay.undelay("ib", "pb")
    overlay.wait(3_000)
    assert positions_known(overlay)["D"] == behind


@pytest.mark.parametrize("is_early", [True, False])
def test_what_came_by_another_host_can_be_acknowledged_at_one_that_has_not_heard_of_it_yet(is_early: bool) -> None:
    """The client will not say it again: the next owner of the name would get it once more."""
    overlay = line()
    durable(overlay, "sb", "E")
    first = durable(overlay, "ib")
    overlay.clog("ib", "sb")
    publish(overlay, 0, 1, 2)
    assert first.numbers() == [0, 1, 2]
    overlay.leave(first)
    overlay.wait(2_500)
    behind = ticks(overlay)[2] + 1
    second = overlay.client("sb")
    if is_early:
        overlay.delay("ib", "pb")
    second.durable(1, "D", positions=(("pb.a", behind),), resumes=True)
    overlay.wait(1_000)
    second.acknowledge("pb.a", behind + (5_000 << 16), 1)
    overlay.undelay("ib", "pb")
    overlay.wait(3_000)
    assert positions_known(overlay)["D"] == behind, "that, and no more"


@pytest.mark.parametrize("place", ["sb", "pb"])
def test_a_host_that_stops_in_order_leaves_no_acknowledgement_behind(place: str) -> None:
    overlay = line(retain_ms=60_000)
    client = durable(overlay, place)
    publish(overlay, 0, 1, 2)
    client.acknowledge("pb.a", ticks(overlay)[1] + 1, 1)
    overlay._act(place, overlay.brokers[place].shutdown(now_ms=overlay.now_ms))
    overlay.crash(place)
    overlay.start(place)
    # Brokers on the way pass positions on about once a second.
    overlay.wait(3_000)
    assert positions_known(overlay)["D"] == ticks(overlay)[1] + 1
