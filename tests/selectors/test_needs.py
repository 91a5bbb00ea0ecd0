"""What conditions need: without any of it, nothing makes them true."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.model.values import AttributeValue
from penstock.selectors import ast
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.needs import needs_of
from penstock.selectors.text import parse
from strategies import conditions, messages, tries


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("a > 1", {"a"}),
        ("NOT a > 1", {"a"}),
        ("1 < a + b", {"a"}),
        ("a > 1 OR b > 1", {"a", "b"}),
        ("a > 1 AND (b > 1 OR c > 1)", {"a"}),
        ("NOT (a > 1 AND b LIKE 'x%')", {"a", "b"}),
        ("NOT (a > 1 OR b IN ('x'))", {"a"}),
        ("a IS NOT NULL", {"a"}),
        ("a IS NULL", None),
        ("a IS NULL OR b > 1", None),
        ("a IS NULL AND b > 1", {"b"}),
        ("TRUE", None),
        ("FALSE", set()),
        ("NOT FALSE", None),
    ],
)
def test_what_a_condition_needs(text: str, needs: set[str] | None) -> None:
    assert needs_of(parse(text)) == needs


@settings(max_examples=tries(500))
@given(conditions, messages)
def test_nothing_is_true_of_messages_without_what_it_needs(
    condition: ast.Condition, message: dict[str, AttributeValue]
) -> None:
    needs = needs_of(condition)
    if needs is not None:
        without = {name: value for name, value in message.items() if name not in needs}
        assert compile_condition(condition)(without) is not True
