"""The notation of a selector is told by its first character."""

from __future__ import annotations

import pytest

from penstock.selectors.ast import Attribute, Comparison, Constant, Literal
from penstock.selectors.errors import SelectorError
from penstock.selectors.text import parse

EXPECTED = Comparison("=", Attribute("class"), Literal("STOCK"))


@pytest.mark.parametrize("text", ["class = 'STOCK'", "[class,=,'STOCK']", " \t\n[class,eq,STOCK]"])
def test_both_notations_are_understood(text: str) -> None:
    assert parse(text) == EXPECTED


@pytest.mark.parametrize("text", ["", "  "])
def test_blank_text_selects_everything(text: str) -> None:
    assert parse(text) == Constant(value=True)


def test_an_error_points_into_the_whole_text() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("  [class,=,'STOCK'")
    assert caught.value.position == 18
