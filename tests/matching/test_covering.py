from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching import MatchIndex, covered_by, coverers_of
from penstock.matching.covering import heads_covered_by, is_covered
from penstock.selectors import NOTHING, Selector, ast
from strategies import conditions, conjunctions, tries

many_conditions = st.lists(st.one_of(conditions, conjunctions), min_size=1, max_size=14)


def filled(selectors: list[Selector]) -> MatchIndex:
    index = MatchIndex()
    for number, selector in enumerate(selectors):
        index.add(number, selector)
    return index


@settings(max_examples=tries(500))
@given(many_conditions, st.one_of(conditions, conjunctions))
def test_coverers_and_covered_agree_with_comparing_all_pairs(
    those: list[ast.Condition], condition: ast.Condition
) -> None:
    selectors, asked = [Selector(each) for each in those], Selector(condition)
    index = filled(selectors)
    assert coverers_of(index, asked) == [n for n, each in enumerate(selectors) if each.covers(asked)]
    assert covered_by(index, asked) == [n for n, each in enumerate(selectors) if asked.covers(each)]


@settings(max_examples=tries(500))
@given(st.lists(conjunctions, min_size=1, max_size=14), conjunctions)
def test_heads_stand_for_all_that_is_covered(those: list[ast.Condition], condition: ast.Condition) -> None:
    parts = [part for each in those for part in Selector(each).conjunctions]
    index = MatchIndex()
    for number, part in enumerate(parts):
        index.add_conjunctions(number, (part,))
    for asked in Selector(condition).conjunctions:
        heads = [parts[number] for number in heads_covered_by(index, asked)]
        assert all(asked.covers(head) for head in heads)
        assert all(any(head.covers(part) for head in heads) for part in parts if asked.covers(part))
        assert is_covered(index, asked) == any(part.covers(asked) for part in parts)


def test_what_never_matches_is_covered_by_all_and_covers_only_its_like() -> None:
    index = filled([Selector.parse("a = 1"), NOTHING])
    assert coverers_of(index, NOTHING) == [0, 1]
    assert covered_by(index, NOTHING) == [1]
    assert covered_by(index, Selector.parse("b = 1")) == [1]


def test_long_lists_of_values_are_found_although_they_are_not_spread() -> None:
    long = f"a IN ({', '.join(map(str, range(100)))})"
    longer = f"a IN ({', '.join(map(str, range(101)))})"
    index = filled([Selector.parse(longer), Selector.parse(long), Selector.parse("a = 5"), Selector.parse("a >= 0")])
    assert coverers_of(index, Selector.parse(long)) == [0, 1, 3]
    assert covered_by(index, Selector.parse(longer)) == [0, 1, 2]


def test_one_conjunction_can_be_left_out_of_the_question() -> None:
    index = filled([Selector.parse("a > 1"), Selector.parse("a > 2")])
    first, second = (Selector.parse(text).conjunctions[0] for text in ("a > 1", "a > 2"))
    assert not is_covered(index, first, but_by=0)
    assert is_covered(index, second, but_by=1)
