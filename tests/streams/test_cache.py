from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Knowledge, KnowledgeCache

LAST = 30


def test_data_answers_everybody_but_silence_only_those_it_was_made_for() -> None:
    cache = KnowledgeCache(bytes_max=10_000)
    cache.add(0, 9, ((4, b"x"),), {"sb1": 2, "sb2": 1})
    assert cache.answer(0, 9, host="sb1", version=2) == ([Knowledge(0, 9, ((4, b"x"),), 2)], [])
    answers, missing = cache.answer(0, 9, host="sb2", version=2)
    assert answers == [Knowledge(4, 4, ((4, b"x"),), 2)]
    assert [(gap.first, gap.last) for gap in missing] == [(0, 3), (5, 9)]
    assert cache.answer(0, 9, host="stranger", version=0)[0] == [Knowledge(4, 4, ((4, b"x"),), 0)]


def test_what_is_final_is_forgotten() -> None:
    cache = KnowledgeCache(bytes_max=10_000)
    cache.add(0, 9, ((4, b"x"), (6, b"y")), {"sb1": 1})
    cache.trim(5)
    answers, missing = cache.answer(0, 9, host="sb1", version=1)
    assert answers == [Knowledge(5, 9, ((6, b"y"),), 1)]
    assert [(gap.first, gap.last) for gap in missing] == [(0, 4)]


@settings(max_examples=300)
@given(
    st.dictionaries(st.integers(0, LAST), st.integers(0, 2)),
    st.lists(st.tuples(st.integers(0, LAST), st.integers(0, LAST), st.integers(0, 2)), max_size=15),
    st.integers(64, 600),
    st.integers(0, 2),
)
def test_no_answer_is_ever_wrong_and_the_bound_is_kept(
    wanted_since: dict[int, int], arrivals: list[tuple[int, int, int]], bytes_max: int, version: int
) -> None:
    """Each message is wanted by the filter from some version on; older versions make it silence."""
    cache = KnowledgeCache(bytes_max=bytes_max)
    for one, other, narrowed_by in arrivals:
        first, last = min(one, other), max(one, other)
        data = tuple(
            (tick, b"x" * 20)
            for tick, since in sorted(wanted_since.items())
            if first <= tick <= last and since <= narrowed_by
        )
        cache.add(first, last, data, {"sb": narrowed_by})
        cache.check_invariants()
        assert cache.size_bytes <= bytes_max
    answers, missing = cache.answer(0, LAST, host="sb", version=version)
    spoken_of = {tick for each in answers for tick in range(each.first, each.last + 1)}
    assert spoken_of | {tick for gap in missing for tick in range(gap.first, gap.last + 1)} == set(range(LAST + 1))
    data_ticks = {tick for each in answers for tick, _ in each.data}
    owed = {tick for tick, since in wanted_since.items() if since <= version}
    assert owed & spoken_of <= data_ticks
