"""The measurements of matching measure what they say, and leave the index as it was."""

from __future__ import annotations

from penstock.lab.matching import measures
from penstock.matching import MatchIndex
from penstock.model.values import Attributes

TEXTS = ["a = 1", "a > 0", "a = 1", "b LIKE 'x%'"]
MESSAGES: list[Attributes] = [{"a": 1}, {"a": 2, "b": "xy"}, {"b": "y"}]


def test_equal_texts_share_one_selector() -> None:
    selectors = measures.parsed(TEXTS)
    assert selectors[0] is selectors[2]
    assert len(selectors) == 4


def test_an_index_grows_to_the_size_asked_for() -> None:
    index = MatchIndex()
    selectors = measures.parsed(TEXTS)
    measures.grow(index, selectors, 2, links=2)
    measures.grow(index, selectors, 4, links=2)
    assert len(index) == 4
    assert index.links({"a": 1}) == 0b11
    assert [measures.naive_count(selectors, message) for message in MESSAGES] == [3, 2, 0]
    assert [index.find(message).count() for message in MESSAGES] == [3, 2, 0]


def test_inserting_and_removing_leaves_the_index_as_it_was() -> None:
    index = MatchIndex()
    selectors = measures.parsed(TEXTS)
    measures.grow(index, selectors, 4, links=2)
    insert_us, remove_us = measures.insert_and_remove_us(index, selectors, links=2)
    assert insert_us > 0
    assert remove_us > 0
    assert sorted(index.find({"a": 1}).ids().tolist()) == [0, 1, 2]


def test_the_covering_set_counts_what_is_covered_by_nothing_else() -> None:
    assert measures.covering_size(measures.parsed(["a = 1", "a > 0", "a > 5", "b = 2"])) == 2


def test_removing_the_root_promotes_what_it_covered() -> None:
    root, *others = measures.parsed(["a IS NOT NULL", "a > 1", "a > 2", "a < 0"])
    spent_ms, promoted = measures.promotion(root, others)
    assert spent_ms > 0
    assert promoted == 2


def test_a_naive_loop_is_given_fewer_messages_when_it_is_long() -> None:
    many = [{"a": number} for number in range(1_000)]
    assert len(measures.fitting(many, 100)) == 1_000
    assert len(measures.fitting(many, 10_000)) == 50
    assert len(measures.fitting(many, 10**9)) == 10
