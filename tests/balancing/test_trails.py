"""Nobody is sent back to where it was, for a while."""

from __future__ import annotations

from penstock.balancing.trails import Trails


def test_who_came_does_not_go_back() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s1": ("a",), "s2": ()}, "b", now_ms=0)
    assert not trails.may_go("s1", "a", now_ms=999)
    assert not trails.may_go("s1", "b", now_ms=999)
    assert trails.may_go("s1", "c", now_ms=0)
    assert trails.may_go("s2", "a", now_ms=0)
    assert trails.may_go("stranger", "b", now_ms=0)
    assert trails.may_go("s1", "a", now_ms=1_000)


def test_trails_go_along() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s1": ("a",)}, "b", now_ms=0)
    assert trails.of(["s1", "s2"], now_ms=0) == {"s1": ("a", "b"), "s2": ()}
    assert trails.of(["s1"], now_ms=1_000) == {"s1": ()}


def test_what_is_kept_is_bounded() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s": [f"b{each}" for each in range(100)]}, "x", now_ms=0)
    assert len(trails.of(["s"], now_ms=0)["s"]) == 33
    trails.learn({f"c{each}": () for each in range(100_000)}, "x", now_ms=0)
    assert len(trails) == 100_000
    assert trails.may_go("s", "x", now_ms=0), "the oldest was forgotten"
