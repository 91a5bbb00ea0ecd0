"""Selectors written in Python equal those written as texts, and mistakes are told at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.selectors import Selector, ast, attr
from penstock.selectors.builder import AttributeTerm, TermBuilder

a, b = attr("a"), attr("b")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (a == 1, "a = 1"),
        (a != 1, "a <> 1"),
        (a < 1, "a < 1"),
        (a <= 1, "a <= 1"),
        (a > 1, "a > 1"),
        (a >= 1, "a >= 1"),
        (a == "x", "a = 'x'"),
        (a == True, "a = TRUE"),  # noqa: E712
        (a != False, "a <> FALSE"),  # noqa: E712
        (a > 1.5, "a > 1.5"),
        (a == b, "a = b"),
        (a < b, "a < b"),
        (a.between(1, 2), "a BETWEEN 1 AND 2"),
        (a.between(b, b + 1), "a BETWEEN b AND b + 1"),
        ((a + b).between(1, 2), "a + b BETWEEN 1 AND 2"),
        (a.is_in(1, "x", True), "a IN (1, 'x', TRUE)"),  # noqa: FBT003
        (~a.is_in(1, 2), "a NOT IN (1, 2)"),
        (a.like("x%_"), "a LIKE 'x%_'"),
        (a.like("x!%", "!"), "a LIKE 'x!%' ESCAPE '!'"),
        (~a.like("x%"), "a NOT LIKE 'x%'"),
        (a.is_null(), "a IS NULL"),
        (a.exists(), "a IS NOT NULL"),
        (attr("odd name") == 1, '"odd name" = 1'),
        (attr("in") == 1, '"in" = 1'),
        ((a > 1) & (b > 1) | (a < 0), "a > 1 AND b > 1 OR a < 0"),
        (a == INTEGER_MAX, "a = 9223372036854775807"),
        (a == INTEGER_MIN, "a = -9223372036854775808"),
    ],
)
def test_a_built_selector_equals_the_one_read_from_a_text(built: Selector, text: str) -> None:
    assert built == Selector.parse(text)
    assert str(built) == str(Selector.parse(text))


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (a + b, "a + b"),
        (a - b, "a - b"),
        (a * b, "a * b"),
        (a / b, "a / b"),
        (a + 1, "a + 1"),
        (a - 1, "a - 1"),
        (a * 2, "a * 2"),
        (a / 2, "a / 2"),
        (1 + a, "1 + a"),
        (1 - a, "1 - a"),
        (2 * a, "2 * a"),
        (2 / a, "2 / a"),
        (2.5 / a, "2.5 / a"),
        (-a, "-a"),
        (-(a + b), "-(a + b)"),
        ((a + b) * 2, "(a + b) * 2"),
        (a + b * 2, "a + b * 2"),
        (1 - (a - b), "1 - (a - b)"),
        (a - b - 1, "a - b - 1"),
    ],
)
def test_arithmetic_keeps_the_order_and_grouping_it_was_written_in(term: TermBuilder, text: str) -> None:
    assert (term > 0).condition == Selector.parse(f"{text} > 0").condition


@pytest.mark.parametrize(
    ("built", "text"),
    [(a + 1 > b, "a + 1 > b"), (a + 1 <= b, "a + 1 <= b"), (-a == b, "-a = b"), (a > b + 1, "a > b + 1")],
)
def test_a_term_compared_with_an_attribute_stays_on_its_side(built: Selector, text: str) -> None:
    # Python asks the right operand first if its class is derived from the left one's.
    assert built.condition == Selector.parse(text).condition
    assert built == Selector.parse(text)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (1 == a, "a = 1"),  # noqa: SIM300
        (1 != a, "a <> 1"),  # noqa: SIM300
        (1 < a, "a > 1"),  # noqa: SIM300
        (1 <= a, "a >= 1"),  # noqa: SIM300
        (1 > a, "a < 1"),  # noqa: SIM300
        (1 >= a, "a <= 1"),  # noqa: SIM300
        ("x" == a, "a = 'x'"),  # noqa: SIM300
    ],
)
def test_a_comparison_may_start_with_the_value(built: Selector, text: str) -> None:
    assert built == Selector.parse(text)


def test_built_selectors_match() -> None:
    selector = (attr("class") == "STOCK") & (attr("high") - attr("low") > 0.5)
    assert selector.matches({"class": "STOCK", "high": 3, "low": 2})
    assert not selector.matches({"class": "STOCK", "high": 3, "low": 2.5})
    assert not selector.matches({"class": "BOND", "high": 3, "low": 2})


def test_a_list_without_values_is_refused() -> None:
    with pytest.raises(MisuseError, match="name at least one"):
        a.is_in()


def test_an_attribute_knows_its_name() -> None:
    assert isinstance(a, AttributeTerm)
    assert a.term == ast.Attribute("a")


# What a type checker would refuse is tried on purpose: hence Any.
MISTAKES: list[tuple[Any, str]] = [
    (None, "use is_null"),
    (math.nan, "finite numbers, not nan"),
    (math.inf, "finite numbers, not inf"),
    (-math.inf, "finite numbers, not -inf"),
    (INTEGER_MAX + 1, "64 bits"),
    (INTEGER_MIN - 1, "64 bits"),
    (b"x", "cannot compare with bytes"),
    ([1], "cannot compare with list"),
    (Decimal(1), "cannot compare with Decimal"),
    (1j, "cannot compare with complex"),
    (object(), "cannot compare with object"),
]
USES: dict[str, Callable[[Any], object]] = {
    "==": lambda value: a == value,
    "!=": lambda value: a != value,
    "<": lambda value: a < value,
    "<=": lambda value: a <= value,
    ">": lambda value: a > value,
    ">=": lambda value: a >= value,
    "+": lambda value: a + value,
    "-": lambda value: a - value,
    "*": lambda value: a * value,
    "/": lambda value: a / value,
    "reflected +": lambda value: value + a,
    "reflected -": lambda value: value - a,
    "reflected *": lambda value: value * a,
    "reflected /": lambda value: value / a,
    "is_in": lambda value: a.is_in(1, value),
    "low": lambda value: a.between(value, 1),
    "high": lambda value: a.between(1, value),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("value", "problem"), MISTAKES, ids=[repr(problem) for _, problem in MISTAKES])
def test_a_value_that_no_selector_can_hold_is_refused(use: str, value: object, problem: str) -> None:
    if use.startswith("reflected") and isinstance(value, bytes | list):
        pytest.skip("sequences try to add and multiply first, with an error of their own")
    with pytest.raises(MisuseError, match=problem):
        USES[use](value)


def test_a_term_has_no_truth() -> None:
    for term in (a, a + 1, -a):
        with pytest.raises(MisuseError, match="compare it"):
            bool(term)
    with pytest.raises(MisuseError, match="compare it"):
        assert a


def test_a_term_cannot_be_looked_up() -> None:
    for term in (a, a + 1):
        with pytest.raises(TypeError, match="unhashable"):
            hash(term)


WRONG_NAMES: list[Any] = ["", None, 5, b"a", ("a",)]


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_name_is_a_text_that_is_not_empty(name: Any) -> None:
    with pytest.raises(MisuseError, match="must be a non-empty str, not "):
        attr(name)


@pytest.mark.parametrize(
    ("pattern", "escape", "problem"),
    [
        ("x", "", "one escape character, found 0"),
        ("x", "ab", "one escape character, found 2"),
        ("x!", "!", "end of the pattern"),
        ("!x", "!", "found 'x'"),
    ],
)
def test_a_bad_escape_is_refused_with_the_pattern(pattern: str, escape: str, problem: str) -> None:
    with pytest.raises(MisuseError, match=problem) as caught:
        a.like(pattern, escape)
    assert repr(pattern) in str(caught.value)


WRONG_PATTERNS: list[tuple[Any, Any]] = [(None, None), (5, None), (["x"], None), ("x", 5)]


@pytest.mark.parametrize(("pattern", "escape"), WRONG_PATTERNS)
def test_a_pattern_or_escape_that_is_no_text_is_misuse(pattern: Any, escape: Any) -> None:
    with pytest.raises(MisuseError):
        a.like(pattern, escape)


def test_a_name_too_long_for_any_message_is_refused_as_the_parser_does() -> None:
    assert attr("n" * 255).exists().matches({"n" * 255: 1})
    with pytest.raises(MisuseError):
        attr("n" * 256)


def test_a_lone_surrogate_is_refused_as_the_parser_does() -> None:
    uses: list[Callable[[], object]] = [
        lambda: a == "\ud800",
        lambda: a.is_in("\ud800"),
        lambda: a.like("\ud800%"),
        lambda: attr("\ud800"),
    ]
    for use in uses:
        with pytest.raises(MisuseError):
            use()


def test_a_pattern_with_too_much_around_its_gaps_is_misuse() -> None:
    with pytest.raises(MisuseError, match="expected at most 64 characters around the _ between two %, found 66"):
        attr("a").like("%" + "x_" * 65 + "x%")
