"""Normal forms stay small, keep what can be indexed, and mean the same each time they are read."""

from __future__ import annotations

import pickle
import tracemalloc
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.limits import SELECTOR_CHARS_MAX, SELECTOR_CONJUNCTIONS_MAX
from penstock.model.values import AttributeValue
from penstock.selectors import ast
from penstock.selectors.constraint import Exists, Null, Range, Values
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.normal_form import Conjunction, Residual, needs_of, normalise
from penstock.selectors.parser import parse_sql
from penstock.selectors.text import parse
from strategies import conditions, conjunctions, messages, tries

Message = dict[str, AttributeValue]


def form(text: str) -> tuple[Conjunction, ...]:
    return normalise(parse_sql(text))


def only(text: str) -> Conjunction:
    (conjunction,) = form(text)
    return conjunction


def written(conjunctions: tuple[Conjunction, ...]) -> str:
    return " OR ".join(map(str, conjunctions)) or "FALSE"


def one_of(name: str, count: int) -> str:
    """Alternatives that do not melt into one, in parentheses."""
    return "(" + " OR ".join(f"{name} = {number}" for number in range(count)) + ")"


def assert_stable(text: str) -> tuple[Conjunction, ...]:
    once = form(text)
    again = form(written(once))
    assert again == once
    assert written(again) == written(once)
    return once


def test_the_limit_is_the_one_these_tests_are_written_for() -> None:
    assert SELECTOR_CONJUNCTIONS_MAX == 64


def test_a_product_up_to_the_limit_is_expanded() -> None:
    conjunctions = assert_stable(f"{one_of('a', 8)} AND {one_of('b', 8)}")
    assert len(conjunctions) == 64
    assert not any(each.residuals for each in conjunctions)
    assert {(each.constraints["a"], each.constraints["b"]) for each in conjunctions} == {
        (Values((a,)), Values((b,))) for a, b in product(range(8), repeat=2)
    }


def test_a_product_over_the_limit_is_one_conjunction_whose_simple_parts_stay_constraints() -> None:
    (conjunction,) = assert_stable(f"x > 1 AND {one_of('a', 13)} AND x > 3 AND {one_of('b', 5)} AND s LIKE 'ab%'")
    assert conjunction.constraints == {
        "s": Range(text=True, low="ab", high="ac", high_open=True),
        "x": Range(text=False, low=3, low_open=True),
    }
    assert [each.text for each in conjunction.residuals] == [one_of("a", 13)[1:-1], one_of("b", 5)[1:-1]]
    assert conjunction.matches({"x": 4, "s": "abc", "a": 12, "b": 4})
    assert not conjunction.matches({"x": 4, "s": "abc", "a": 13, "b": 4})
    assert not conjunction.matches({"x": 4, "s": "abc", "a": 12})
    assert not conjunction.matches({"x": 3, "s": "abc", "a": 12, "b": 4})


def test_alternatives_up_to_the_limit_are_conjunctions_and_beyond_it_one_residual() -> None:
    assert len(assert_stable(one_of("a", 64))) == 64
    (conjunction,) = assert_stable(one_of("a", 65))
    assert conjunction.constraints == {}
    assert [each.text for each in conjunction.residuals] == [one_of("a", 65)[1:-1]]
    assert conjunction.matches({"a": 64})
    assert not conjunction.matches({"a": 65})


@pytest.mark.parametrize(
    "text",
    [
        f"{one_of('a', 5)} AND {one_of('b', 5)} AND {one_of('c', 5)}",
        f"{one_of('c', 5)} AND {one_of('a', 5)} AND {one_of('b', 5)} OR d = 1",
        f"{one_of('a', 65)} AND {one_of('b', 2)}",
        f"{one_of('a', 65)} AND {one_of('a', 70)} AND b = 1",
        f"{one_of('a', 65)} OR b = 1 AND {one_of('c', 3)}",
        f"{one_of('a', 8)} AND {one_of('b', 8)} OR c = 1",
        f"({one_of('a', 9)} AND {one_of('b', 9)} OR c = 1) AND {one_of('d', 40)} AND e > 1",
        f"({one_of('a', 9)} AND {one_of('b', 9)} OR c = 1) AND {one_of('d', 4)} AND e > 1",
        f"(FALSE OR {one_of('a', 5)} AND {one_of('b', 5)} AND {one_of('c', 5)}) AND {one_of('d', 5)}",
        f"(FALSE OR {one_of('a', 5)} AND {one_of('b', 5)}) AND {one_of('d', 5)}",
        f"(x = 1 AND x = 2 OR y = 1) AND {one_of('a', 9)} AND {one_of('b', 9)}",
        f"NOT ({one_of('a', 9)} AND NOT {one_of('b', 70)}) AND {one_of('c', 9)} AND b NOT IN (1, 2)",
        f"({one_of('a', 9)} OR s NOT LIKE 'x_') AND ({one_of('b', 9)} OR a NOT IN (1) OR 5 < a + 1 * 2)",
        f"{one_of('a', 9)} AND {one_of('b', 9)} AND a + b > 1 AND -(-a) < 5",
        f"{one_of('a', 9)} OR {one_of('a', 60)}",
        "a = 1 OR " * 70 + "a = 1",
    ],
)
def test_a_large_selector_written_and_read_again_is_the_same(text: str) -> None:
    for each in assert_stable(text):
        assert form(str(each)) == (each,)


def test_alternatives_demanded_twice_are_the_same_after_they_are_written_once() -> None:
    assert_stable(f"{one_of('a', 9)} AND {one_of('a', 9)}")


alternatives = st.builds(one_of, st.sampled_from("abcd"), st.integers(1, 12))
large = st.recursive(
    alternatives,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda each: "(" + " AND ".join(each) + ")"),
        st.lists(inner, min_size=2, max_size=4).map(lambda each: "(" + " OR ".join(each) + ")"),
        inner.map(lambda each: f"NOT {each}"),
    ),
    max_leaves=12,
)


@settings(max_examples=tries(200), deadline=None)
@given(large, st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(-1, 12)), min_size=5, max_size=5))
def test_whatever_the_size_the_form_is_small_stable_and_true_where_the_condition_is(
    text: str, samples: list[Message]
) -> None:
    conjunctions = assert_stable(text)
    assert len(conjunctions) <= SELECTOR_CONJUNCTIONS_MAX
    evaluate = compile_condition(parse_sql(text))
    for message in samples:
        assert any(each.matches(message) for each in conjunctions) == (evaluate(message) is True)


def test_an_expansion_that_would_be_too_long_a_text_is_not_made() -> None:
    name = "n" * 250
    text = f"{one_of(name, 21)} AND {one_of('b', 3)} AND c > 1"
    assert len(text) * 3 > SELECTOR_CHARS_MAX
    (conjunction,) = assert_stable(text)
    assert list(conjunction.constraints) == ["c"]
    assert len(conjunction.residuals) == 2
    assert conjunction.matches({name: 19, "b": 2, "c": 2})
    assert not conjunction.matches({name: 19, "b": 3, "c": 2})
    assert not conjunction.matches({name: 21, "b": 2, "c": 2})


def test_an_expansion_that_fits_the_limit_of_texts_is_made() -> None:
    name = "n" * 250
    assert len(assert_stable(f"{one_of(name, 10)} AND {one_of('b', 3)}")) == 30


def test_a_contradiction_beside_many_alternatives_does_not_let_them_explode() -> None:
    # Two to the power of 14 conjunctions take over ten megabytes; each further pair of alternatives doubles that.
    condition = parse_sql(" AND ".join(one_of(f"a{number}", 2) for number in range(14)) + " AND FALSE")
    tracemalloc.start()
    try:
        assert normalise(condition) == ()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a > 1 OR a > 3", "a > 1"),
        ("a > 3 OR a > 1 OR a = 2", "a > 1"),
        ("a = 1 OR a = 1 AND b = 2", "a = 1"),
        ("a = 1 OR a = 1", "a = 1"),
        ("a > 1 OR TRUE", "TRUE"),
        ("a > 1 AND TRUE", "a > 1"),
        ("a > 1 OR FALSE", "a > 1"),
        ("a > 1 OR a IS NOT NULL", "a IS NOT NULL"),
        ("s LIKE 'a%' OR s LIKE 'ab%' OR s = 'abc'", "s LIKE 'a%'"),
        ("a + b > 1 OR a + b > 1 AND c = 1", "a + b > 1"),
        ("a + b > 1 OR 1 < a + b", "a + b > 1"),
        ("b = 1 OR a = 1", "a = 1 OR b = 1"),
    ],
)
def test_what_another_alternative_covers_is_absorbed(text: str, expected: str) -> None:
    assert written(form(text)) == expected


@settings(max_examples=tries(300))
@given(st.lists(conjunctions, min_size=2, max_size=5))
def test_no_conjunction_of_a_form_covers_another(operands: list[ast.Condition]) -> None:
    found = normalise(ast.Or(tuple(operands)))
    for place, each in enumerate(found):
        assert not any(other.covers(each) for rank, other in enumerate(found) if rank != place)


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "NOT TRUE",
        "a > 5 AND a < 5",
        "a = 1 AND (a = 2 OR a = 3)",
        "(a = 1 OR a = 2) AND (a = 3 OR a = 4)",
        "a IS NULL AND a = 1",
        "a = 1 AND FALSE OR 2 < 1",
        "1 = 'x' OR NOT (1 = 'x')",
        "a > TRUE OR NOT (a > TRUE)",
    ],
)
def test_contradictions_vanish(text: str) -> None:
    assert form(text) == ()


def test_a_contradictory_alternative_vanishes_alone() -> None:
    assert written(form("a = 1 AND a = 2 OR b = 1")) == "b = 1"
    assert written(form("(a = 1 OR b = 1) AND a = 2")) == "a = 2 AND b = 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NOT (a > 1 AND b = 2)", "a <= 1 OR b <> 2"),
        ("NOT (a > 1 OR NOT (b = 2 AND c IS NULL))", "a <= 1 AND b = 2 AND c IS NULL"),
        ("NOT NOT a LIKE 'x_'", "a LIKE 'x_'"),
        ("NOT a BETWEEN 1 AND 2", "a < 1 OR a > 2"),
        ("NOT (a IS NULL)", "a IS NOT NULL"),
        ("NOT (a + b > 1)", "a + b <= 1"),
        ("TRUE", "TRUE"),
    ],
)
def test_negations_are_pushed_down_to_the_predicates(text: str, expected: str) -> None:
    assert written(form(text)) == expected


def test_the_smallest_integer_is_written_alike_whether_it_came_as_an_integer_or_as_a_float() -> None:
    as_integer, as_float = only("a = -9223372036854775808"), only("a = -9223372036854775808.0")
    assert as_integer == as_float
    assert str(as_integer) == str(as_float)
    assert form("a = -9223372036854775808 OR a = -91") == form("a = -9223372036854775808.0 OR a = -91")


def test_conjunctions_are_equal_whatever_the_order_they_were_made_in() -> None:
    first = Conjunction({"a": Null(), "b": Exists()}, (Residual(parse_sql("a > b")), Residual(parse_sql("b > c"))))
    second = Conjunction({"b": Exists(), "a": Null()}, (Residual(parse_sql("b > c")), Residual(parse_sql("a > b"))))
    assert first == second
    assert hash(first) == hash(second)
    assert str(first) == str(second) == "a IS NULL AND b IS NOT NULL AND a > b AND b > c"
    assert repr(first) == f"Conjunction({str(first)!r})"


def test_conjunctions_differ_by_any_part() -> None:
    texts = ("a = 1", "a = TRUE", "b = 1", "a IS NULL", "a IS NOT NULL", "a = 1 AND a > b", "a > b", "a >= b", "TRUE")
    assert len({only(text) for text in texts}) == len(texts)
    assert only("a = 1") != "a = 1"
    assert Residual(parse_sql("a > b")) != "a > b"


def test_a_residual_is_kept_once() -> None:
    assert str(only("a > b AND c = 1 AND b < a AND a > b")) == "c = 1 AND a > b AND b < a"


def test_alternatives_among_residuals_are_written_in_parentheses() -> None:
    large_or = Residual(parse_sql("a > b OR b > c"))
    assert str(Conjunction({"c": Null()}, (large_or,))) == "c IS NULL AND (a > b OR b > c)"
    assert str(Conjunction({})) == "TRUE"


def test_a_residual_is_true_only_where_its_condition_is_neither_false_nor_unknown() -> None:
    residual = Residual(parse_sql("a > b"))
    for _ in range(2):
        assert residual.passes({"a": 2, "b": 1})
        assert not residual.passes({"a": 1, "b": 2})
        assert not residual.passes({"a": 1})


@pytest.mark.parametrize("text", ["a > 1 AND s LIKE 'x_' AND a + b > 5", one_of("a", 65), "TRUE", "a = TRUE"])
def test_a_pickled_conjunction_is_the_same(text: str) -> None:
    conjunction = only(text)
    conjunction.matches({"a": 2, "s": "xy"})
    copied = pickle.loads(pickle.dumps(conjunction))  # noqa: S301 - our own bytes
    assert copied == conjunction
    assert hash(copied) == hash(conjunction)
    assert str(copied) == str(conjunction)
    assert copied.matches({"a": 2, "s": "xy", "b": 9}) == conjunction.matches({"a": 2, "s": "xy", "b": 9})


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("TRUE", "a = 1"),
        ("a > 1", "a > 1 AND b = 1"),
        ("a > 1 AND b > 1", "b = 2 AND a = 2 AND c IS NULL"),
        ("a > b", "a > b AND c = 1"),
        ("a IS NOT NULL", "a IN (1, 'x')"),
    ],
)
def test_a_conjunction_covers_one_that_demands_more(wide: str, narrow: str) -> None:
    assert only(wide).covers(only(narrow))
    assert not only(narrow).covers(only(wide))


@settings(max_examples=tries(500))
@given(conditions, conditions, messages)
def test_a_conjunction_never_covers_one_that_matches_more(
    one: ast.Condition, other: ast.Condition, message: Message
) -> None:
    for wide, narrow in product(normalise(one), normalise(other)):
        if wide.covers(narrow) and narrow.matches(message):
            assert wide.matches(message)


# --- what conditions need


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
