from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.plan import SPREAD_MAX, ClusterKey, Plan, Probe, Threshold, _group_key, _kept_plan, plan_of
from penstock.matching.plan import Test as ConstraintTest
from penstock.model.values import AttributeValue
from penstock.selectors import Selector, ast
from penstock.selectors.constraint import Key, Range, Values, key_of
from penstock.selectors.normal_form import Residual
from penstock.selectors.printer import constraint_texts
from strategies import NAMES, conditions, conjunctions, messages, tries

Message = dict[str, AttributeValue]
Compare = Callable[[Any, Any], bool]

COMPARE: dict[str, Compare] = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
PRESENT = key_of(value=True)
EXACT = 2**53
LAST = "\U0010ffff"


def planned(text: str) -> Plan:
    (conjunction,) = Selector.parse(text).conjunctions
    return plan_of(conjunction)


def bounds_of(plan: Plan) -> list[tuple[str, Threshold]]:
    bounds = zip(plan.group.bounds, plan.thresholds, strict=True)
    assert all(bound.text == isinstance(threshold, str) for bound, threshold in bounds)
    return [(f"{b.name} {b.operator}", t) for b, t in zip(plan.group.bounds, plan.thresholds, strict=True)]


def checks_of(plan: Plan) -> list[str]:
    return [
        test.text if isinstance(test, Residual) else " AND ".join(constraint_texts(test.name, test.constraint))
        for test in plan.group.tests
    ]


def among(name: str, count: int) -> str:
    return f"{name} IN ({', '.join(map(str, range(count)))})"


@pytest.mark.parametrize(
    ("text", "probes", "keys"),
    [
        ("TRUE", (), [()]),
        ("a > 1", (("a", 0),), [PRESENT]),
        ("a > 1 AND b < 2", (("a", 0),), [PRESENT]),
        ("a > 1 AND b = 2", ("b",), [2]),
        ("a IS NULL", (), [()]),
        ("a + b > 1", (), [()]),
        ("a = 1", ("a",), [1]),
        ("a = 1.0", ("a",), [1]),
        ("a = TRUE", ("a",), [(True,)]),
        ("a <> TRUE", ("a",), [(False,)]),
        ("s = 'x'", ("s",), ["x"]),
        ("s LIKE 'x'", ("s",), ["x"]),
        ("s LIKE 'ab%'", (("s", 2),), ["ab"]),
        ("s LIKE 'ab_'", (("s", 2),), ["ab"]),
        ("s LIKE 'ab%' AND s <> 'abc'", (("s", 2),), ["ab"]),
        (f"s >= '{LAST}'", (("s", 1),), [LAST]),
        ("s >= 'ab' AND s < 'ac'", (("s", 2),), ["ab"]),
        ("s >= 'ab' AND s <= 'ac'", (("s", 0),), [PRESENT]),
        ("s > 'ab' AND s < 'ac'", (("s", 0),), [PRESENT]),
        ("s LIKE '%'", (("s", 0),), [PRESENT]),
        ("s LIKE '_b%'", (("s", 0),), [PRESENT]),
        ("a IS NOT NULL", (("a", 0),), [PRESENT]),
        ("b = 2 AND a = 1", ("a", "b"), [(1, 2)]),
        ("b = 2 AND a = TRUE", ("a", "b"), [((True,), 2)]),
        ("a = 1 AND s LIKE 'x%' AND c IS NOT NULL", ("a", ("c", 0), ("s", 1)), [(1, PRESENT, "x")]),
        ("a = 1 AND b > 2", ("a",), [1]),
        ("a IN (3, 1, TRUE, 'x')", ("a",), [(True,), 1, 3, "x"]),
        ("a IN (1, 2) AND b = 3", ("a", "b"), [(1, 3), (2, 3)]),
        ("a IN (1, 2) AND b IN (3, 4)", ("a", "b"), [(1, 3), (1, 4), (2, 3), (2, 4)]),
        ("a IN (1, 2) AND a > 1", ("a",), [2]),
    ],
)
def test_equalities_prefixes_and_presence_become_probes(
    text: str, probes: tuple[Probe, ...], keys: list[ClusterKey]
) -> None:
    plan = planned(text)
    assert plan.probes == probes
    assert plan.keys == keys
    assert plan.group.spread == (len(keys) > 1)


@pytest.mark.parametrize(
    ("text", "bounds", "tests"),
    [
        ("TRUE", [], []),
        ("a = 1", [], []),
        ("a IS NOT NULL", [], []),
        ("s LIKE 'ab%'", [], []),
        ("a > 1", [("a >", 1)], []),
        ("a >= 1.5", [("a >=", 1.5)], []),
        ("a < -1", [("a <", -1)], []),
        ("NOT a > 1", [("a <=", 1)], []),
        ("a BETWEEN 1 AND 2", [("a >=", 1), ("a <=", 2)], []),
        ("b < 3 AND a > 1", [("a >", 1), ("b <", 3)], []),
        ("a > 1 AND b = 2 AND c <= 3", [("a >", 1), ("c <=", 3)], []),
        ("a > 1 AND a <> 5", [("a >", 1)], ["a > 1 AND a <> 5"]),
        ("a >= 1 AND a <> 1", [("a >", 1)], []),
        ("a <> 5", [], ["a <> 5"]),
        ("a IS NULL", [], ["a IS NULL"]),
        ("a + b > 1", [], ["a + b > 1"]),
        ("a > 1 AND a + b > 1 AND b IS NULL", [("a >", 1)], ["b IS NULL", "a + b > 1"]),
        ("s > 'm'", [("s >", "m")], []),
        ("s >= 'm'", [("s >=", "m")], []),
        ("s < 'm'", [("s <", "m")], []),
        ("s <= 'm'", [("s <=", "m")], []),
        ("s > ''", [("s >", "")], []),
        ("s >= ''", [], ["s LIKE '%'"]),
        ("s LIKE '%'", [], ["s LIKE '%'"]),
        ("s <> 'x'", [], ["s <> 'x'"]),
        ("s LIKE '%x'", [], ["s LIKE '%x'"]),
        ("s LIKE 'ab_'", [], ["s LIKE 'ab_'"]),
        ("s < 'm' AND s NOT LIKE 'ab%'", [("s <", "m")], ["s < 'm' AND s NOT LIKE 'ab%'"]),
    ],
)
def test_comparisons_become_bounds_and_the_rest_becomes_tests(
    text: str, bounds: list[tuple[str, Threshold]], tests: list[str]
) -> None:
    plan = planned(text)
    assert bounds_of(plan) == bounds
    assert checks_of(plan) == tests


@pytest.mark.parametrize(
    ("text", "bounds", "tests"),
    [
        # A first and only bound is compared by Python, exactly.
        (f"a > {EXACT + 1}", [("a >", EXACT + 1)], []),
        (f"a > {EXACT} AND b < {-EXACT}", [("a >", EXACT), ("b <", -EXACT)], []),
        (f"a > 1 AND b < {EXACT + 1}", [("a >", 1)], [f"b < {EXACT + 1}"]),
        (f"a > 1 AND b >= {-EXACT - 1}", [("a >", 1)], [f"b >= {-EXACT - 1}"]),
        (f"a > {EXACT + 1} AND b < 1", [("b <", 1)], [f"a > {EXACT + 1}"]),
        (f"a > {EXACT + 1} AND b < {EXACT + 3}", [("a >", EXACT + 1)], [f"b < {EXACT + 3}"]),
        (f"a > {EXACT + 2} AND b < {2**60}", [("a >", EXACT + 2), ("b <", 2**60)], []),
        (f"a BETWEEN 1 AND {EXACT + 1}", [("a >=", 1)], [f"a <= {EXACT + 1}"]),
        ("a > 1e300 AND b < 0.1", [("a >", 1e300), ("b <", 0.1)], []),
        ("a > 1 AND s > 'm'", [("a >", 1)], ["s > 'm'"]),
        ("a > 1 AND b < 2 AND s <= 'm'", [("a >", 1), ("b <", 2)], ["s <= 'm'"]),
        ("s > 'a' AND s <= 'm'", [("s >", "a")], ["s <= 'm'"]),
        (f"a > {EXACT + 1} AND s < 'm'", [("a >", EXACT + 1)], ["s < 'm'"]),
    ],
)
def test_beside_another_bound_a_threshold_that_no_float_holds_becomes_a_test(
    text: str, bounds: list[tuple[str, Threshold]], tests: list[str]
) -> None:
    plan = planned(text)
    assert bounds_of(plan) == bounds
    assert checks_of(plan) == tests


@pytest.mark.parametrize(
    ("text", "probes", "places", "tested"),
    [
        (among("a", SPREAD_MAX), ("a",), SPREAD_MAX, []),
        (among("a", SPREAD_MAX + 1), (), 1, ["a"]),
        (f"{among('a', 8)} AND {among('b', 8)}", ("a", "b"), 64, []),
        (f"{among('a', 9)} AND {among('b', 8)}", ("b",), 8, ["a"]),
        (f"{among('a', 8)} AND {among('b', 9)}", ("a",), 8, ["b"]),
        (f"{among('a', 60)} AND {among('b', 5)} AND {among('c', 2)}", ("b", "c"), 10, ["a"]),
        (f"{among('a', 65)} AND b = 1 AND s LIKE 'x%'", ("b", ("s", 1)), 1, ["a"]),
        (f"{among('a', 65)} AND s LIKE 'x%'", (("s", 1),), 1, ["a"]),
        (f"{among('a', 65)} AND {among('b', 66)}", (), 1, ["a", "b"]),
    ],
)
def test_lists_are_spread_over_clusters_up_to_the_limit_the_shortest_first(
    text: str, probes: tuple[Probe, ...], places: int, tested: list[str]
) -> None:
    plan = planned(text)
    assert plan.probes == probes
    assert len(plan.keys) == len(set(plan.keys)) == places
    assert plan.group.spread == (places > 1)
    assert [test.name for test in plan.group.tests if isinstance(test, ConstraintTest)] == tested
    assert plan.has_value_test == bool(tested)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"{among('a', 65)} AND b = 1", [1]),
        (f"{among('a', 65)} AND b = TRUE", [PRESENT]),
        (f"{among('a', 65)} AND s LIKE 'x%'", ["x"]),
        (f"{among('a', 30)} AND {among('b', 3)}", [0, 1, 2]),
        (f"{among('a', 65)} AND b = 1 AND c = 2", [(1, 2)]),
        (among("a", 65), [()]),
    ],
)
def test_a_probe_left_alone_by_the_limit_has_its_values_for_keys_not_tuples_of_them(
    text: str, keys: list[ClusterKey]
) -> None:
    assert planned(text).keys == keys


def test_a_list_that_is_tested_keeps_all_its_values() -> None:
    (test,) = planned(among("a", SPREAD_MAX + 1)).group.tests
    assert isinstance(test, ConstraintTest)
    assert test.constraint == Values(tuple(range(SPREAD_MAX + 1)))


def test_other_tests_are_not_tests_of_values() -> None:
    assert not planned("a <> 1 AND b IS NULL AND a + b > 1").has_value_test


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1", "a > 2"),
        ("a > 1 AND s = 'x'", "s = 'y' AND a > 2.5"),
        ("a > 1 AND b < 2 AND c <> 5", "c <> 5.0 AND b < 4 AND a > 3"),
        ("s > 'm' AND a IS NULL", "s > 'n' AND a IS NULL"),
        ("a + b > 1 AND c > 1", "c > 2 AND a + b > 1"),
        ("a IN (1, 2) AND b > 1", "a IN (3, 4, 5) AND b > 2"),
        ("s LIKE 'ab_'", "(s LIKE 'ab_')"),
        (f"a > 1 AND b < {EXACT + 1}", f"a > 2 AND b < {EXACT + 1}"),
    ],
)
def test_equal_shapes_have_equal_group_keys_whatever_their_values(one: str, other: str) -> None:
    first, second = planned(one), planned(other)
    assert first.group == second.group
    assert hash(first.group) == hash(second.group)
    assert first.probes == second.probes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1", "a >= 1"),
        ("a > 1", "a < 1"),
        ("a > 1", "b > 1"),
        ("a > 1", "a > 'x'"),
        ("a > 1", "a > 1 AND b > 1"),
        ("a <> 1", "a <> 2"),
        ("a <> 1", "b <> 1"),
        ("a + b > 1", "a + b > 2"),
        ("a = 1", "a IN (1, 2)"),
    ],
)
def test_unequal_shapes_have_unequal_group_keys(one: str, other: str) -> None:
    assert planned(one).group != planned(other).group


def test_a_conjunction_among_several_is_kept_apart_from_lone_ones() -> None:
    (conjunction,) = Selector.parse("a > 1").conjunctions
    lone, among_others = plan_of(conjunction), plan_of(conjunction, repeated=True)
    assert not lone.group.repeated
    assert among_others.group == lone.group._replace(repeated=True)
    assert among_others[:2] == lone[:2]


def test_a_test_is_equal_to_another_of_the_same_attribute_and_constraint_only() -> None:
    no_five = Range.of(text=False, excluded=(5,))
    assert no_five is not None
    assert ConstraintTest("a", no_five) == ConstraintTest("a", no_five)
    assert hash(ConstraintTest("a", no_five)) == hash(ConstraintTest("a", no_five))
    assert ConstraintTest("a", no_five) != ConstraintTest("b", no_five)
    assert ConstraintTest("a", no_five) != ConstraintTest("a", Values((1,)))
    assert ConstraintTest("a", no_five) != no_five
    assert ConstraintTest("a", no_five).passes({"a": 4, "b": 5})
    assert not ConstraintTest("a", no_five).passes({"a": 5})
    assert not ConstraintTest("a", no_five).passes({"b": 4})


def seen(probe: Probe, message: Message) -> Key | None:
    name, length = (probe, None) if isinstance(probe, str) else probe
    value = message.get(name)
    if length is None or value is None:
        return None if value is None else key_of(value)
    if length == 0:
        return PRESENT
    return value[:length] if isinstance(value, str) and len(value) >= length else None


def admits(plan: Plan, message: Message) -> bool:
    """What a plan says of a message, read piece by piece and without any index."""
    keys = tuple(seen(probe, message) for probe in plan.probes)
    if (keys[0] if len(keys) == 1 else keys) not in plan.keys:
        return False
    for bound, threshold in zip(plan.group.bounds, plan.thresholds, strict=True):
        value = message.get(bound.name)
        kinds: tuple[type, ...] = (str,) if bound.text else (int, float)
        if type(value) not in kinds or not COMPARE[bound.operator](value, threshold):
            return False
    return all(test.passes(message) for test in plan.group.tests)


full_messages = st.tuples(*[st.one_of(st.integers(-5, 5), st.sampled_from(["", "a", "ab", "b"]))] * len(NAMES)).map(
    lambda each: dict(zip(NAMES, each, strict=True))
)


@settings(max_examples=tries(1000))
@given(st.one_of(conjunctions, conditions), st.one_of(messages, full_messages))
def test_the_pieces_of_a_plan_say_together_what_the_conjunction_says(
    condition: ast.Condition, message: Message
) -> None:
    for conjunction in Selector(condition).conjunctions:
        assert admits(plan_of(conjunction), message) == conjunction.matches(message)


@settings(max_examples=tries(200))
@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, 2, 8, 9, 30, 65]), min_size=1),
    st.tuples(*[st.integers(0, 66)] * 3),
)
def test_the_pieces_of_a_plan_with_long_lists_say_what_the_conjunction_says(
    counts: dict[str, int], point: tuple[int, int, int]
) -> None:
    (conjunction,) = Selector.parse(" AND ".join(among(name, count) for name, count in counts.items())).conjunctions
    inside = {name: value % counts.get(name, 1) for name, value in zip("abc", point, strict=True)}
    for message in (inside, dict(zip("abc", point, strict=True))):
        assert admits(plan_of(conjunction), dict(message)) == conjunction.matches(message)


@settings(max_examples=tries(500))
@given(conjunctions)
def test_columns_hold_numbers_that_floats_hold_exactly(condition: ast.Condition) -> None:
    for conjunction in Selector(condition).conjunctions:
        plan = plan_of(conjunction)
        assert len(plan.thresholds) == len(plan.group.bounds)
        for threshold in plan.thresholds[1:]:
            assert not isinstance(threshold, str)
            assert float(threshold) == threshold
        assert 1 <= len(plan.keys) == len(set(plan.keys)) <= SPREAD_MAX


@pytest.mark.parametrize(
    "text",
    [
        among("a", 60),
        "a = '" + "x" * 1_000 + "'",
        "a > '" + "x" * 1_000 + "'",
        "a LIKE '%" + "x" * 1_000 + "%'",
        " AND ".join(f"a{number} = 1" for number in range(20)),
        " + ".join(["a" * 100] * 6) + " = 1",
    ],
)
def test_plans_of_large_conjunctions_are_not_kept(text: str) -> None:
    _kept_plan.cache_clear()
    _group_key.cache_clear()
    (conjunction,) = Selector.parse(text).conjunctions
    assert plan_of(conjunction) == plan_of(conjunction)
    assert (_kept_plan.cache_info().currsize, _group_key.cache_info().currsize) == (0, 0)


def test_plans_of_small_conjunctions_are_kept() -> None:
    (conjunction,) = Selector.parse("a = 'x' AND b > 'c' AND d > 1 AND e IN (1, 2)").conjunctions
    assert plan_of(conjunction) is plan_of(conjunction)
