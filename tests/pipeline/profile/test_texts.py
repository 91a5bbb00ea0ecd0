"""Attributes that were archived as text match as the attributes did that were published."""

from __future__ import annotations

from random import Random

import pytest

from penstock.model.values import AttributeValue
from penstock.pipeline.profile.texts import kinds_of
from penstock.pipeline.source.decoding import text_of
from penstock.selectors.selector import Selector
from penstock.sim.workloads import QuoteWorkload


def read(selector: str, **texts: str | None) -> dict[str, AttributeValue]:
    return kinds_of([Selector.parse(selector)]).values(texts.items())


@pytest.mark.parametrize(
    ("selector", "text", "value"),
    [
        ("a = '15'", "15", "15"),
        ("a LIKE '1%'", "15", "15"),
        ("a IN ('15', '16')", "15", "15"),
        ("a > 3", "15", 15),
        ("a > 3", "15.0", 15.0),
        ("a > 3", "-0.5", -0.5),
        ("a > 3", "1e+300", 1e300),
        ("a > 3", "007", "007"),
        ("a > 3", "1_000", "1_000"),
        ("a > 3", "true", "true"),
        ("a IN (1, 2)", "2", 2),
        ("a = TRUE", "true", True),
        ("a = TRUE", "1", "1"),
        ("a = 1 OR a = 'x'", "1", 1),
        ("a = 1 OR a = 'x'", "x", "x"),
        ("a + 1 > 2", "7", 7),
        ("2 < -a", "7", 7),
        ("a = b", "7", 7),
        ("a = b", "false", False),
        ("NOT a IS NULL", "7", "7"),
    ],
)
def test_an_attribute_is_what_selectors_take_it_for(selector: str, text: str, value: AttributeValue) -> None:
    found = read(selector, a=text)
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_attributes_that_no_selector_names_and_nulls_are_left_out() -> None:
    assert read("a > 3", b="7", a=None) == {}


def test_archived_quotes_match_as_the_published_ones_did() -> None:
    workload = QuoteWorkload(Random(3), days=50)
    selectors = [Selector.parse(text) for text in (*workload.subscriptions(100), *workload.mixed_subscriptions(50))]
    kinds = kinds_of(selectors)
    for quote in workload.sample(50):
        again = kinds.values([(name, text_of(value)) for name, value in quote.items()])
        assert [each.matches(again) for each in selectors] == [each.matches(quote) for each in selectors]
