"""The single measurements of matching, shared by the experiment ``matching-scale`` and by ``bench/matching.py``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.lab.frame.measuring import best_us, elapsed_s, growth_bytes
from penstock.matching import CoveringSet, MatchIndex
from penstock.model.values import Attributes
from penstock.selectors import Selector
from penstock.selectors.evaluate import compile_condition

__all__ = [
    "covering_size",
    "enumerate_us",
    "find_us",
    "fitting",
    "grow",
    "index_bytes",
    "insert_and_remove_us",
    "links_us",
    "naive_count",
    "naive_us",
    "parsed",
    "promotion",
]

_NAIVE_TESTS_MAX = 500_000
"""Single tests a naive loop may cost per repeat: it is slow, and a few publications show how slow."""


def parsed(texts: Iterable[str]) -> list[Selector]:
    """Parse selectors; equal texts share one, as in a broker, which caches parsed selectors."""
    known: dict[str, Selector] = {}
    selectors = []
    for text in texts:
        selector = known.get(text)
        if selector is None:
            selector = known[text] = Selector.parse(text)
        selectors.append(selector)
    return selectors


def grow(index: MatchIndex, selectors: Sequence[Selector], size: int, *, links: int) -> None:
    """Add subscriptions until the index has that many, dealt out to the links in turn."""
    for number in range(len(index), size):
        index.add(number, selectors[number], number % links)


def find_us(index: MatchIndex, publications: Sequence[Attributes]) -> float:
    """Microseconds to find the matching subscriptions, as slices, without listing their ids."""
    return best_us(index.find, publications)


def enumerate_us(index: MatchIndex, publications: Sequence[Attributes]) -> float:
    """Microseconds to find the matching subscriptions and list their ids."""
    find = index.find
    return best_us(lambda publication: find(publication).ids(), publications)


def links_us(index: MatchIndex, publications: Sequence[Attributes]) -> float:
    """Microseconds to find the links that want a publication."""
    return best_us(index.links, publications)


def naive_us(selectors: Sequence[Selector], publications: Sequence[Attributes]) -> float:
    """Microseconds of a loop that tests one selector after the other, each compiled to closures beforehand."""
    tests = [compile_condition(selector.condition) for selector in selectors]

    def count(publication: Attributes) -> int:
        return [test(publication) for test in tests].count(True)

    return best_us(count, fitting(publications, len(selectors)))


def fitting(publications: Sequence[Attributes], tests_each: int) -> Sequence[Attributes]:
    """As many of the publications as a naive loop can handle in reasonable time, at least ten."""
    return publications[: max(10, _NAIVE_TESTS_MAX // tests_each)]


def naive_count(selectors: Sequence[Selector], publication: Attributes) -> int:
    """How many selectors match, tested one after the other."""
    return sum(selector.matches(publication) for selector in selectors)


def insert_and_remove_us(index: MatchIndex, selectors: Sequence[Selector], *, links: int) -> tuple[float, float]:
    """Microseconds to add a further subscription to the index, and to remove it again; the index ends unchanged."""
    first = len(index)
    numbered = list(enumerate(selectors, start=first))

    def insert() -> None:
        for number, selector in numbered:
            index.add(number, selector, number % links)

    def remove() -> None:
        for number, _ in numbered:
            index.remove(number)

    insert_s, remove_s = elapsed_s(insert), elapsed_s(remove)
    assert len(index) == first, "the index does not end as it was"
    return insert_s / len(numbered) * 1e6, remove_s / len(numbered) * 1e6


def index_bytes(selectors: Sequence[Selector], *, links: int) -> float:
    """Bytes of index per subscription, without the selectors themselves, which the broker has anyway."""

    def build() -> MatchIndex:
        index = MatchIndex()
        grow(index, selectors, len(selectors), links=links)
        return index

    return growth_bytes(build) / len(selectors)


def covering_size(selectors: Iterable[Selector]) -> int:
    """How many conjunctions stand for all the selectors: the size of their covering set."""
    covering = CoveringSet()
    for selector in selectors:
        covering.add(selector)
    return len(covering)


def promotion(root: Selector, selectors: Iterable[Selector]) -> tuple[float, int]:
    """Milliseconds to remove a root that covers all others, and the size of the covering set after it."""
    covering = CoveringSet()
    covering.add(root)
    for selector in selectors:
        covering.add(selector)
    assert len(covering) == 1, f"{root} does not cover everything"
    spent_s = elapsed_s(lambda: covering.remove(root))
    return spent_s * 1e3, len(covering)
