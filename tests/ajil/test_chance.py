from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.ajil.chance import drawn


def test_impossible_places_never_come_up_and_certain_ones_always() -> None:
    rng = Random(1)
    chances = np.array([0.0, 1.0, 0.0, 1.0])
    for _ in range(50):
        assert drawn(chances, rng).tolist() == [1, 3]


def test_nothing_to_draw_draws_nothing() -> None:
    assert drawn(np.zeros(0), Random(1)).tolist() == []
    assert drawn(np.zeros(3), Random(1)).tolist() == []


@pytest.mark.parametrize("chances", [[0.01, 0.3, 0.05, 0.2], [0.9, 0.5, 0.1, 1.0]])
def test_every_place_comes_up_with_its_own_chance(chances: list[float]) -> None:
    rng, rounds = Random(7), 20_000
    counts = np.zeros(len(chances))
    for _ in range(rounds):
        counts[drawn(np.array(chances), rng)] += 1
    for count, chance in zip(counts, chances, strict=True):
        assert abs(count / rounds - chance) <= 4 * (chance * (1 - chance) / rounds) ** 0.5


def test_places_come_up_independently() -> None:
    rng, rounds = Random(3), 20_000
    both = sum(len(drawn(np.array([0.2, 0.3]), rng)) == 2 for _ in range(rounds))
    assert abs(both / rounds - 0.06) < 0.008
