from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.covering_set import ADD_LOOKS_MAX, CoveringChange, CoveringSet
from penstock.matching.errors import SubscriptionError
from penstock.selectors import Conjunction, Selector, ast
from strategies import conditions, conjunctions, tries


@settings(max_examples=tries(500))
@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(conditions, conjunctions)), min_size=1, max_size=24))
def test_the_covering_set_and_its_changes_are_right_in_any_order(history: list[tuple[int, ast.Condition]]) -> None:
    covering = CoveringSet()
    kept: dict[int, Selector] = {}
    seen: set[Conjunction] = set()
    for number, condition in history:
        if number in kept:
            change = covering.remove(kept.pop(number))
        else:
            kept[number] = Selector(condition)
            change = covering.add(kept[number])
        # Whoever applies the changes one after the other has the set, and no change says a thing twice.
        assert not set(change.left) - seen
        assert not set(change.entered) & seen
        seen = (seen - set(change.left)) | set(change.entered)
        assert seen == set(covering)
        assert len(covering) == len(seen)
        covering.check_invariants()
    for selector in kept.values():
        assert all(any(root.covers(part) for root in seen) for part in selector.conjunctions)


def test_the_most_general_selectors_stand_for_the_others() -> None:
    # Figure 1 of the paper has the shape of this example; the classes are those of its table 1.
    covering = CoveringSet()
    for text in [
        "class = 'STOCK' AND volume > 15",
        "class = 'STOCK' AND volume > 150",
        "class = 'SPORTS'",
        "class = 'STOCK'",
        "class = 'MOVIES' AND year < 1980",
    ]:
        covering.add(Selector.parse(text))
    assert sorted(map(str, covering)) == ["class = 'MOVIES' AND year < 1980", "class = 'SPORTS'", "class = 'STOCK'"]


def test_a_root_that_leaves_is_replaced_in_the_same_step() -> None:
    covering = CoveringSet()
    root = Selector.parse("class = 'STOCK'")
    covering.add(root)
    for symbol in ("IBM", "YHOO"):
        covering.add(Selector.parse(f"class = 'STOCK' AND symbol = '{symbol}'"))
        covering.add(Selector.parse(f"class = 'STOCK' AND symbol = '{symbol}' AND volume > 5"))
    covering.add(Selector.parse("class = 'STOCK' AND volume > 5"))
    change = covering.remove(root)
    assert list(map(str, change.left)) == ["class = 'STOCK'"]
    assert sorted(map(str, change.entered)) == [
        "class = 'STOCK' AND symbol = 'IBM'",
        "class = 'STOCK' AND symbol = 'YHOO'",
        "class = 'STOCK' AND volume > 5",
    ]


def test_selectors_are_counted() -> None:
    covering = CoveringSet()
    selector = Selector.parse("a = 1")
    covering.add(selector)
    assert covering.add(selector).entered == ()
    assert covering.remove(selector).left == ()
    assert covering.remove(selector).left == selector.conjunctions
    assert not len(covering)


def test_a_selector_that_was_never_added_cannot_be_removed() -> None:
    covering = CoveringSet()
    covering.add(Selector.parse("a = 1"))
    with pytest.raises(SubscriptionError, match=r"^selector b = 2 is not in the covering set$"):
        covering.remove(Selector.parse("a = 1 OR b = 2"))
    assert len(covering) == 1
    covering.check_invariants()


def test_what_is_too_dear_to_compare_is_in_the_set_and_leaves_it_alone() -> None:
    wanted = CoveringSet()
    many = [Selector.parse(f"a > {number} AND c <> {number}") for number in range(ADD_LOOKS_MAX)]
    for selector in many:
        assert wanted.add(selector).entered == selector.conjunctions
    assert 0 < wanted.loners < len(many)
    assert len(wanted) == len(many)
    assert set(wanted) == {selector.conjunctions[0] for selector in many}
    everything = Selector.parse("a > -1")
    change = wanted.add(everything)
    assert change.entered == everything.conjunctions
    assert len(change.left) == len(many) - wanted.loners
    assert set(wanted.remove(everything).entered) == set(change.left)
    for selector in many:
        assert wanted.remove(selector).left == selector.conjunctions
    assert (len(wanted), wanted.loners) == (0, 0)
    wanted.check_invariants()


def test_a_removal_that_uncovers_too_much_asks_for_all_of_it() -> None:
    wanted = CoveringSet()
    general = Selector.parse("a > -1")
    wanted.add(general)
    many = [Selector.parse(f"a > {number} AND c <> {number}") for number in range(400)]
    for selector in many:
        assert wanted.add(selector) == CoveringChange()
    assert wanted.loners == 0
    change = wanted.remove(general)
    assert change.left == general.conjunctions
    assert set(change.entered) == {selector.conjunctions[0] for selector in many}
    for selector in many:
        wanted.remove(selector)
    assert len(wanted) == 0
