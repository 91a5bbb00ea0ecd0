"""A rogue broker among honest ones: it has proved to be a neighbour, and says what it likes.

Around a hub: ``pb`` and ``qb`` host a pubend each, ``sb`` an honest subscriber, ``tb`` is the rogue.
"""

from __future__ import annotations

from typing import Any

import pytest

from overlay import Overlay, TestClient, star
from penstock.broker.access import Access, Rule
from penstock.broker.pubends import NUMBERS_MAX
from penstock.broker.settings import BrokerSettings
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.protocol import frames as f

PATIENT_MS = 10**9
WORD = "token"
PROVED = Access({"victim": WORD, "mallory": WORD}, (Rule("%"),))
DENIED = "durable subscription 'D' belongs to another client"


def around_a_hub(**settings: Any) -> Overlay:
    overlay = star("pb", "qb", "sb", "tb", pubends=("pb", "qb"), silent_ms=PATIENT_MS, **settings)
    overlay.wait(3_000)
    return overlay


def durable(overlay: Overlay, broker: str, client: str = "victim") -> TestClient:
    made = overlay.client(broker, client, token=WORD)
    made.durable(1, "D")
    overlay.wait(2_000)
    return made


def publish(overlay: Overlay, *numbers: int, broker: str = "pb") -> None:
    overlay.client(broker, "victim", token=WORD).publish(*({"number": number} for number in numbers))
    overlay.wait(1_500)


def off_path(overlay: Overlay, broker: str) -> int:
    counts = overlay.brokers[broker].status().counts
    assert isinstance(counts, dict)
    return int(counts["off_path"])


@pytest.mark.parametrize("host", ["tb", "sb", "pb", "nobody"])
@pytest.mark.parametrize(
    "frame",
    [
        f.Positions("pb.a", (), (("D", 2**62, 2**62, "tb"),)),
        f.StreamSettle("pb.a", "tb", 5, "D", 2**62, 2**62, (1, 2**61)),
        f.StreamForget("pb.a", "tb", 5, "D", "", shares=True),
        f.StreamOpen("pb.a", "tb", 5, 0, "earliest", "D", 2**62, resumes=False, client="", shares=True),
        f.StreamOpen("pb.a", "tb", 5, 0, "earliest", "D", 2**62, resumes=False, client="victim", shares=True),
    ],
    ids=["moves", "settles", "forgets", "claims", "claims-for-it"],
)
def test_no_rogue_empties_forgets_or_blocks_a_durable_subscription_with_a_frame(host: str, frame: Any) -> None:
    overlay = around_a_hub(access=PROVED)
    overlay.leave(durable(overlay, "sb"))
    publish(overlay, 1, 2, 3)
    named = {"durables": (("D", 2**62, 2**62, host),)} if isinstance(frame, f.Positions) else {"host": host}
    overlay.lie("hub", "tb", *[type(frame)(**{**frame_fields(frame), **named})] * 3)
    overlay.wait(3_000)
    back = durable(overlay, "sb")
    assert back.refusals() == []
    assert back.numbers() == [1, 2, 3]
    assert len(overlay.links()) == 4
    overlay.check_invariants()


def frame_fields(frame: Any) -> dict[str, Any]:
    return {name: getattr(frame, name) for name in frame.__struct_fields__}


@pytest.mark.parametrize(
    "frame",
    [
        f.Nack("pb.a", "sb", 1, 1, ((1, 5),)),
        f.FilterProbe("sb", 1, 0, "pb.a"),
        f.LogRequest("pb.a", "sb", 1, 1, 5),
        f.CongestionAlert("pb.a", 1, 0.1, 0.1, 5, "sb"),
        f.TraceQuestion("pb", "sb", 1, bytes(16), ()),
        f.Positions("pb.a", (("sb", 5, True),)),
        f.StreamOpened("pb.a", "sb", 1, 1),
        f.StreamTaken("pb.a", "sb", "D", 2**62),
        f.StreamSettle("pb.a", "sb", 1, "D", 2**62, 5, (5, 6)),
        f.StreamSettled("pb.a", "sb", 1, "D", 2**62, 5, (5, 6)),
        f.StreamForgotten("pb.a", "sb", 1, existed=True),
        f.FilterApplied("sb", 1, 2**62, "pb.a", 2**62),
        f.LogSpan("pb.a", "sb", 1, 1, 1),
        f.LogAnswer("pb.a", "sb", 1, (1, 1), [], []),
        f.CongestionQuery("pb.a", 1, 1),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_who_does_not_lie_on_the_way_speaks_for_no_host_and_no_pubend_and_is_not_punished(frame: f.Frame) -> None:
    overlay = around_a_hub()
    client = overlay.client("sb")
    client.durable(1, "D")
    overlay.wait(2_000)
    before = off_path(overlay, "hub")
    overlay.lie("hub", "tb", frame)
    assert off_path(overlay, "hub") == before + 1
    publish(overlay, 1)
    assert (client.numbers(), client.refusals()) == ([1], [])
    assert len(overlay.links()) == 4


def test_silence_of_a_neighbour_that_is_not_on_the_way_makes_nobody_deaf() -> None:
    overlay = around_a_hub()
    client = overlay.client("hub")
    client.subscribe(1, "number > 0")
    overlay.wait(2_000)
    filters = overlay.brokers["hub"].rooms.filters
    versions = (("hub", filters.incarnation, filters.version),)
    overlay.lie("hub", "tb", f.KnowledgeMessage("pb.a", 0, 2**62 - 5, [], [], versions=versions, is_whole=True))
    publish(overlay, 1, 2)
    assert client.numbers() == [1, 2]
    assert client.horizon() < 2**61


def test_positions_of_hosts_that_do_not_exist_are_neither_kept_nor_passed_on() -> None:
    overlay = around_a_hub()
    for part in range(3):
        made_up = tuple((f"h{part}-{number}", 5, True) for number in range(10_000))
        overlay.lie("hub", "tb", f.Positions("pb.a", made_up), f.Positions("tb.a", made_up))
    overlay.wait(3_000)
    assert len(overlay.links()) == 4
    found = overlay.brokers["pb"].status().guaranteed
    assert not [host for host in found.pubends["pb.a"].hosts if host.startswith("h")]


def test_positions_of_more_hosts_than_fit_a_frame_are_passed_on_in_parts() -> None:
    overlay = around_a_hub()
    guaranteed = overlay.brokers["hub"]._guaranteed
    for number in range(25_000):
        guaranteed._finality.report("pb.a", f"h{number}", 5, is_settled=True, now_ms=overlay.now_ms)
    overlay.wait(2_000)
    assert len(overlay.links()) == 4


# --- pubends that are made up


def test_a_new_client_is_served_whatever_pubends_a_rogue_has_made_up() -> None:
    overlay = around_a_hub()
    body = encode_body(MessageIdSource(9, 5).next(overlay.now_ms), Message({"x": 1}, b""))
    watching = overlay.client("hub")
    watching.subscribe(1, "x = 1")
    for sequence in range(1, 12):
        names = tuple(f"p{sequence}-{number}" for number in range(2_000))
        overlay.lie("hub", "tb", f.LinkState("tb", overlay.now_ms + 1, sequence, ("hub",), names, names))
        overlay.lie("hub", "tb", *(f.Forward(name, [5], [body]) for name in names))
    assert len(watching.messages()) == NUMBERS_MAX
    assert [each.event for each in overlay.records].count("pubends-full") == 1
    honest = overlay.client("hub")
    honest.subscribe(1, "number > 0")
    overlay.wait(3_000)
    assert max(len(each.names) for each in honest.heard if isinstance(each, f.PubendNames)) == 1_000
    publish(overlay, 1)
    assert honest.numbers() == [1]


def test_link_states_that_bring_more_pubends_than_an_overlay_may_have_are_ignored() -> None:
    overlay = around_a_hub()
    names = tuple(f"p{number}" for number in range(9_999))
    overlay.lie("hub", "tb", f.LinkState("tb", overlay.now_ms + 1, 1, ("hub",), names))
    topology = overlay.brokers["hub"].rooms.topology
    assert topology.origin_of("p1") is None
    overlay.lie("hub", "tb", f.LinkState("tb", overlay.now_ms + 1, 2, ("hub",), names[:100]))
    assert topology.origin_of("p1") == "tb"


# --- names that another client has elsewhere


def two_pubends_of_one_broker(*pubends: str) -> BrokerSettings:
    return BrokerSettings("b", pubends=pubends, access=PROVED)


def test_a_client_that_is_refused_keeps_no_name_where_it_was_free() -> None:
    overlay = Overlay(two_pubends_of_one_broker("b.a"))
    overlay.leave(durable(overlay, "b"))
    # The operator adds a pubend while the owner is away.
    overlay.crash("b")
    overlay.settings["b"] = two_pubends_of_one_broker("b.a", "b.b")
    overlay.start("b")
    overlay.wait(2_000)
    mallory = durable(overlay, "b", "mallory")
    assert mallory.refusals() == [("subscribe", 1, DENIED)]
    assert (list(overlay.durables("b.a")), list(overlay.durables("b.b"))) == (["D"], [])
    victim = durable(overlay, "b")
    assert victim.refusals() == []
    assert [overlay.durables(pubend)["D"].client for pubend in ("b.a", "b.b")] == ["victim", "victim"]


def test_it_does_not_when_the_answers_come_in_another_order_either() -> None:
    overlay = around_a_hub(access=PROVED)
    overlay.cut("hub", "qb")
    overlay.leave(durable(overlay, "sb"))
    overlay.link("hub", "qb")
    # Somebody wants the same already, so that both pubends are asked at once.
    overlay.client("sb", "mallory", token=WORD).subscribe(1, "")
    overlay.wait(3_000)
    # The name is free at qb, whose answer comes after the refusal by pb.
    overlay.delay("qb", "hub")
    mallory = durable(overlay, "sb", "mallory")
    assert mallory.refusals() == [("subscribe", 1, DENIED)]
    assert list(overlay.durables("qb.a")) == ["D"]
    overlay.undelay("qb", "hub")
    overlay.wait(1_000)
    assert list(overlay.durables("qb.a")) == []
    victim = durable(overlay, "sb")
    assert victim.refusals() == []
    assert [overlay.durables(pubend)["D"].client for pubend in ("pb.a", "qb.a")] == ["victim", "victim"]
