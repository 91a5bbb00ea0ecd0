from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching import MatchIndex, SubscriptionError
from penstock.matching.index import LINKS_MAX, SUBSCRIPTION_MAX
from penstock.model.values import AttributeValue
from penstock.selectors import Selector, ast
from penstock.selectors.evaluate import compile_condition
from strategies import conditions, conjunctions, messages, tries

Message = dict[str, AttributeValue]
Step = tuple[int, ast.Condition, int]

steps = st.lists(
    st.tuples(st.integers(0, 11), st.one_of(conditions, conjunctions), st.integers(0, 4)), min_size=1, max_size=24
)


def expected(kept: dict[int, tuple[ast.Condition, int]], message: Message) -> tuple[list[int], int]:
    """What a loop over all subscriptions says, by the evaluator and not by the normal form."""
    found = [number for number, (condition, _) in kept.items() if compile_condition(condition)(message) is True]
    mask = 0
    for number in found:
        mask |= 1 << kept[number][1]
    return sorted(found), mask


@settings(max_examples=tries(600))
@given(steps, st.lists(messages, min_size=1, max_size=6))
def test_the_index_agrees_with_a_loop_after_insertions_and_removals_in_any_order(
    history: list[Step], probes: list[Message]
) -> None:
    index = MatchIndex()
    kept: dict[int, tuple[ast.Condition, int]] = {}
    for number, condition, link in history:
        # A number that is taken is removed: about half of the steps.
        if number in kept:
            index.remove(number)
            del kept[number]
        else:
            index.add(number, Selector(condition), link)
            kept[number] = (condition, link)
        index.check_invariants()
    assert len(index) == len(kept)
    for message in probes:
        ids, mask = expected(kept, message)
        found = index.find(message)
        assert sorted(found.ids().tolist()) == ids
        assert found.count() == len(ids)
        assert bool(found) == bool(ids)
        assert index.links(message) == mask


def test_an_index_that_lost_everything_holds_nothing() -> None:
    index = MatchIndex()
    for number, text in enumerate(["a > 1", "a = 1 AND b IN (1, 2)", "s LIKE 'x%'", "a + b > 1 OR c = 2", "FALSE"]):
        index.add(number, Selector.parse(text), link=number)
    for number in range(5):
        index.remove(number)
    assert not index.schemas
    assert not list(index)
    assert index.links({"a": 2, "b": 1, "c": 2, "s": "xx"}) == 0
    index.check_invariants()


def test_a_subscription_with_several_matching_alternatives_is_found_once() -> None:
    index = MatchIndex()
    index.add(7, Selector.parse("a = 1 OR b = 2 OR c > 3"))
    index.add(8, Selector.parse("a = 1"))
    found = index.find({"a": 1, "b": 2, "c": 4})
    assert sorted(found.ids().tolist()) == [7, 8]
    assert found.count() == 2


def test_booleans_are_not_numbers() -> None:
    index = MatchIndex()
    index.add(0, Selector.parse("a = 1"))
    index.add(1, Selector.parse("a = TRUE"))
    index.add(2, Selector.parse("a = 1 AND b = 1"))
    index.add(3, Selector.parse("a = TRUE AND b = FALSE"))
    assert index.find({"a": True, "b": False}).ids().tolist() == [1, 3]
    assert sorted(index.find({"a": 1.0, "b": 1}).ids().tolist()) == [0, 2]


def test_identical_subscriptions_are_one_slice() -> None:
    index = MatchIndex()
    for number in range(1000):
        index.add(number, Selector.parse("class = 'STOCK'"), link=number % 3)
    found = index.find({"class": "STOCK"})
    assert [part.tolist() for part in found.slices] == [list(range(1000))]
    assert index.links({"class": "STOCK"}) == 0b111


def test_schemas_are_looked_at_only_when_their_attribute_is_there() -> None:
    index = MatchIndex()
    for number in range(50):
        index.add(number, Selector.parse(f"kind{number} = 1 AND common = 2"))
    # Each of the fifty sets of attributes waits for the attribute that only its own messages have.
    assert len(list(index.schemas_for(["common"]))) <= 1
    assert index.find({"common": 2, "kind7": 1}).ids().tolist() == [7]


def test_numbers_that_are_taken_unknown_or_out_of_range_are_refused_and_change_nothing() -> None:
    index = MatchIndex()
    index.add(1, Selector.parse("a = 1"))
    with pytest.raises(SubscriptionError, match=r"^subscription 1 is in the index already$"):
        index.add(1, Selector.parse("a = 2"))
    with pytest.raises(SubscriptionError, match=r"^subscription 2 is not in the index$"):
        index.remove(2)
    for number in (-1, SUBSCRIPTION_MAX):
        with pytest.raises(SubscriptionError, match="is not in 0"):
            index.add(number, Selector.parse("a = 1"))
    for link in (-1, LINKS_MAX):
        with pytest.raises(SubscriptionError, match="link number"):
            index.add(3, Selector.parse("a = 1"), link)
    assert list(index) == [1]
    index.check_invariants()


def test_membership_and_conjunctions_can_be_asked() -> None:
    index = MatchIndex()
    selector = Selector.parse("a = 1 OR b = 1")
    index.add(70_000, selector)
    assert 70_000 in index
    assert 1 not in index
    assert index.conjunctions(70_000) == selector.conjunctions


def test_the_effort_of_an_index_is_that_of_the_tests_in_its_groups() -> None:
    index = MatchIndex()
    index.add(1, Selector.parse("symbol = 'YHOO' AND price > 5"))
    assert index.effort == 0
    index.add(2, Selector.parse("price + 1 > volume * 2"))
    index.add(3, Selector.parse("price + 1 > volume * 2"))
    index.add(4, Selector.parse("text LIKE '%a_b%'"))
    assert index.effort == 4
    index.check_invariants()
    for subscription in (2, 3):
        index.remove(subscription)
    assert index.effort == 1
    index.check_invariants()
