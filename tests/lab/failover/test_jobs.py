"""Workers at all hosts do the jobs of both pubends, each once; and nothing is taken for done that cannot be known."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.failover.jobs import Workshop
from penstock.lab.failover.plan import HOSTS, PLAN, REPLICAS_MIN
from penstock.system.loop import run

LIMIT_S = 120.0
ROOTED = replace(PLAN, pubends={**PLAN.pubends, "pb1": tuple(REPLICAS_MIN)})
"""The pubends stay where they are, in a store of their broker: there are no homes."""


@pytest.mark.live
def test_each_job_is_done_once() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        async with asyncio.timeout(LIMIT_S), Workshop(overlay) as workshop:
            publishing = asyncio.create_task(workshop.publish(200.0))
            while workshop.verdict().done < 50:
                workshop.check()
                await asyncio.sleep(0.01)
            workshop.enough()
            await publishing
            while (verdict := workshop.verdict()).done < workshop.published or verdict.unanswered:
                await asyncio.sleep(0.01)
            assert verdict.doubled == verdict.lost == verdict.strange == []
            assert all(life.done for life in workshop.lives)
            assert len(workshop.lives) == 2 * len(HOSTS)
            # No candidate runs a home, so none can say that nothing is left.
            assert await workshop.left() == len(REPLICAS_MIN)

    with DemoOverlay(ROOTED) as overlay:
        run(overlay.linked())
        run(scenario(overlay))


@pytest.mark.live
def test_a_worker_that_fails_is_noticed() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        async with asyncio.timeout(LIMIT_S), Workshop(overlay) as workshop:
            workshop._workers[0].cancel()
            await asyncio.wait([workshop._workers[0]])
            with pytest.raises(asyncio.CancelledError):
                workshop.check()

    with DemoOverlay(ROOTED) as overlay:
        run(overlay.linked())
        run(scenario(overlay))
