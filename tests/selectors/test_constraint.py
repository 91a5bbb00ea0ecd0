"""Constraints are sets of values: intersected, compared and spelled as sets are."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.values import AttributeValue, Scalar
from penstock.selectors import ast
from penstock.selectors.constraint import (
    Constraint,
    Exists,
    Null,
    Range,
    Values,
    intersect,
    key_of,
    prefix_end,
    value_of,
)
from penstock.selectors.leaves import leaf_of
from penstock.selectors.like import LikePattern
from penstock.selectors.parser import parse_sql
from strategies import simple_predicates, tries, values

LAST = "\U0010ffff"
A = ast.Attribute("a")
NAN = math.nan

GRID: tuple[Scalar, ...] = (0, 1, 2, 3, "", "a", "ab", "b", True, False)
POOL: tuple[AttributeValue, ...] = (
    None,
    True,
    False,
    *(half / 2 for half in range(-1, 8)),
    math.inf,
    -math.inf,
    *("".join(chars) for size in range(4) for chars in product("\0abc", repeat=size)),
)


def demanded(condition: ast.Condition) -> Constraint | None:
    leaf = leaf_of(condition)
    return leaf[1] if isinstance(leaf, tuple) else None


def both(first: Constraint | None, second: Constraint | None) -> Constraint | None:
    return None if first is None or second is None else intersect(first, second)


def of(text: str) -> Constraint | None:
    """The constraint that the predicates of a text, joined by AND, put on its only attribute."""
    condition = parse_sql(text)
    operands = condition.operands if isinstance(condition, ast.And) else (condition,)
    return reduce(both, map(demanded, operands))


def some(constraint: Constraint | None) -> Constraint:
    assert constraint is not None
    return constraint


def joined(conditions: list[ast.Condition]) -> Constraint | None:
    return reduce(both, map(demanded, conditions))


def is_there(constraint: Constraint | None) -> bool:
    return constraint is not None


drawn = (
    st.one_of(simple_predicates, simple_predicates.map(ast.Not))
    .map(leaf_of)
    .filter(lambda leaf: isinstance(leaf, tuple))
    .map(lambda leaf: some(leaf[1] if isinstance(leaf, tuple) else None))
)
scalars = st.sampled_from(GRID)
signs: st.SearchStrategy[ast.ComparisonOperator] = st.sampled_from(["=", "<>", "<>", "<", "<=", ">", ">="])
prefixes = st.sampled_from(["%", "a%", "ab%", "b%"]).map(lambda pattern: ast.Like(A, pattern))
grid_predicates: st.SearchStrategy[ast.Condition] = st.one_of(
    st.builds(ast.Comparison, signs, st.just(A), scalars.map(ast.Literal)),
    st.lists(scalars, min_size=1, max_size=4).map(lambda each: ast.InList(A, tuple(each))),
    prefixes,
    st.sampled_from([ast.IsNull(A), ast.Not(ast.IsNull(A))]),
)
gridded = st.lists(grid_predicates, min_size=1, max_size=4).map(joined).filter(is_there).map(some)
gridded_with_negated_prefixes = (
    st.lists(st.one_of(grid_predicates, prefixes.map(ast.Not)), min_size=1, max_size=4)
    .map(joined)
    .filter(is_there)
    .map(some)
)


def assert_a_witness_for_every_no(narrow: Constraint, wide: Constraint) -> None:
    witnesses = [value for value in POOL if narrow.contains(value) and not wide.contains(value)]
    assert narrow.implies(wide) == (not witnesses)


@settings(max_examples=tries(1000))
@given(drawn, drawn, values)
@example(some(of("a >= 5")), some(of("a <> 5")), 5.0)
@example(some(of("a LIKE 'a_'")), some(of("a NOT LIKE '%b'")), "ab")
def test_an_intersection_contains_exactly_what_both_contain(
    first: Constraint, second: Constraint, value: AttributeValue
) -> None:
    common = intersect(first, second)
    assert (common is not None and common.contains(value)) == (first.contains(value) and second.contains(value))


@settings(max_examples=tries(500))
@given(gridded_with_negated_prefixes, gridded_with_negated_prefixes)
def test_an_intersection_agrees_with_logic_on_every_value_of_a_dense_pool(
    first: Constraint, second: Constraint
) -> None:
    common = intersect(first, second)
    found = [] if common is None else [value for value in POOL if common.contains(value)]
    assert found == [value for value in POOL if first.contains(value) and second.contains(value)]


@given(drawn, drawn)
def test_the_order_of_an_intersection_does_not_matter(first: Constraint, second: Constraint) -> None:
    assert intersect(first, second) == intersect(second, first)


@given(drawn)
def test_a_constraint_intersected_with_itself_stays_as_it_is(constraint: Constraint) -> None:
    assert intersect(constraint, constraint) == constraint
    assert constraint.implies(constraint)


@settings(max_examples=tries(1500))
@given(drawn, drawn, values)
@example(some(of("a LIKE 'a%'")), some(of("a NOT LIKE 'a_'")), "ab")
def test_an_implication_is_never_claimed_wrongly(narrow: Constraint, wide: Constraint, value: AttributeValue) -> None:
    if narrow.implies(wide) and narrow.contains(value):
        assert wide.contains(value)


@settings(max_examples=tries(500))
@given(drawn, drawn)
def test_an_intersection_implies_both_of_its_sides(first: Constraint, second: Constraint) -> None:
    common = intersect(first, second)
    if common is not None:
        assert common.implies(first)
        assert common.implies(second)


@settings(max_examples=tries(1200))
@given(gridded, gridded)
@example(some(of("a > 0 AND a < 3 AND a <> 1")), some(of("a <> 1 AND a <> 0")))
@example(some(of("a LIKE 'a%' AND a <> 'ab'")), some(of("a >= 'a' AND a < 'b'")))
@example(some(of("a >= 'ab'")), some(of("a > 'ab'")))
@example(some(of("a > 2")), some(of("a IN (3, 4)")))
def test_an_implication_is_denied_only_where_a_value_proves_it_wrong(narrow: Constraint, wide: Constraint) -> None:
    assert_a_witness_for_every_no(narrow, wide)


@settings(max_examples=tries(1200))
@given(gridded, gridded)
@example(some(of("a > 'a' AND a < 'b'")), some(of("a LIKE 'a%' AND a <> 'a'")))
def test_equal_sets_of_values_have_equal_forms(first: Constraint, second: Constraint) -> None:
    alike = all(first.contains(value) == second.contains(value) for value in POOL)
    assert (first == second) == alike
    if alike:
        assert hash(first) == hash(second)


@settings(max_examples=tries(500))
@given(gridded_with_negated_prefixes, gridded_with_negated_prefixes)
@example(some(of("a NOT LIKE 'a%'")), some(of("a NOT LIKE 'ab%'")))
@example(some(of("a >= 'a' AND a NOT LIKE 'a%'")), some(of("a >= 'b'")))
def test_an_implication_with_negated_prefixes_is_denied_only_where_a_value_proves_it_wrong(
    narrow: Constraint, wide: Constraint
) -> None:
    assert_a_witness_for_every_no(narrow, wide)


@pytest.mark.parametrize(
    "text",
    [
        "a LIKE 'a%' AND a NOT LIKE 'a%'",
        "a LIKE 'ab%' AND a NOT LIKE 'a%'",
        "a >= 'ab' AND a < 'ac' AND a NOT LIKE 'a%'",
    ],
)
def test_a_prefix_contradicts_its_own_negation(text: str) -> None:
    assert of(text) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a >= 5 AND a <> 5", "a > 5"),
        ("a <= 5.0 AND a <> 5", "a < 5"),
        ("a >= 5 AND a <= 5", "a = 5"),
        ("a >= 'x' AND a <= 'x'", "a = 'x'"),
        ("a <= ''", "a = ''"),
        ("a >= ''", "a LIKE '%'"),
        ("a > 5 AND a <> 5", "a > 5"),
        ("a > 5 AND a <> 4 AND a <> 6.0", "a <> 6 AND a > 5"),
        ("a IN (1, 5.0, 5)", "a IN (5, 1.0)"),
        ("a IN (1, 2, 'x') AND a > 1", "a = 2"),
        ("a NOT IN (1, 2)", "a <> 2 AND a <> 1"),
        ("a <> TRUE", "a = FALSE"),
        ("a = -0.0", "a = 0"),
        ("a > -0.0", "a > 0.0"),
        ("a <> -0.0", "a <> 0"),
        ("a = 5.0", "a = 5"),
        ("a < 9007199254740993 AND a < 9007199254740992.0", "a < 9007199254740992"),
        ("a LIKE 'ab%'", "a >= 'ab' AND a < 'ac'"),
        ("a LIKE 'a%' AND a LIKE 'ab%'", "a LIKE 'ab%'"),
        ("a LIKE 'a%' AND a > 'ab' AND a <= 'ab'", "a LIKE 'x' AND a <> 'x'"),
        ("a LIKE 'x'", "a = 'x'"),
        ("a NOT LIKE 'x'", "a <> 'x'"),
        ("a NOT LIKE 'x%' AND a < 'b'", "a < 'b'"),
        ("a LIKE 'a_' AND a = 'ab'", "a = 'ab'"),
        ("a LIKE 'a_%' AND a LIKE 'a%_'", "a LIKE 'a_%'"),
        ("a IS NOT NULL AND a > 1", "a > 1"),
    ],
)
def test_the_same_set_written_in_two_ways_has_one_form(one: str, other: str) -> None:
    assert of(one) == of(other)
    assert hash(of(one)) == hash(of(other))
    # An equal number of another type would compare equal, and still be spelled differently.
    assert repr(of(one)) == repr(of(other))


@pytest.mark.parametrize(
    "text",
    [
        "a > 5 AND a < 5",
        "a > 5 AND a <= 5",
        "a >= 5 AND a <= 5 AND a <> 5.0",
        "a < ''",
        "a > 5 AND a > 'x'",
        "a = 1 AND a = TRUE",
        "a IS NULL AND a IS NOT NULL",
        "a IS NULL AND a = 1",
        "a IN (1, 2) AND a > 2",
        "a NOT IN (TRUE, FALSE)",
        "a NOT IN (1, 'x')",
        "a LIKE 'a%' AND a LIKE 'b_'",
        "a NOT LIKE '%'",
        "a < TRUE",
    ],
)
def test_a_contradiction_is_no_constraint_at_all(text: str) -> None:
    assert of(text) is None


def test_true_and_one_are_different_keys() -> None:
    assert key_of(value=True) != key_of(1)
    assert key_of(value=False) != key_of(0.0)
    assert key_of(1) == key_of(1.0)
    assert key_of("1") != key_of(1)
    assert len({key_of(value) for value in (True, 1, 1.0, "1")}) == 3


@given(st.one_of(st.sampled_from(GRID), st.text(), st.integers(), st.floats(allow_nan=False)))
def test_the_value_behind_a_key_is_the_one_it_was_made_of(value: Scalar) -> None:
    again = value_of(key_of(value))
    assert again == value
    assert type(again) is type(value)


def test_true_is_not_among_numbers_nor_one_among_booleans() -> None:
    true, one = some(of("a = TRUE")), some(of("a = 1"))
    assert [true.contains(True), true.contains(1), true.contains(1.0)] == [True, False, False]  # noqa: FBT003
    assert [one.contains(True), one.contains(1), one.contains(1.0)] == [False, True, True]  # noqa: FBT003
    assert not some(of("a >= 0")).contains(True)  # noqa: FBT003
    assert intersect(true, one) is None


@pytest.mark.parametrize(
    "text",
    ["a > 1", "a < 1", "a <= 1", "a >= 1 AND a < 2", "a = 1", "a IN (0, 1)", "a IS NULL", "a LIKE '%'", "a = TRUE"],
)
def test_nan_satisfies_no_comparison(text: str) -> None:
    assert not some(of(text)).contains(NAN)


@pytest.mark.parametrize("text", ["a <> 1", "a NOT IN (1, 2)"])
def test_nan_satisfies_no_range_even_if_that_has_no_bounds(text: str) -> None:
    assert not some(of(text)).contains(NAN)


def test_nan_exists() -> None:
    assert Exists().contains(NAN)


def test_null_and_existence_exclude_each_other_and_complete_each_other() -> None:
    for value in (*POOL, NAN):
        assert Null().contains(value) != Exists().contains(value)
    assert intersect(Null(), Exists()) is None
    assert intersect(Null(), Null()) == Null()
    assert not Null().implies(Exists())
    assert not Exists().implies(Null())


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        ("a", "b"),
        ("ab", "ac"),
        ("a\0", "a\x01"),
        ("\ud7ff", "\ue000"),
        ("a\ud7ff", "a\ue000"),
        ("\ue000", "\ue001"),
        ("\uffff", "\U00010000"),
        (LAST, None),
        (LAST * 3, None),
        ("a" + LAST, "b"),
        ("a" + LAST * 2, "b"),
        (LAST + "a", LAST + "b"),
        ("\ud7ff" + LAST, "\ue000"),
    ],
)
def test_the_end_of_a_prefix_is_the_next_text_that_utf_8_can_carry(prefix: str, end: str | None) -> None:
    assert prefix_end(prefix) == end


@given(st.text(max_size=3), st.text(max_size=3), st.text(max_size=5))
@example("\ud7ff", "", "\ue000")
@example("a" + LAST, LAST, "b")
def test_a_text_lies_before_the_end_of_a_prefix_exactly_if_it_starts_so(prefix: str, tail: str, other: str) -> None:
    end = prefix_end(prefix)
    for text in (prefix, prefix + tail, other, prefix[:-1] + other):
        assert (prefix <= text and (end is None or text < end)) == text.startswith(prefix)


@given(st.text("ab" + LAST, max_size=3), st.text("abc" + LAST, max_size=4))
def test_a_prefix_is_found_again_in_its_bounds(prefix: str, text: str) -> None:
    constraint = demanded(ast.Like(A, prefix + "%"))
    assert isinstance(constraint, Range)
    assert constraint.simple
    assert constraint.prefix == prefix
    assert constraint.contains(text) == text.startswith(prefix)


def test_bounds_that_are_no_prefix_have_none() -> None:
    for text in ("a > 'a' AND a < 'b'", "a >= 'a' AND a <= 'b'", "a >= 'a'", "a >= 'a' AND a < 'c'", "a > 1"):
        constraint = of(text)
        assert isinstance(constraint, Range)
        assert constraint.prefix is None


@given(gridded, st.sampled_from(["", "a", "ab", "b", "c", "aa"]))
def test_a_range_meets_a_prefix_exactly_if_a_text_within_its_bounds_starts_so(bounds: Constraint, prefix: str) -> None:
    if isinstance(bounds, Range) and bounds.text:
        starting = [text for text in POOL if isinstance(text, str) and text.startswith(prefix)]
        assert bounds.meets_prefix(prefix) == any(map(bounds.within_bounds, starting))


def test_values_are_kept_once_and_in_canonical_order() -> None:
    shuffled = Values.of(["b", 2, (True,), "a", 1.0, 1, (False,), -1.5])
    assert shuffled == Values(((False,), (True,), -1.5, 1, 2, "a", "b"))
    assert Values.of([]) is None


def test_numbers_are_compared_exactly() -> None:
    above = some(of("a > 9007199254740992"))
    assert above.contains(2**53 + 1)
    assert not above.contains(float(2**53))
    assert above.contains(10**400)
    assert not above.contains(-(10**400))
    assert above.contains(math.inf)


def test_patterns_of_both_sides_are_kept_once_and_in_order() -> None:
    one, other = LikePattern.parse("%x%"), LikePattern.parse("%b_")
    common = intersect(some(of("a LIKE '%x%' AND a LIKE '%b_'")), some(of("a LIKE '%x%' AND a NOT LIKE 'q_'")))
    assert isinstance(common, Range)
    assert common.patterns == (other, one)
    assert common.unlike == (LikePattern.parse("q_"),)


@given(st.lists(st.one_of(drawn, gridded_with_negated_prefixes), min_size=1, max_size=6))
def test_the_intersection_of_many_is_that_of_each_with_the_next(many: list[Constraint]) -> None:
    common: Constraint | None = many[0]
    for each in many[1:]:
        common = None if common is None else intersect(common, each)
    assert intersect(*many) == common
