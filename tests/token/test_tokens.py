"""Tokens and the fencing numbers that they give out."""

from __future__ import annotations

from itertools import pairwise

from penstock.token.tokens import Fence, FenceWatch, Token


def test_the_older_token_precedes_and_the_lower_id_decides_between_equals() -> None:
    assert Token(1, "z").precedes(Token(2, "a"))
    assert not Token(2, "a").precedes(Token(1, "z"))
    assert Token(1, "a").precedes(Token(1, "b"))
    assert not Token(1, "a").precedes(Token(1, "a"))


def test_operations_do_not_change_what_a_token_is() -> None:
    token = Token(1, "a")
    assert token.enabling().generation == token.generation
    assert not token.enabling().precedes(token)
    assert not token.precedes(token.enabling())


def test_fencing_numbers_grow_within_a_generation() -> None:
    tokens = [Token(5, "a")]
    for _ in range(4):
        tokens.append(tokens[-1].enabling())
    fences = [token.fence for token in tokens]
    assert {fence.generation for fence in fences} == {(5, "a")}
    assert all(later.number == earlier.number + 1 for earlier, later in pairwise(fences))
    assert str(fences[2]) == "5/a/2"


def test_a_watch_is_content_with_one_generation_after_the_other() -> None:
    watch = FenceWatch()
    numbers = [Fence(1, "a", 1), Fence(1, "a", 2), Fence(1, "a", 5), Fence(9, "b", 1), Fence(9, "b", 2)]
    assert all(map(watch.admit, numbers))
    assert watch.overlaps == 0


def test_a_watch_notices_two_generations_at_work_at_once() -> None:
    watch = FenceWatch()
    assert watch.admit(Fence(1, "a", 1))
    assert watch.admit(Fence(9, "b", 1))
    assert not watch.admit(Fence(1, "a", 2))
    assert watch.overlaps == 1


def test_a_watch_notices_a_number_that_has_not_grown() -> None:
    watch = FenceWatch()
    assert watch.admit(Fence(1, "a", 7))
    assert not watch.admit(Fence(1, "a", 7))
    assert not watch.admit(Fence(1, "a", 6))
    assert watch.admit(Fence(1, "a", 8))
    assert watch.overlaps == 2


def test_a_watch_remembers_few_generations() -> None:
    watch = FenceWatch()
    for generation in range(1_000):
        watch.admit(Fence(generation, "a", 1))
    assert len(watch.last) == 16
    assert (999, "a") in watch.last
