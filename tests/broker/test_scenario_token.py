"""Partition of an overlay: each side gets its own token, and one survives after the healing.

1. Eight brokers in a chain, of which the token visits all.
2. The link in the middle is cut: on each side a token walks, with constants for four.
3. The link is healed: within the stabilisation band of variant swift (2,000 units of Δskip) one token is left, and no
   two brokers operate at once any more.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.mechanisms.test_token_desk import PLAN, chain, operations, token_of
from penstock.sim.world import World

BAND_MS = 2_000 * PLAN.skip_ms


@pytest.mark.parametrize("seed", [1, 2])
def test_each_side_of_a_partition_has_a_token_and_one_survives_the_healing(seed: int) -> None:
    world = World(seed)
    names = chain(world, 8)
    sides = names[:4], names[4:]
    world.run_for(60_000)
    assert {name for _, name, _ in operations(world)} == set(names)

    world.cut("b3", "b4", loud=True)
    world.run_for(60_000)
    since = world.clock.now_us // 1_000
    world.run_for(60_000)
    generations = []
    for side in sides:
        assert [token_of(world, name).members for name in side] == [4] * 4
        assert token_of(world, side[0]).min_ms == 4_000
        recent = [each for each in operations(world) if each[0] > since and each[1] in side]
        assert {name for _, name, _ in recent} == set(side)
        generations.append({fence.rpartition("/")[0] for _, _, fence in recent})
    assert not generations[0] & generations[1]

    world.heal("b3", "b4")
    healed = world.clock.now_us // 1_000
    world.run_for(BAND_MS // 2 + 60_000)
    after = [each for each in operations(world) if each[0] > healed + BAND_MS // 2]
    assert {name for _, name, _ in after} == set(names)
    assert len({fence.rpartition("/")[0] for _, _, fence in after}) == 1
    assert all(later[0] - earlier[0] >= PLAN.op_ms for earlier, later in pairwise(after))
