"""What a process is like, and who is told."""

from __future__ import annotations

import asyncio

from penstock.balancing.metrics import HostFigures
from penstock.live.measuring import Measuring, memory_share


def test_utilisations_are_fractions() -> None:
    assert 0 < memory_share() < 1
    measuring = Measuring(lambda _: None)
    sum(range(100_000))
    figures = measuring.figures()
    assert 0 < figures.cpu <= 1
    assert 0 < figures.memory < 1


def test_a_broker_is_told_until_nothing_is_to_be_measured_any_more() -> None:
    told: list[HostFigures] = []

    async def run() -> None:
        enough = asyncio.Event()

        def tell(figures: HostFigures) -> None:
            told.append(figures)
            if len(told) >= 2:
                enough.set()

        measuring = Measuring(tell)
        measuring.start(1)
        await asyncio.wait_for(enough.wait(), 30)
        measuring.stop()
        measuring.stop()

    asyncio.run(run())
    assert len(told) >= 2
