"""Knowledge down the trees, NACKs up: repaired after any loss, answered nearby, believed only of the right version."""

from __future__ import annotations

import pytest

from overlay import Overlay, TestClient, chain, ring
from penstock.broker import BrokerSettings
from penstock.protocol import frames as f

PATIENT_MS = 1_000_000


def line(*names: str, **settings: object) -> Overlay:
    return chain(*names, guaranteed=True, silent_ms=PATIENT_MS, **settings)


def counts(overlay: Overlay, broker: str) -> dict[str, int]:
    found = overlay.brokers[broker].status().counts
    assert isinstance(found, dict)
    return found


def subscriber(overlay: Overlay, broker: str, selector: str = "", *positions: tuple[str, int]) -> TestClient:
    client = overlay.client(broker)
    client.subscribe(1, selector, *positions)
    return client


def publish(publisher: TestClient, *numbers: int) -> None:
    publisher.publish(*({"number": number} for number in numbers))


def tell(overlay: Overlay, at: str, by: str, *frames: f.Frame) -> None:
    """A neighbour says something that it would not."""
    broker = overlay.brokers[at]
    link = broker._connections.links[by]
    overlay._act(at, broker.receive(link.connection, list(frames), now_ms=overlay.now_ms))


def horizon(overlay: Overlay, broker: str, pubend: str = "pb.a") -> int:
    found = overlay.brokers[broker].status().guaranteed.streams[pubend].horizon
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("hop", [("pb", "ib"), ("ib", "jb"), ("jb", "sb")])
def test_what_is_lost_at_any_hop_is_asked_for_and_comes(hop: tuple[str, str]) -> None:
    overlay = line("pb", "ib", "jb", "sb", link_outbox_bytes=400)
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    publish(publisher, 1)
    overlay.clog(*hop)
    for number in range(2, 12):
        publish(publisher, number)
    assert counts(overlay, hop[0])["knowledge_dropped"] > 0
    overlay.unclog(*hop)
    overlay.wait(15_000)
    assert client.numbers() == list(range(1, 12))
    overlay.check_invariants()


def test_a_nack_is_answered_by_the_first_cache_that_can() -> None:
    overlay = line("pb", "ib", "sb")
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    publish(publisher, 1)
    overlay.cut("ib", "sb")
    near = subscriber(overlay, "ib")
    publish(publisher, 2, 3)
    assert near.numbers() == [2, 3]
    overlay.link("ib", "sb")
    overlay.wait(3_000)
    assert client.numbers() == [1, 2, 3]
    assert counts(overlay, "pb")["log_reads"] == 0


def test_the_log_answers_what_no_cache_has() -> None:
    overlay = line("pb", "ib", "sb", cache_bytes=300)
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    publish(publisher, 1)
    overlay.cut("pb", "ib")
    publish(publisher, *range(2, 40))
    overlay.link("pb", "ib")
    overlay.wait(5_000)
    assert client.numbers() == list(range(1, 40))
    assert counts(overlay, "pb")["log_reads"] > 0


def test_the_same_ticks_are_asked_for_once_a_second_whoever_asks() -> None:
    overlay = line("pb", "ib", "sb")
    subscriber(overlay, "sb")
    publish(overlay.client("pb"), 1)
    overlay.cut("pb", "ib")
    overlay.link("pb", "ib")
    overlay.loses = f.KnowledgeMessage
    nack = f.Nack("pb.a", "sb", 2**40, 1, ((5, 10),))
    before = counts(overlay, "ib")["nacks_forwarded"]
    tell(overlay, "ib", "sb", nack, nack, f.Nack("pb.a", "sb", 2**40, 1, ((7, 12),)))
    assert counts(overlay, "ib")["nacks_forwarded"] == before + 2
    assert counts(overlay, "ib")["nacks_suppressed"] >= 1
    overlay.now_ms += 1_000
    tell(overlay, "ib", "sb", nack)
    assert counts(overlay, "ib")["nacks_forwarded"] == before + 3


def test_answers_go_only_to_those_who_asked() -> None:
    overlay = Overlay(*star("pb", "ib", "sb", "tb"))
    for name in ("pb", "sb", "tb"):
        overlay.link("ib", name)
    one, other = subscriber(overlay, "sb"), subscriber(overlay, "tb")
    publisher = overlay.client("pb")
    publish(publisher, 1)
    overlay.cut("ib", "sb")
    publish(publisher, 2)
    overlay.link("ib", "sb")
    received = counts(overlay, "ib")["answers_passed_on"]
    heard = len(other.heard)
    overlay.wait(3_000)
    assert (one.numbers(), other.numbers()) == ([1, 2], [1, 2])
    assert counts(overlay, "ib")["answers_passed_on"] > received
    assert not [each for each in other.heard[heard:] if isinstance(each, f.Deliver)]


def test_everybody_who_asked_for_the_same_ticks_is_answered_at_once() -> None:
    overlay = Overlay(*star("pb", "ib", "sb", "tb"))
    for name in ("pb", "sb", "tb"):
        overlay.link("ib", name)
    for name in ("sb", "tb"):
        subscriber(overlay, name)
    publish(overlay.client("pb"), 1)
    overlay.wait(2_000)
    passed_on = counts(overlay, "ib")["answers_passed_on"]
    overlay.delay("ib", "pb")
    for name in ("sb", "tb"):
        tell(overlay, "ib", name, f.Nack("pb.a", name, 2**40, 1, ((5, 10),)))
    overlay.undelay("ib", "pb")
    overlay.wait(10)
    assert counts(overlay, "ib")["answers_passed_on"] == passed_on + 2


def star(publishing: str, middle: str, *hosts: str) -> list[BrokerSettings]:
    names = (publishing, *hosts)
    outer = [
        BrokerSettings(
            each,
            number=place,
            pubends=("pb.a",) if each == publishing else (),
            neighbours=(middle,),
            silent_ms=PATIENT_MS,
        )
        for place, each in enumerate(names, start=2)
    ]
    return [BrokerSettings(middle, number=1, neighbours=names, silent_ms=PATIENT_MS), *outer]


def test_silence_narrowed_by_an_older_version_is_not_believed() -> None:
    """Knowledge that was narrowed before a subscription came is on its way while it begins in the past."""
    overlay = line("pb", "ib", "sb")
    subscriber(overlay, "sb", "number = 1")
    publisher = overlay.client("pb")
    overlay.wait(2_000)
    start = horizon(overlay, "sb")
    overlay.clog("ib", "sb")
    publish(publisher, 1, 2, 1, 2)
    client = subscriber(overlay, "sb", "number = 2", ("pb.a", start))
    overlay.unclog("ib", "sb")
    overlay.wait(5_000)
    assert client.numbers() == [2, 2]
    assert counts(overlay, "sb")["old_silence_doubted"] > 0


def test_a_cache_does_not_answer_for_a_version_that_it_was_not_narrowed_by() -> None:
    overlay = line("pb", "ib", "sb")
    subscriber(overlay, "sb", "number = 1")
    overlay.wait(1_000)
    publish(overlay.client("pb"), 1, 2, 3)
    overlay.wait(1_000)
    client = subscriber(overlay, "sb", "number > 1", ("pb.a", 0))
    overlay.wait(5_000)
    assert client.numbers() == [2, 3]


def test_a_new_connection_says_versions_anew() -> None:
    overlay = line("pb", "sb")
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    publish(publisher, 1)
    for number in (2, 3):
        overlay.cut("pb", "sb")
        overlay.link("pb", "sb")
        publish(publisher, number)
    overlay.wait(1_500)
    assert client.numbers() == [1, 2, 3]
    assert horizon(overlay, "sb") > overlay.now_ms - 1_500 << 16


def test_a_dropped_frame_has_not_said_its_versions() -> None:
    overlay = line("pb", "sb", link_outbox_bytes=400)
    subscriber(overlay, "sb", "number = 1")
    publisher = overlay.client("pb")
    publish(publisher, 1)
    overlay.clog("pb", "sb")
    publish(publisher, 1)
    client = subscriber(overlay, "sb", "number = 2")
    for _ in range(9):
        publish(publisher, 1, 2)
    assert counts(overlay, "pb")["knowledge_dropped"] > 0
    overlay.unclog("pb", "sb")
    overlay.wait(10_000)
    assert client.numbers() == [2] * 9


def test_silence_goes_with_the_next_data_or_within_a_second() -> None:
    overlay = line("pb", "sb")
    subscriber(overlay, "sb", "number = 1")
    publisher = overlay.client("pb")
    publish(publisher, 1)
    before = horizon(overlay, "sb")
    overlay.wait(100)
    publish(publisher, 2)
    assert horizon(overlay, "sb") == before
    overlay.wait(100)
    publish(publisher, 1)
    assert horizon(overlay, "sb") == (overlay.now_ms << 16) + 1
    overlay.wait(100)
    publish(publisher, 2)
    overlay.wait(1_000)
    assert horizon(overlay, "sb") > overlay.now_ms - 1_000 << 16


def test_who_wants_nothing_gets_nothing() -> None:
    overlay = line("pb", "ib", "sb")
    subscriber(overlay, "ib")
    overlay.wait(1_000)
    overlay.loses = f.KnowledgeMessage
    publish(overlay.client("pb"), 1)
    assert overlay.brokers["sb"].status().guaranteed.streams == {}
    assert counts(overlay, "ib")["versions_changed"] == 0


def test_a_route_that_changes_in_the_midst_of_a_stream_loses_and_repeats_nothing() -> None:
    overlay = ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS)
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    wires = overlay.links()
    for turn in range(8):
        overlay.cut(*wires[turn % 4])
        publish(publisher, 3 * turn, 3 * turn + 1)
        overlay.wait(300)
        overlay.link(*wires[turn % 4])
        publish(publisher, 3 * turn + 2)
    overlay.wait(5_000)
    assert client.numbers() == list(range(24))


def test_a_host_behind_another_link_does_not_believe_the_silence_of_the_old_one() -> None:
    overlay = ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS)
    client, publisher = subscriber(overlay, "sb", "number > 1"), overlay.client("pb")
    others = [subscriber(overlay, name, "number = 1") for name in ("ab", "cb")]
    overlay.wait(1_000)
    parent = overlay.brokers["sb"]._router.place_in("pb.a").parent
    assert parent is not None
    wire = ("pb", "ab") if parent == "ab" else ("cb", "pb")
    overlay.clog(parent, "sb")
    publish(publisher, 1, 2)
    overlay.cut(*wire)
    publish(publisher, 1, 3)
    overlay.unclog(parent, "sb")
    overlay.link(*wire)
    publish(publisher, 1, 4)
    overlay.wait(5_000)
    assert client.numbers() == [2, 3, 4]
    assert [each.numbers() for each in others] == [[1, 1, 1]] * 2


@pytest.mark.parametrize("ranges", [((9, 5),), ((5, 6), (9, 8))])
def test_a_nack_that_cannot_be_meant_ends_the_connection(ranges: tuple[tuple[int, int], ...]) -> None:
    overlay = line("pb", "sb")
    tell(overlay, "pb", "sb", f.Nack("pb.a", "sb", 0, 0, ranges))
    assert overlay.brokers["pb"].status().links == []


def test_a_nack_of_what_is_not_there_yet_or_nowhere_harms_nobody() -> None:
    overlay = line("pb", "sb")
    client = subscriber(overlay, "sb")
    overlay.wait(1_000)
    tell(overlay, "pb", "sb", f.Nack("nowhere", "sb", 0, 0, ((1, 2),)), f.Nack("pb.a", "xb", 0, 0, ((0, 2**62),)))
    publish(overlay.client("pb"), 1)
    overlay.wait(2_000)
    assert client.numbers() == [1]
    overlay.check_invariants()


def test_nobody_tells_a_pubend_what_it_said() -> None:
    overlay = line("pb", "sb")
    client, far = subscriber(overlay, "pb"), subscriber(overlay, "sb")
    publisher = overlay.client("pb")
    publish(publisher, 1)
    body = next(body for _, body in overlay.disks["pb"].read("pb.a", 1_000_000 << 16, 2**62, 9_999)[0])
    tick = horizon(overlay, "pb") + 5
    tell(overlay, "pb", "sb", f.KnowledgeMessage("pb.a", 1, 2**61, [tick], [body]))
    assert counts(overlay, "pb")["knowledge_off_tree"] == 1
    publish(publisher, 2)
    overlay.wait(1_500)
    assert (client.numbers(), far.numbers()) == ([1, 2], [1, 2])


def test_a_neighbour_that_sends_what_is_no_message_loses_its_link_and_nobody_else_suffers() -> None:
    overlay = line("pb", "sb")
    client, publisher = subscriber(overlay, "sb"), overlay.client("pb")
    publish(publisher, 1)
    tick = horizon(overlay, "sb")
    tell(overlay, "sb", "pb", f.KnowledgeMessage("pb.a", tick, tick, [tick], [b"no message"]))
    assert overlay.brokers["sb"].status().links == []
    overlay.link("pb", "sb")
    publish(publisher, 2)
    overlay.wait(5_000)
    assert client.numbers() == [1, 2]


def test_a_client_that_is_called_like_a_broker_does_not_take_its_questions_along() -> None:
    overlay = line("pb", "ib", "sb")
    subscriber(overlay, "sb")
    publish(overlay.client("pb"), 1)
    overlay.clog("pb", "ib")
    tell(overlay, "ib", "sb", f.Nack("pb.a", "sb", 2**40, 1, ((5, 10),)))
    assert overlay.brokers["ib"]._guaranteed.carrier._books["pb.a"].waiting("sb")
    namesake = overlay.client("ib", "sb")
    overlay.leave(namesake)
    assert overlay.brokers["ib"]._guaranteed.carrier._books["pb.a"].waiting("sb")
