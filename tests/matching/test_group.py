from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.chain import Ids
from penstock.matching.group import Group, Verdicts
from penstock.matching.plan import GroupKey, Plan, Threshold, plan_of
from penstock.matching.plan import Test as PlannedTest
from penstock.model.values import AttributeValue
from penstock.selectors import Selector, ast
from penstock.selectors.evaluate import compile_condition
from strategies import NAMES, NUMBERS, TEXTS, tries

Message = dict[str, AttributeValue]
Subscription = tuple[ast.Condition, int]

EXACT = 2**53
NAN = float("nan")
HUGE = 10**400


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.matching.chain.BLOCK_MAX", 4)
        yield


def decides_alone(plan: Plan) -> bool:
    """Whether nothing is probed but the presence of what the group looks at itself."""
    looked_at = {each.name for each in plan.group.bounds}
    looked_at |= {each.name for each in plan.group.tests if isinstance(each, PlannedTest)}
    return all(not isinstance(probe, str) and not probe[1] and probe[0] in looked_at for probe in plan.probes)


class Room:
    """Groups as a cluster without probes would have them, with the conditions beside them to be evaluated."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self.kept: dict[int, tuple[ast.Condition, Plan, int]] = {}
        self.link_of = np.zeros(256, np.uint16)

    def add(self, number: int, condition: ast.Condition, link: int = 0) -> None:
        """Adds a condition of a single conjunction that its group alone decides; leaves out any other."""
        conjunctions = Selector(condition).conjunctions
        plan = plan_of(conjunctions[0]) if len(conjunctions) == 1 else None
        if plan is None or not decides_alone(plan):
            return
        self.kept[number] = (condition, plan, link)
        self.link_of[number] = link
        group = self.groups.setdefault(plan.group, Group(plan.group))
        extra = [float(each) for each in plan.thresholds[1:]]
        group.chain.insert(first_of(plan), number, tuple(extra))
        group.links.add(link, first_of(plan))

    def remove(self, number: int) -> None:
        _, plan, link = self.kept.pop(number)
        group = self.groups[plan.group]
        group.chain.delete(first_of(plan), number)
        group.links.remove(link, first_of(plan), group.chain, self.link_of)

    def found(self, message: Message) -> list[int]:
        found: list[Ids] = []
        verdicts: Verdicts = {}
        for group in self.groups.values():
            group.chain.check_invariants()
            group.collect(message, verdicts, found)
        return sorted(number for ids in found for number in ids.tolist())

    def links(self, message: Message) -> list[int]:
        """One bitmap per group."""
        verdicts: Verdicts = {}
        return [group.links_of(message, verdicts, self.link_of) for group in self.groups.values()]

    def check(self, message: Message) -> None:
        matching = {
            number: (plan.group, link)
            for number, (condition, plan, link) in self.kept.items()
            if compile_condition(condition)(message) is True
        }
        assert self.found(message) == sorted(matching)
        assert self.links(message) == [
            sum(1 << link for link in {link for group, link in matching.values() if group == key})
            for key in self.groups
        ]


def first_of(plan: Plan) -> Threshold:
    return plan.thresholds[0] if plan.thresholds else 0


def room_of(*texts: str) -> Room:
    room = Room()
    for number, text in enumerate(texts):
        room.add(number, Selector.parse(text).condition, link=number % 3)
    assert len(room.kept) == len(texts)
    return room


def compared(name: str, value: str | int | float) -> st.SearchStrategy[ast.Condition]:
    orders: st.SearchStrategy[ast.ComparisonOperator] = st.sampled_from(["<", "<=", ">", ">="])
    return orders.map(lambda order: ast.Comparison(order, ast.Attribute(name), ast.Literal(value)))


numbers = st.sampled_from([*NUMBERS, EXACT - 1, -EXACT, 1e16, 2.0**60])
bounds: st.SearchStrategy[ast.Condition] = st.one_of(
    st.tuples(st.sampled_from("abc"), numbers).flatmap(lambda each: compared(*each)),
    st.sampled_from(TEXTS).flatmap(lambda text: compared("s", text)),
)
checks: st.SearchStrategy[ast.Condition] = st.sampled_from(
    [
        Selector.parse(text).condition
        for text in ("c IS NULL", "s LIKE '%b'", "s NOT LIKE 'a%'", "a + b > 1", "c * 2 < b", "a >= 0 AND a <> 1")
    ]
)
one_or_several: st.SearchStrategy[ast.Condition] = st.one_of(
    bounds,
    checks,
    st.lists(bounds, min_size=2, max_size=4).map(lambda each: ast.And(tuple(each))),
    st.tuples(bounds, checks).map(ast.And),
    st.tuples(bounds, bounds, checks).map(ast.And),
)
subscriptions: st.SearchStrategy[list[Subscription]] = st.lists(
    st.tuples(one_or_several, st.sampled_from([0, 1, 2, 300])), min_size=1, max_size=24
)
values: st.SearchStrategy[AttributeValue] = st.one_of(
    numbers,
    st.sampled_from(TEXTS),
    st.sampled_from([NAN, HUGE, -HUGE, float("inf"), float("-inf"), EXACT + 3, -EXACT - 3, 2**1024 - 1, 2**60 + 1]),
    st.sampled_from([True, False, None]),
)
messages: st.SearchStrategy[list[Message]] = st.lists(
    st.one_of(
        st.dictionaries(st.sampled_from(NAMES), values, max_size=4),
        st.fixed_dictionaries({"a": numbers, "b": values, "c": numbers, "s": st.sampled_from(TEXTS)}),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=tries(500))
@given(subscriptions, messages)
def test_groups_find_the_members_and_links_that_an_evaluation_of_each_finds(
    wanted: list[Subscription], sent: list[Message]
) -> None:
    room = Room()
    for number, (condition, link) in enumerate(wanted):
        room.add(number, condition, link)
    for message in sent:
        room.check(message)


@settings(max_examples=tries(200))
@given(subscriptions, messages, st.data())
def test_groups_forget_the_members_that_left(
    wanted: list[Subscription], sent: list[Message], data: st.DataObject
) -> None:
    room = Room()
    for number, (condition, link) in enumerate(wanted):
        room.add(number, condition, link)
    for number in data.draw(st.lists(st.sampled_from(sorted(room.kept)), unique=True) if room.kept else st.just([])):
        room.remove(number)
        for message in sent:
            room.check(message)


@settings(max_examples=tries(300))
@given(
    st.sampled_from(["a {} {} AND b {} {}", "a {} {} AND b {} {} AND c > 0"]),
    st.tuples(*[st.sampled_from(["<", "<=", ">", ">="])] * 2),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=5, max_size=30),
    st.tuples(st.integers(-1, 10), st.integers(-1, 10)),
)
def test_columns_are_compared_for_long_groups_too(
    shape: str, orders: tuple[str, str], thresholds: list[tuple[int, int]], point: tuple[int, int]
) -> None:
    room = room_of(*(shape.format(orders[0], one, orders[1], other) for one, other in thresholds))
    assert len(room.groups) == 1
    room.check({"a": point[0], "b": point[1], "c": 1})
    room.check({"a": point[0] + 0.5, "b": float(point[1]), "c": 0})


def shortened(value: float) -> str:
    return f"{str(value)[:17]}…" if len(str(value)) > 20 else str(value)


COLUMN = [-EXACT, -EXACT + 1, -1, 0, 1, EXACT - 1, EXACT]


@pytest.mark.parametrize("order", ["<", "<=", ">", ">="])
@pytest.mark.parametrize(
    "value",
    [
        EXACT - 1,
        EXACT,
        EXACT + 1,
        EXACT + 2,
        EXACT + 3,
        -EXACT,
        -EXACT - 1,
        -EXACT - 3,
        float(EXACT),
        2**63 + 1,
        HUGE,
        -HUGE,
        2**1024,
        2**1024 - 1,
        -(2**1024),
        1e308,
        float("inf"),
        float("-inf"),
        NAN,
        0,
        -0.0,
        0.5,
        1,
    ],
    ids=shortened,
)
def test_a_column_is_compared_exactly_with_values_that_no_float_holds(order: str, value: float) -> None:
    texts = [f"a > 0 AND b {order} {threshold}" for threshold in COLUMN]
    room = room_of(*texts, f"a > 0 AND b {order} 1e300", f"a > 0 AND b {order} -1e300")
    (key,) = room.groups
    assert len(key.bounds) == 2
    room.check({"a": 1, "b": value})
    room.check({"a": value, "b": 1})


@pytest.mark.parametrize(("value", "count"), [(HUGE, 7), (-HUGE, 0), (NAN, 0), (EXACT + 1, 7), (EXACT, 6)])
def test_members_above_a_column_are_counted_as_one_would_by_hand(value: float, count: int) -> None:
    room = room_of(*(f"a > 0 AND b > {threshold}" for threshold in COLUMN))
    assert len(room.found({"a": 1, "b": value})) == count
    assert len(room.found({"a": NAN, "b": value})) == 0


@pytest.mark.parametrize("value", ["1", True, None, NAN])
@pytest.mark.parametrize("text", ["a > 0", "a < 9", "a > 0 AND b > 0", "b > 0 AND a < 9"])
def test_what_is_not_a_number_meets_no_bound_on_numbers(text: str, value: AttributeValue) -> None:
    room = room_of(text)
    assert room.found({"a": 1, "b": 1}) == [0]
    assert room.found({"a": value, "b": 1}) == []
    assert room.links({"a": value, "b": 1}) == [0]


@pytest.mark.parametrize("value", [1, 0.5, True, None, NAN, HUGE])
def test_what_is_not_a_text_meets_no_bound_on_texts(value: AttributeValue) -> None:
    room = room_of("s > ''", "s >= 'a' AND s < 'c'", "s <= 'm'")
    assert room.found({"s": "b"}) == [0, 1, 2]
    assert room.found({"s": value}) == []


def test_an_absent_attribute_meets_no_bound() -> None:
    room = room_of("a > 0", "a > 0 AND b > 0", "s > 'a'")
    assert room.found({}) == []
    assert room.found({"a": 1}) == [0]
    assert room.links({"b": 1}) == [0, 0, 0]


@pytest.mark.parametrize("text", ["a <> 5", "a NOT IN (5, 6)"])
def test_nan_is_not_said_to_differ_from_a_number(text: str) -> None:
    room = room_of(text)
    room.check({"a": 4})
    room.check({"a": NAN})


def test_a_test_is_evaluated_once_for_all_groups_that_share_it() -> None:
    room = room_of("a + b > 1", "a + b > 1 AND c > 0", "a + b > 1 AND c < 9")
    assert len(room.groups) == 3
    verdicts: Verdicts = {}
    found: list[Ids] = []
    for group in room.groups.values():
        group.collect({"a": 1, "b": 1, "c": 1}, verdicts, found)
    assert list(verdicts.values()) == [True]
    assert len(found) == 3


def test_what_a_verdict_says_is_believed() -> None:
    room = room_of("a + b > 1", "a + b > 1 AND c > 0", "a + b > 1 AND c > 0 AND b > 0")
    message: Message = {"a": 1, "b": 1, "c": 1}
    for group in room.groups.values():
        denied: Verdicts = dict.fromkeys(group.key.tests, False)
        found: list[Ids] = []
        group.collect(message, denied, found)
        assert found == []
        assert group.links_of(message, denied, room.link_of) == 0
        assert group.links_of(message, {}, room.link_of) != 0


def test_a_test_is_not_evaluated_where_the_first_bound_has_no_value() -> None:
    room = room_of("a + b > 1 AND c > 0")
    (group,) = room.groups.values()
    verdicts: Verdicts = {}
    group.collect({"a": 1, "b": 1}, verdicts, [])
    group.links_of({"a": 1, "b": 1, "c": "x"}, verdicts, room.link_of)
    assert verdicts == {}


@pytest.mark.parametrize(
    ("text", "repeated", "simple"),
    [
        ("TRUE", False, True),
        ("a > 1", False, True),
        ("a > 1", True, False),
        ("a > 1 AND b > 1", False, False),
        ("a <> 1", False, False),
        ("a > 1 AND c IS NULL", False, False),
    ],
)
def test_a_group_is_simple_if_its_chain_alone_decides(text: str, repeated: bool, simple: bool) -> None:
    (conjunction,) = Selector.parse(text).conjunctions
    assert Group(plan_of(conjunction, repeated=repeated).group).is_simple == simple


def test_a_group_without_members_finds_nothing() -> None:
    room = room_of("TRUE", "a > 1", "a > 1 AND b > 1", "c IS NULL")
    for number in range(4):
        room.remove(number)
    assert room.found({"a": 5, "b": 5}) == []
    assert room.links({"a": 5, "b": 5}) == [0, 0, 0, 0]
