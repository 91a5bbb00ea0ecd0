"""Chance comes through an interface that ``random.Random`` and a scripted stand-in both fit."""

from __future__ import annotations

from random import Random

import pytest

from penstock.model.ports import Rng


class Scripted:
    """Chance that is none."""

    def randrange(self, stop: int, /) -> int:
        return stop - 1

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize("rng", [Random(1), Scripted()], ids=["random", "scripted"])
def test_a_source_of_chance_stays_in_its_range(rng: Rng) -> None:
    assert all(0 <= rng.randrange(stop) < stop for stop in range(1, 50))
    assert all(0 <= rng.random() < 1 for _ in range(50))


def test_the_interface_asks_for_nothing_else() -> None:
    assert {name for name in vars(Rng) if not name.startswith("_")} == {"randrange", "random"}


def test_the_same_seed_is_the_same_chance() -> None:
    def drawn(rng: Rng) -> list[float]:
        return [rng.random() for _ in range(5)] + [rng.randrange(100) for _ in range(5)]

    assert drawn(Random(7)) == drawn(Random(7))
    assert drawn(Random(7)) != drawn(Random(8))
