"""A cache that is bounded by weight."""

from __future__ import annotations

from penstock.model.bounded_cache import BoundedCache


def test_what_was_not_used_for_longest_is_forgotten_when_there_is_too_much() -> None:
    cache: BoundedCache[str, int] = BoundedCache(160)
    for turn, key in enumerate("abcdefghijklmnop"):
        cache.put(key, turn, 10)
    assert (len(cache), cache.weight) == (16, 160)
    assert cache.get("a") == 0
    cache.put("q", 16, 10)
    assert (cache.get("a"), cache.get("b"), cache.get("q")) == (0, None, 16)
    assert (len(cache), cache.weight) == (16, 160)


def test_an_entry_is_replaced_with_its_weight() -> None:
    cache: BoundedCache[str, int] = BoundedCache(160)
    cache.put("a", 1, 10)
    cache.put("a", 2, 3)
    assert (cache.get("a"), len(cache), cache.weight) == (2, 1, 3)


def test_what_is_too_heavy_is_not_remembered_and_pushes_nothing_out() -> None:
    cache: BoundedCache[str, int] = BoundedCache(160)
    cache.put("a", 1, 10)
    cache.put("large", 2, 11)
    assert (cache.get("large"), cache.get("a"), cache.weight) == (None, 1, 10)
