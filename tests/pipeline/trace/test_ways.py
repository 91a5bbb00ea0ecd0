"""Claims come to a way, solved once for all that claim the same."""

from __future__ import annotations

import msgspec
import numpy as np

from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts
from penstock.pipeline.trace.timeline import TIME_MAX
from penstock.pipeline.trace.ways import WayBook, make_era
from penstock.tracking.records import GapRecord


def chain(**harm: BrokerFacts) -> LakeFacts:
    """a - b - c, of which a publishes."""
    links = {"a": ("b",), "b": ("a", "c"), "c": ("b",)}
    brokers = {
        name: harm.get(name) or BrokerFacts(name, 1 if name == "a" else None, 0)
        for name in links
        if name not in harm or harm[name]
    }
    for name, broker in brokers.items():
        broker.links = tuple((each, TIME_MAX) for each in links[name])
    return LakeFacts(brokers, slack_ms=10, names={1: "a"})


def test_the_same_claims_are_one_way() -> None:
    book, facts = WayBook(), chain()
    eras = [make_era(facts, [], 1, ms) for ms in (500, 900)]
    numbers = {book.era_number(era) for era in eras}
    assert len(numbers) == 1
    ways = [book.way(era, numbers.copy().pop(), ["b", "c"], is_published=True) for era in eras]
    assert ways[0] is ways[1]
    assert (ways[0].asked, ways[0].looked, ways[0].listed) == (("a", "b", "c"),) * 3
    detail = msgspec.json.decode(ways[0].detail)
    assert (detail["routed_by"], detail["published_at"], detail["is_complete"]) == (["a", "b", "c"], "a", True)


def test_a_claim_that_nobody_can_have_led_to_is_left_out() -> None:
    era = make_era(chain(), [], 1, 500)
    way = WayBook().way(era, 0, ["c"], is_published=True)
    assert (way.asked, way.listed) == (("a", "b"), ("a",))


def test_claims_that_nobody_hears_of_make_no_other_way() -> None:
    book, era = WayBook(), make_era(chain(), [], 1, 500)
    alone = book.way(era, 0, [], is_published=True)
    assert book.way(era, 0, ["c"], is_published=True) is alone
    assert book.way(era, 0, ["b"], is_published=True) is not alone
    # In the order of brokers, and at the end that of the publisher history.
    claims = np.array([False, False, True, True])
    assert book.way_of_claims(era, 0, claims) is book.way_of_claims(era, 0, claims.copy()) is alone


def test_a_gap_is_searched_behind() -> None:
    harmed = BrokerFacts("b", None, 0, gaps=(GapRecord(((400, 600),), "crash"),))
    way = WayBook().way(make_era(chain(b=harmed), [], 1, 500), 0, ["c"], is_published=True)
    assert (way.asked, way.listed) == (("a", "b", "c"),) * 2
    detail = msgspec.json.decode(way.detail)
    assert {gap["history"] for gap in detail["gaps"]} == {"route/1", "deliver/1"}
    assert make_era(chain(b=harmed), [], 1, 700) != make_era(chain(b=harmed), [], 1, 500)


def test_a_forgotten_alias_makes_a_no_worthless_but_asks_no_subscribers() -> None:
    forgetful = BrokerFacts("a", 1, 0, aliases_since_ms=1_000)
    way = WayBook().way(make_era(chain(a=forgetful), [], 1, 500), 0, [], is_published=False)
    assert (way.looked, way.listed) == ((), ())
    assert msgspec.json.decode(way.detail)["published"] == "gap"


def test_gaps_of_single_subscribers_are_tangled() -> None:
    alone = BrokerFacts(
        "c", None, 0, per_subscriber=True, gaps=(GapRecord(((400, 600),), "overload", "deliver/1/00ff"),)
    )
    assert make_era(chain(c=alone), [], 1, 500).is_tangled
    assert not make_era(chain(c=alone), [], 1, 700).is_tangled
