"""Narrowing to pubends: a condition like others, which messages of other pubends do not meet."""

from __future__ import annotations

import pytest

from penstock.broker.narrowing import PUBEND, is_reserved, is_wanted, names_pubends, narrowed, pubends_of, seen_in
from penstock.selectors.selector import Selector

QUOTES = Selector.parse("symbol = 'YHOO' OR volume > 15")


def test_a_selector_that_is_narrowed_to_nothing_stays_as_it_is() -> None:
    assert narrowed(QUOTES, ()) is QUOTES
    assert not names_pubends(QUOTES.conjunctions)
    assert {pubends_of(each) for each in QUOTES.conjunctions} == {None}


def test_a_narrowed_selector_wants_the_same_messages_of_its_pubends_only() -> None:
    some = narrowed(QUOTES, ("orders", "trades"))
    assert {pubends_of(each) for each in some.conjunctions} == {("orders", "trades")}
    assert names_pubends(some.conjunctions)
    message = {"symbol": "YHOO"}
    matched = [each for each in ("orders", "trades", "audit") if some.matches(seen_in(message, each))]
    assert matched == ["orders", "trades"]
    assert not some.matches(seen_in({"symbol": "IBM"}, "orders"))
    assert message == {"symbol": "YHOO"}
    assert QUOTES.covers(some)
    assert not some.covers(QUOTES)
    assert some.covers(narrowed(QUOTES, ("orders",)))


def test_what_a_message_says_of_its_pubend_does_not_count() -> None:
    assert not narrowed(QUOTES, ("orders",)).matches(seen_in({"symbol": "YHOO", PUBEND: "orders"}, "audit"))


@pytest.mark.parametrize(("text", "reserved"), [("x = 1", False), ("$class = 'PIE'", True), (f"{PUBEND} = 'a'", False)])
def test_the_pubend_is_no_reserved_attribute(text: str, reserved: bool) -> None:
    (conjunction,) = Selector.parse(text).conjunctions
    assert is_reserved(conjunction) is reserved
    (narrow,) = narrowed(Selector.parse(text), ("a",)).conjunctions
    assert is_reserved(narrow) is reserved


def test_a_subscription_without_pubends_wants_all() -> None:
    assert is_wanted("orders", ())
    assert is_wanted("orders", ("trades", "orders"))
    assert not is_wanted("orders", ("trades",))


def test_attributes_of_requests_and_replies_are_in_ordinary_messages() -> None:
    for text in ("$reply = 'A'", "$reply_to IS NOT NULL AND x = 1", "$request = 'A-1'", "$failed LIKE 'no%'"):
        (conjunction,) = Selector.parse(text).conjunctions
        assert not is_reserved(conjunction)
    (mixed,) = Selector.parse("$reply = 'A' AND $class = 'PIE'").conjunctions
    assert is_reserved(mixed)
