from __future__ import annotations

from dataclasses import replace

from penstock.tracking.catalogue import Catalogue
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import TimeIndex
from penstock.tracking.stored import FilterHeader

KEY = HistoryKey(Phase.ROUTE, 7)


def header(filter_id: int, first_ms: int, last_ms: int, *singletons: int, generation: int = 1) -> FilterHeader:
    index = TimeIndex((first_ms, last_ms), [(each, each) for each in singletons])
    shape = FilterShape(64, 10, 2)
    return FilterHeader(KEY, filter_id, generation, False, "bloom", shape, 5, first_ms, last_ms, index)  # noqa: FBT003


def ids(headers: list[FilterHeader]) -> list[int]:
    return [each.filter_id for each in headers]


def test_a_matching_set_is_by_range_and_singletons() -> None:
    catalogue = Catalogue(10)
    catalogue.add(header(1, 10, 20))
    catalogue.add(header(2, 18, 30, 5))
    assert ids(catalogue.matching(KEY, 15)) == [1]
    assert ids(catalogue.matching(KEY, 19)) == [1, 2]
    assert ids(catalogue.matching(KEY, 5)) == [2]
    assert ids(catalogue.matching(KEY, 8)) == []
    assert ids(catalogue.matching(KEY.late, 15)) == []
    assert catalogue.last_id(KEY) == 2
    assert catalogue.last_id(KEY.late) == -1


def test_only_the_newest_generation_counts() -> None:
    catalogue = Catalogue(10)
    catalogue.add(header(1, 10, 20, generation=2))
    catalogue.add(header(1, 10, 40, generation=3))
    catalogue.add(header(1, 10, 30, generation=1))
    assert [each.generation for each in catalogue.matching(KEY, 40)] == [3]
    assert len(catalogue) == 1
    assert catalogue.headers() == catalogue.matching(KEY, 40)


def test_beyond_the_bound_the_oldest_are_given_up_and_their_time_is_unknown() -> None:
    catalogue = Catalogue(2)
    assert catalogue.known_since_ms == 0
    assert [catalogue.add(header(each, each * 10, each * 10 + 9)) for each in (1, 2)] == [[], []]
    assert ids(catalogue.add(header(3, 30, 39))) == [1]
    assert catalogue.known_since_ms == 20
    assert ids(catalogue.headers()) == [2, 3]


def test_a_timestamp_from_the_future_does_not_make_the_present_unknown() -> None:
    catalogue = Catalogue(1)
    catalogue.add(header(1, 10, 19, 99_000))
    catalogue.add(header(2, 20, 29))
    assert catalogue.known_since_ms == 20


def test_a_history_of_which_nothing_is_left_is_gone() -> None:
    catalogue = Catalogue(1)
    catalogue.add(header(1, 10, 19))
    catalogue.add(replace(header(2, 20, 29), key=KEY.late))
    assert catalogue.last_id(KEY) == -1


def test_a_filter_can_be_removed() -> None:
    catalogue = Catalogue(2)
    catalogue.add(header(1, 10, 19))
    catalogue.remove(header(1, 10, 19))
    catalogue.remove(header(1, 10, 19))
    assert len(catalogue) == 0
    assert catalogue.matching(KEY, 15) == []


def test_the_oldest_retire_as_long_as_they_may() -> None:
    catalogue = Catalogue(10)
    for number in (1, 2, 3, 4):
        catalogue.add(header(number, number * 10, number * 10 + 5))
    retired = catalogue.retire(lambda each: each.filter_id != 3)
    assert (ids(retired), ids(catalogue.headers())) == ([1, 2], [3, 4])
    assert catalogue.known_since_ms == 26
    assert ids(catalogue.retire(lambda _each: True)) == [3, 4]
    assert catalogue.retire(lambda _each: True) == []
