from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.streams.range_map import RangeMap

LAST = 30

ranges = st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(lambda ends: (min(ends), max(ends)))
steps = st.one_of(
    st.tuples(st.just("put"), ranges, st.integers(0, 3)),
    st.tuples(st.just("drop"), ranges, st.integers(0, 3)),
    st.tuples(st.just("below"), ranges, st.just(0)),
)


def pairs(plain: list[int]) -> list[tuple[int, int]]:
    """The ranges of a sorted list of ticks."""
    found: list[tuple[int, int]] = []
    for tick in plain:
        if found and found[-1][1] == tick - 1:
            found[-1] = (found[-1][0], tick)
        else:
            found.append((tick, tick))
    return found


@given(st.lists(steps, max_size=25), ranges)
def test_it_does_what_a_plain_dictionary_of_ticks_does(
    changes: list[tuple[str, tuple[int, int], int]], looked_at: tuple[int, int]
) -> None:
    tested: RangeMap[int] = RangeMap(max, lambda value: value + 1)
    model: dict[int, int] = {}
    for what, (first, last), value in changes:
        if what == "put":
            tested.put(first, last, value)
            for tick in range(first, last + 1):
                model[tick] = max(model.get(tick, 0), value)
        elif what == "drop":
            gone = sorted(tick for tick, each in model.items() if tick >= first and each < value)
            dropped = tested.drop(first, lambda each, value=value: each < value)  # type: ignore[misc]
            assert [tick for low, high in dropped for tick in range(low, high + 1)] == gone
            model = {tick: each for tick, each in model.items() if tick not in gone}
        else:
            tested.remove_below(first)
            model = {tick: each for tick, each in model.items() if tick >= first}
        tested.check_invariants()
        assert {tick: each for low, high, each in tested for tick in range(low, high + 1)} == model
    first, last = looked_at
    shown = [(tick, each) for low, high, each in tested.within(first, last) for tick in range(low, high + 1)]
    assert shown == sorted((tick, each) for tick, each in model.items() if first <= tick <= last)
    assert tested.gaps(first, last) == pairs([tick for tick in range(first, last + 1) if tick not in model])
    assert tested.first_missing(first) == next(tick for tick in range(first, LAST + 2) if tick not in model)


def test_a_map_that_grows_at_its_end_stays_one_range() -> None:
    tested: RangeMap[str] = RangeMap(lambda _, new: new)
    for tick in range(0, 100, 10):
        tested.put(tick, tick + 9, "same")
    assert list(tested) == [(0, 99, "same")]
    assert tested.weight == len(tested) == 1


def test_equal_values_are_replaced_by_the_newer_object_at_the_end() -> None:
    tested: RangeMap[list[int]] = RangeMap(lambda _, new: new)
    tested.put(0, 4, [1])
    newer = [1]
    tested.put(5, 9, newer)
    assert next(value for _, _, value in tested) is newer
