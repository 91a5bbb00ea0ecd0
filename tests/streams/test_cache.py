from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.frames import KnowledgeKind
from penstock.streams import Knowledge, KnowledgeCache
from strategies import tries

LAST = 30
HOSTS = ("sb1", "sb2", "stranger")

Versions = dict[str, tuple[int, int]]

versions_of_hosts = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(HOSTS[:2]), st.tuples(st.integers(0, 1), st.integers(0, 2)))
)
ranges = st.tuples(st.integers(0, LAST), st.integers(0, LAST)).map(lambda ends: (min(ends), max(ends)))
arrivals_of_knowledge = st.lists(st.tuples(ranges, versions_of_hosts), max_size=15)


def answer(first: int, last: int, ticks: list[int], bodies: list[bytes], versions: Versions | None) -> Knowledge:
    return Knowledge("p", first, last, ticks, bodies, versions, KnowledgeKind.ANSWER)


def test_silence_answers_only_those_it_was_made_for() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    versions = {"sb1": (0, 2), "sb2": (0, 1)}
    cache.add(Knowledge("p", 0, 9, (4,), (b"x",), versions))
    whole = answer(0, 9, [4], [b"x"], versions)
    assert cache.answer(0, 9, host="sb1", version=(0, 2)) == ([whole], [])
    assert cache.answer(0, 9, host="sb1", version=(0, 1)) == ([whole], [])
    assert cache.answer(0, 9, host="sb2", version=(0, 2)) == ([], [(0, 9)])
    assert cache.answer(0, 9, host="sb2", version=(1, 0)) == ([], [(0, 9)])
    assert cache.answer(0, 9, host="stranger", version=(0, 0)) == ([], [(0, 9)])


def test_complete_knowledge_answers_everybody() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    cache.add(Knowledge("p", 0, 9, (4,), (b"x",), None))
    assert cache.answer(3, 12, host="anybody", version=(7, 7)) == (
        [answer(3, 9, [4], [b"x"], None)],
        [(10, 12)],
    )


def test_live_batches_of_the_same_versions_are_one_answer_and_others_apart() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    older, newer = {"sb1": (0, 1)}, {"sb1": (0, 2)}
    cache.add(Knowledge("p", 0, 4, (1,), (b"a",), older))
    cache.add(Knowledge("p", 5, 9, (6,), (b"b",), older))
    cache.add(Knowledge("p", 10, 14, (), (), dict(older)))
    cache.add(Knowledge("p", 15, 19, (15,), (b"c",), newer))
    assert cache.answer(0, 19, host="sb1", version=(0, 1)) == (
        [answer(0, 14, [1, 6], [b"a", b"b"], older), answer(15, 19, [15], [b"c"], newer)],
        [],
    )
    assert cache.answer(0, 19, host="sb1", version=(0, 2))[1] == [(0, 14)]


def test_what_came_by_several_versions_answers_for_the_later_of_each_host() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    cache.add(Knowledge("p", 0, 9, (4,), (b"x",), {"sb1": (0, 2), "sb2": (0, 1)}))
    cache.add(Knowledge("p", 5, 14, (6,), (b"y",), {"sb1": (0, 1), "sb2": (0, 2)}))
    both = {"sb1": (0, 2), "sb2": (0, 2)}
    answers, missing = cache.answer(0, 14, host="sb1", version=(0, 2))
    assert [(each.first, each.last, each.ticks) for each in answers] == [(0, 4, [4]), (5, 9, [6])]
    assert answers[1].versions == both
    assert missing == [(10, 14)]
    assert cache.answer(0, 14, host="sb2", version=(0, 2))[1] == [(0, 4)]


def test_what_is_final_is_forgotten() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    versions = {"sb1": (0, 1)}
    cache.add(Knowledge("p", 0, 9, (4, 6), (b"x", b"y"), versions))
    cache.trim(5)
    assert cache.answer(0, 9, host="sb1", version=(0, 1)) == (
        [answer(5, 9, [6], [b"y"], versions)],
        [(0, 4)],
    )
    cache.trim(100)
    assert cache.size_bytes == 0


def test_the_oldest_ticks_go_first_and_a_full_cache_stays_well_filled() -> None:
    cache = KnowledgeCache("p", bytes_max=100_000)
    for tick in range(0, 100_000, 10):
        cache.add(Knowledge("p", tick, tick + 9, (tick,), (bytes(36),), None))
        assert min(85_000, 10 * tick) <= cache.size_bytes <= 100_000
    cache.check_invariants()
    ((answer,), (missing,)) = cache.answer(0, 99_999, host="sb1", version=(0, 0))
    assert answer.last == 99_999
    assert missing == (0, answer.first - 1)
    assert len(answer.ticks) >= 850


def test_single_ticks_from_a_hostile_neighbour_are_bounded() -> None:
    cache = KnowledgeCache("p", bytes_max=10_000)
    for tick in range(0, 2_000, 2):
        cache.add(Knowledge("p", tick, tick, (), (), {"sb1": (0, tick)}))
    cache.check_invariants()
    assert 50 <= len(cache._ranges) <= 80


@settings(max_examples=tries(500))
@given(
    st.dictionaries(st.integers(0, LAST), st.fixed_dictionaries(dict.fromkeys(HOSTS, st.integers(0, 5)))),
    arrivals_of_knowledge,
    st.one_of(st.integers(64, 1_500), st.just(1_000_000)),
    st.one_of(st.none(), st.integers(0, LAST)),
    ranges,
)
def test_no_answer_is_ever_wrong_or_withheld_and_the_bound_is_kept(
    wanted_since: dict[int, dict[str, int]],
    arrivals: list[tuple[tuple[int, int], Versions | None]],
    bytes_max: int,
    below: int | None,
    asked: tuple[int, int],
) -> None:
    """Each message is wanted by each host from some version on; what nobody wants yet is silence."""
    cache = KnowledgeCache("p", bytes_max=bytes_max)
    # By tick and host the latest version; a model that forgets nothing.
    known: list[dict[str, tuple[int, int]]] = [{} for _ in range(LAST + 1)]
    for (first, last), versions in arrivals:
        ticks = [
            tick
            for tick, since in sorted(wanted_since.items())
            if first <= tick <= last and (versions is None or any(rank(v) >= since[h] for h, v in versions.items()))
        ]
        cache.add(Knowledge("p", first, last, ticks, [bytes([tick]) * 20 for tick in ticks], versions))
        cache.check_invariants()
        for tick in range(first, last + 1):
            for host, version in (versions or (dict.fromkeys(HOSTS, (9, 9)) if versions is None else {})).items():
                known[tick][host] = max(known[tick].get(host, (-1, -1)), version)
    if below is not None:
        cache.trim(below)
        cache.check_invariants()
        known[:below] = [{} for _ in range(below)]
    first, last = asked
    for host in HOSTS:
        for version in [(0, 0), (0, 2), (1, 1)]:
            answers, missing = cache.answer(first, last, host=host, version=version)
            spoken_of = [tick for each in answers for tick in range(each.first, each.last + 1)]
            unanswered = [tick for gap in missing for tick in range(gap.first, gap.last + 1)]
            # The silence behind the range comes for free, up to the next message.
            behind = [tick for tick in spoken_of if tick > last]
            assert behind == [*range(last + 1, last + 1 + len(behind))]
            assert not any(tick > last for each in answers for tick in each.ticks)
            asked_of = [tick for tick in spoken_of if tick <= last]
            assert sorted(asked_of + unanswered) == list(range(first, last + 1)), "each tick once"
            assert spoken_of == sorted(spoken_of)
            could = [tick for tick in range(first, LAST + 1) if known[tick].get(host, (-1, -1)) >= version]
            # An unbounded cache knows all that the model knows; any other at most that.
            assert set(spoken_of) <= set(could)
            if bytes_max == 1_000_000:
                assert asked_of == [tick for tick in could if tick <= last]
            for each in answers:
                check_answer(each, wanted_since)
                assert each.versions is None or each.versions[host] >= version


def check_answer(found: Knowledge, wanted_since: dict[int, dict[str, int]]) -> None:
    """What any of the hosts wants by the version that the answer names for it is in the found."""
    assert list(found.bodies) == [bytes([tick]) * 20 for tick in found.ticks]
    assert set(found.ticks) <= set(wanted_since)
    for tick, since in wanted_since.items():
        if found.first <= tick <= found.last:
            named = found.versions
            wanted = named is None or any(rank(version) >= since[host] for host, version in named.items())
            assert tick in found.ticks or not wanted
    assert all(found.first <= tick <= found.last for tick in found.ticks)


def rank(version: tuple[int, int]) -> int:
    """Versions in one row: three of each incarnation."""
    return version[0] * 3 + version[1]
