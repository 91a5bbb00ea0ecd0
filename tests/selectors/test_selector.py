from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given, settings

from penstock.model.errors import MisuseError
from penstock.model.limits import SELECTOR_CHARS_MAX
from penstock.model.values import AttributeValue
from penstock.selectors import EVERYTHING, NOTHING, Selector, SelectorError, SelectorTooLargeError, ast, attr
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.selector import _CACHED_CHARS_MAX, _parsed
from strategies import conditions, conjunctions, messages, tries

Message = dict[str, AttributeValue]


@settings(max_examples=tries(1500))
@given(conditions, messages)
def test_the_normal_form_is_true_exactly_where_the_syntax_tree_is(condition: ast.Condition, message: Message) -> None:
    assert Selector(condition).matches(message) == (compile_condition(condition)(message) is True)


@settings(max_examples=tries(1500))
@given(conditions)
@example(ast.Comparison(">", ast.Negative(ast.Literal(5)), ast.Attribute("a")))
@example(ast.Comparison("=", ast.Attribute("s"), ast.Literal("it's")))
def test_the_canonical_text_parses_to_the_same_selector_and_is_stable(condition: ast.Condition) -> None:
    selector = Selector(condition)
    again = Selector.parse(str(selector))
    assert again == selector
    assert str(again) == str(selector)


@settings(max_examples=tries(1000))
@given(conditions, conditions, messages)
def test_covering_is_never_claimed_wrongly(one: ast.Condition, other: ast.Condition, message: Message) -> None:
    first, second = Selector(one), Selector(other)
    if first.covers(second) and second.matches(message):
        assert first.matches(message)


@given(conjunctions)
def test_every_selector_covers_itself_and_is_covered_by_everything(condition: ast.Condition) -> None:
    selector = Selector(condition)
    assert selector.covers(selector)
    assert EVERYTHING.covers(selector)
    assert selector.covers(NOTHING)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a > 1", "a > 2"),
        ("a > 1", "a = 5"),
        ("a >= 1", "a > 1"),
        ("a <> 5", "a > 5"),
        ("a <> 5", "a IN (1, 2)"),
        ("a IN (1, 2, 3)", "a IN (1, 3)"),
        ("a IS NOT NULL", "a LIKE 'x_y'"),
        ("s LIKE 'ab%'", "s LIKE 'abc%'"),
        ("s LIKE 'ab%'", "s = 'abba'"),
        ("s < 'b'", "s LIKE 'a%'"),
        ("s LIKE 'a%'", "s >= 'ab' AND s < 'ac'"),
        ("s NOT LIKE 'a%'", "s LIKE 'b%'"),
        ("s LIKE '%x%'", "s LIKE '%x%' AND s > 'm'"),
        ("a + b > 1", "a + b > 1 AND c = 2"),
        ("class = 'STOCK'", "class = 'STOCK' AND volume > 150"),
        ("a > 1 OR b > 1", "a > 5 OR b > 5"),
    ],
)
def test_a_wider_selector_covers_a_narrower_one_but_not_the_other_way_round(wide: str, narrow: str) -> None:
    assert Selector.parse(wide).covers(Selector.parse(narrow))
    assert not Selector.parse(narrow).covers(Selector.parse(wide))


def test_selectors_that_mean_the_same_are_equal() -> None:
    assert Selector.parse("b = 2 AND a > 1.0") == Selector.parse("(a>1) and not (b <> 2)")
    assert hash(Selector.parse("b = 2 AND a > 1.0")) == hash(Selector.parse("(a>1) and not (b <> 2)"))
    assert Selector.parse("a = TRUE") != Selector.parse("a = 1")
    assert Selector.parse("a = TRUE") != "a = TRUE"


def test_texts_are_parsed_once() -> None:
    assert Selector.parse("a = 17 OR b = 18") is Selector.parse("a = 17 OR b = 18")


def test_both_forms_of_text_are_understood() -> None:
    assert Selector.parse("[class,=,'STOCK'],[volume,>,15]") == Selector.parse("class='STOCK' AND volume > 15")


def test_selectors_combine_with_python_operators() -> None:
    both = Selector.parse("a > 1") & Selector.parse("b > 1") & Selector.parse("c > 1")
    assert str(both) == "a > 1 AND b > 1 AND c > 1"
    assert isinstance(both.condition, ast.And)
    assert len(both.condition.operands) == 3
    assert str(Selector.parse("a > 1") | Selector.parse("b > 1")) == "a > 1 OR b > 1"
    assert str(~(Selector.parse("a > 1") & attr("b").is_null())) == "a <= 1 OR b IS NOT NULL"


def test_a_thousand_conditions_can_be_joined_one_by_one() -> None:
    selector = Selector.parse("a = 0")
    for number in range(1, 200):
        selector = selector | (attr("a") == number)
    assert selector.matches({"a": 199})
    assert not selector.matches({"a": 200})


def test_a_selector_can_be_pickled() -> None:
    selector = Selector.parse("a > 1 AND b LIKE 'x_y' OR a + b > 5")
    copied = pickle.loads(pickle.dumps(selector))  # noqa: S301 - our own bytes
    assert copied == selector
    assert hash(copied) == hash(selector)


def test_the_representation_can_be_evaluated() -> None:
    assert repr(Selector.parse("a>1")) == "Selector.parse('a > 1')"


def test_a_wrong_text_is_an_error_and_is_not_cached() -> None:
    for _ in range(2):
        with pytest.raises(SelectorError, match="expected"):
            Selector.parse("a >")


def test_a_selector_whose_canonical_text_would_not_be_one_is_too_large() -> None:
    text = "a=1000" + "".join(f" or a={number}" for number in range(1001, 2600))
    assert len(text) <= SELECTOR_CHARS_MAX
    with pytest.raises(SelectorTooLargeError, match="over the limit of 16,384"):
        Selector.parse(text)


def test_selectors_that_are_parsed_again_are_remembered_up_to_a_number_of_characters() -> None:
    assert Selector.parse("remembered = 1") is Selector.parse("remembered = 1")
    large = "a = '" + "x" * 10_000 + "'"
    for number in range(200):
        Selector.parse(f"{large} AND b = {number}")
    assert _parsed.weight <= _CACHED_CHARS_MAX


def test_a_chained_comparison_does_not_lose_its_first_half_silently() -> None:
    with pytest.raises(MisuseError, match="cannot be used as a boolean"):
        _ = 1 < attr("x") < 5


def test_selectors_that_together_search_for_too_much_are_too_large() -> None:
    first, second = (
        Selector.parse(" OR ".join(f"a LIKE '%{number}%'" for number in range(start, start + 40))) for start in (0, 40)
    )
    for combine in (Selector.__and__, Selector.__or__):
        with pytest.raises(SelectorTooLargeError, match="searches for 80 LIKE patterns, over the limit of 64"):
            combine(first, second)
    assert (first | first) == first


def test_alternatives_that_would_repeat_too_much_stay_a_test_of_their_own() -> None:
    shared = " AND ".join(f"c{number} > 1" for number in range(400))
    selector = Selector.parse(f"(a > 1 OR b > 1) AND (d > 1 OR e > 1) AND (f > 1 OR g > 1) AND {shared}")
    (conjunction,) = selector.conjunctions
    assert (len(conjunction.constraints), len(conjunction.residuals)) == (400, 3)
    assert Selector.parse(str(selector)) == selector
