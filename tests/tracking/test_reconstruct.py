from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock.tracking.answers import Ask, BrokerAnswer, Evidence, GapSeen, Trace
from penstock.tracking.reconstruct import Reconstruction
from tracking.ids import make_id

ID = make_id(1_000, broker=1)
# A tree: the origin a has the neighbours b and e, behind b are c and d, behind e is f.
LINKS = {"a": ("b", "e"), "b": ("a", "c"), "c": ("b", "d"), "d": ("c",), "e": ("a", "f"), "f": ("e",)}
YES, NO, GAP, UNKNOWN = Evidence.YES, Evidence.NO, Evidence.GAP, Evidence.UNKNOWN


def said(broker: str, routed: Evidence, *receivers: str, **more: object) -> BrokerAnswer:
    answer = BrokerAnswer(broker, routed, receivers=receivers, neighbours=LINKS.get(broker, ()))
    return replace(answer, **more)  # type: ignore[arg-type]


def origin(**more: object) -> BrokerAnswer:
    return said("a", NO, published=YES, **more)


def run(
    *answers: BrokerAnswer, topology: Mapping[str, tuple[str, ...]] | None = None, brokers_max: int = 100
) -> tuple[Trace, list[str]]:
    """Let these brokers answer, and the others be unreachable; the trace, and who was asked in which order."""
    search = Reconstruction(ID, "a", topology=topology, brokers_max=brokers_max)
    by_name = {each.broker: each for each in answers}
    asked = []
    while not search.is_done:
        for ask in search.asks():
            asked.append(ask.broker)
            if ask.broker in by_name:
                search.on_answer(by_name[ask.broker])
            else:
                search.on_unreachable(ask.broker)
    return search.result(), asked


def test_the_way_is_found_breadth_first() -> None:
    trace, asked = run(origin(), said("b", YES), said("c", YES, "s1", "s2"), said("d", NO), said("e", NO))
    assert asked == ["a", "b", "e", "c", "d"]
    assert trace.routed_by == ("a", "b", "c")
    assert trace.delivered_by == ("c",)
    assert trace.receivers == (("c", "s1"), ("c", "s2"))
    assert [(hop.broker, hop.parent) for hop in trace.hops] == [("a", None), ("b", "a"), ("c", "b")]
    assert (trace.published_at, trace.published, trace.asked) == ("a", YES, 5)
    assert trace.is_complete


def test_brokers_of_one_distance_are_asked_at_once() -> None:
    search = Reconstruction(ID, "a")
    assert search.asks() == [Ask("a", (1,))]
    assert search.asks() == []
    search.on_answer(origin())
    assert [ask.broker for ask in search.asks()] == ["b", "e"]
    assert search.pending == ["b", "e"]
    search.on_answer(said("e", NO))
    search.on_answer(said("e", YES))
    search.on_answer(said("zzz", YES))
    assert search.pending == ["b"]
    assert not search.is_done


def test_a_message_that_was_never_published_is_searched_nowhere() -> None:
    trace, asked = run(said("a", NO))
    assert asked == ["a"]
    assert (trace.published_at, trace.published, trace.routed_by, trace.hops) == (None, NO, (), ())
    assert trace.is_complete


@pytest.mark.parametrize("verdict", [GAP, UNKNOWN])
def test_the_search_goes_on_through_brokers_that_cannot_tell(verdict: Evidence) -> None:
    gap = GapSeen("b", "route/1", "crash", (900, 1_100))
    trace, asked = run(
        origin(),
        said("b", verdict, gaps=(gap,) if verdict is GAP else ()),
        said("c", YES, "s1"),
        said("d", NO),
        said("e", NO),
    )
    assert "c" in asked
    assert trace.routed_by == ("a", "c")
    assert trace.gaps == ((gap,) if verdict is GAP else ())
    assert trace.unknown == (("b",) if verdict is UNKNOWN else ())
    assert not trace.is_complete
    assert [(hop.broker, hop.parent, hop.is_counted) for hop in trace.hops] == [
        ("a", None, True),
        ("b", "a", False),
        ("c", "b", True),
    ]


def test_the_search_goes_on_behind_brokers_that_are_down() -> None:
    trace, _ = run(origin(), said("c", YES, "s1"), said("d", NO), said("e", NO), topology=LINKS)
    assert trace.routed_by == ("a", "c")
    assert trace.unreachable == ("b",)
    assert trace.receivers == (("c", "s1"),)
    without, asked = run(origin(), said("c", YES), said("e", NO))
    assert "c" not in asked
    assert without.unreachable == ("b",)


def test_an_origin_that_is_down_does_not_end_the_search() -> None:
    trace, _ = run(said("b", YES), said("c", NO), said("e", NO), topology={"a": ("b", "e")})
    assert (trace.published_at, trace.published) == (None, UNKNOWN)
    assert trace.routed_by == ("b",)
    assert trace.unreachable == ("a",)


def test_who_delivered_in_a_gap_of_its_routing_history_is_counted_as_delivering() -> None:
    trace, _ = run(origin(), said("b", GAP, "s1"), said("c", NO), said("e", NO))
    assert (trace.routed_by, trace.delivered_by, trace.receivers) == (("a",), ("b",), (("b", "s1"),))


def test_a_claim_that_the_neighbour_towards_the_origin_denies_is_not_counted() -> None:
    # A ring a - b - c - e - a: c hears of messages of a through e only, and e did not have it.
    ring = {"b": ("a", "c"), "c": ("b", "e", "d"), "e": ("a", "c")}
    trace, _ = run(
        origin(),
        said("b", YES, neighbours=ring["b"]),
        said("e", NO, neighbours=ring["e"]),
        said("c", YES, "ghost", neighbours=ring["c"], upstream=("e",)),
        said("d", YES, "s", upstream=("c",)),
    )
    assert trace.routed_by == ("a", "b")
    assert trace.probable_false_positives == ("c", "d")
    assert trace.receivers == ()
    assert [hop.broker for hop in trace.hops if not hop.is_counted] == ["c", "d"]


@pytest.mark.parametrize("verdict", [YES, GAP, UNKNOWN, None])
def test_a_claim_stands_if_the_neighbour_towards_the_origin_does_not_deny_it(verdict: Evidence | None) -> None:
    answers = [origin(), said("b", NO), said("c", YES, neighbours=("b", "e"), upstream=("e",)), said("f", NO)]
    answers += [said("e", verdict, neighbours=("a", "c"))] if verdict is not None else []
    trace, _ = run(*answers, topology={"e": ("a", "c")})
    assert "c" in trace.routed_by
    assert trace.probable_false_positives == ()


def test_two_claims_do_not_hold_up_each_other() -> None:
    trace, _ = run(
        origin(),
        said("b", GAP),
        said("e", NO),
        said("c", YES, upstream=("d",)),
        said("d", YES, upstream=("c",)),
    )
    assert trace.probable_false_positives == ("c", "d")


def test_neighbours_towards_the_origin_are_asked_for_a_claim() -> None:
    _, asked = run(origin(), said("b", YES, upstream=("x",)), said("x", NO), said("c", NO), said("e", NO))
    assert "x" in asked


def test_an_alias_is_a_second_origin_and_all_are_asked_again() -> None:
    search = Reconstruction(ID, "a")
    search.asks()
    search.on_answer(said("a", NO, alias=("c", 3)))
    assert search.asks() == [Ask("a", (1, 3)), Ask("c", (1, 3))]
    search.on_answer(said("a", NO, alias=("c", 3)))
    search.on_answer(said("c", NO, published=YES))
    assert [ask.broker for ask in search.asks()] == ["b", "d"]
    search.on_answer(said("b", YES, "s"))
    search.on_answer(said("d", NO))
    assert search.is_done
    trace = search.result()
    assert (trace.origin, trace.published_at, trace.routed_by) == ("a", "c", ("b", "c")[::-1])
    assert trace.receivers == (("b", "s"),)


def test_an_answer_from_before_the_alias_is_asked_for_again() -> None:
    search = Reconstruction(ID, "a", topology={"a": ("b", "e")})
    search.asks()
    search.on_unreachable("a")
    assert [ask.broker for ask in search.asks()] == ["b", "e"]
    search.on_answer(said("e", GAP, alias=("c", 3)))
    search.on_answer(said("b", NO))
    assert {ask.broker: ask.origins for ask in search.asks()} == dict.fromkeys(("b", "c", "e", "f"), (1, 3))


def test_the_error_is_that_of_all_that_was_checked() -> None:
    trace, _ = run(
        origin(path_fpp=0.01),
        said("b", YES, "s", path_fpp=0.02, delivery_fpp=0.1),
        said("c", NO, path_fpp=0.03),
        said("e", NO),
    )
    assert trace.error_probability == pytest.approx(1 - 0.99 * 0.98 * 0.9 * 0.97)


def test_who_has_not_answered_in_time_counts_as_unreachable() -> None:
    search = Reconstruction(ID, "a")
    search.asks()
    search.on_answer(origin())
    search.asks()
    assert search.result().unreachable == ("b", "e")


def test_a_search_is_bounded() -> None:
    trace, asked = run(*(said(each, YES, published=YES) for each in LINKS), brokers_max=3)
    assert len(asked) == 3
    assert trace.is_truncated
    assert not trace.is_complete
