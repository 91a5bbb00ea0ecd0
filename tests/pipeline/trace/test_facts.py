"""What rows of the lake say of brokers: the newest counts, and a crash leaves links in doubt until the next start."""

from __future__ import annotations

import struct
from typing import Any

from penstock.pipeline.trace.facts import gather_facts, newest, spans_of
from penstock.pipeline.trace.timeline import TIME_MAX


def row(broker: str = "b", sequence: int = 1, **values: Any) -> dict[str, Any]:
    return {"broker": broker, "incarnation": 1, "sequence": sequence, **values}


def packed(*spans: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qq", *span) for span in spans)


def gap(reason: str, history: str, *spans: tuple[int, int], sequence: int = 1) -> dict[str, Any]:
    return row(sequence=sequence, reason=reason, history=history, spans=packed(*spans))


def test_the_row_that_was_shipped_last_counts() -> None:
    rows = [row(sequence=3, value=3), row(sequence=1, value=1), row("c", value=7)]
    assert [each["value"] for each in newest(rows, ("broker",))] == [3, 7]


def test_since_is_the_lowest_that_was_ever_told() -> None:
    gaps = [
        gap("since", "filter", (0, 499)),
        gap("since", "filter", (0, 99), sequence=2),
        gap("since", "attachment", (0, 9)),
        gap("since", "alias", (0, 4)),
    ]
    broker = gather_facts({"gaps": gaps}).brokers["b"]
    assert (broker.known_since_ms, broker.attachments_since_ms, broker.aliases_since_ms) == (100, 10, 5)


def test_gaps_are_the_newest_of_their_kind_and_open_ones_begin_earlier() -> None:
    gaps = [
        gap("crash", "", (5, 9)),
        gap("crash", "", (5, 9), (20, 30), sequence=2),
        gap("open", "", (1_000, 2**63 - 1), sequence=2),
    ]
    broker = gather_facts({"gaps": gaps}, slack_ms=100).brokers["b"]
    assert {each.reason: each.spans for each in broker.gaps} == {
        "crash": ((5, 9), (20, 30)),
        "open": ((900, 2**63 - 1),),
    }


def test_links_end_with_a_life() -> None:
    def event(at_ms: int, what: str, neighbour: str = "") -> dict[str, Any]:
        return row(at=at_ms * 1_000, event=what, neighbour=neighbour)

    events = [event(0, "start"), event(1, "link-up", "x"), event(2, "link-up", "y"), event(5, "link-down", "y")]
    crashed = [*events, event(50, "start"), event(51, "link-up", "z")]
    broker = gather_facts({"topology": crashed}).brokers["b"]
    assert dict(broker.links) == {"x": 50, "y": 5, "z": TIME_MAX}
    assert broker.neighbours_since(40, 10) == ("x", "z")
    facts = gather_facts({"topology": crashed}, slack_ms=10)
    assert facts.unshipped_links(40) == {"x": ("b",), "z": ("b",)}


def test_brokers_are_known_by_what_they_published_and_by_aliases() -> None:
    histories = [row(phase="publish", origin=7, part=""), row("c", phase="deliver", origin=7, part="00ff")]
    aliases = [{"publisher_broker": "d", "publisher_number": 9}]
    facts = gather_facts({"histories": histories, "aliases": aliases})
    assert (facts.origin_of(7), facts.origin_of(9), facts.origin_of(3)) == ("b", "d", "#3")
    assert (facts.brokers["c"].per_subscriber, facts.brokers["c"].number) == (True, None)


def test_receivers_are_numbered_in_order() -> None:
    attached: dict[str, Any] = {"attached_at": 1_000, "detached_at": None, "starts": {"p": 3 << 16}, "ends": None}
    rows = [row("c", number=1, subscriber="s", **attached), row(number=1, subscriber="t", **attached)]
    facts = gather_facts({"attachments": rows})
    assert facts.receivers == (("b", "t"), ("c", "s"))
    assert facts.brokers["c"].subscribers["s"][1] == [(1, TIME_MAX)]


def test_spans_are_pairs_of_numbers_with_sign() -> None:
    assert spans_of(packed((-1, 5))) == ((-1, 5),)
    assert spans_of(None) == ()
