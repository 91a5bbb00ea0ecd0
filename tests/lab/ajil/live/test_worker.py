from __future__ import annotations

import asyncio
import time
from typing import Any

from penstock.lab.ajil.live.worker import WorkerPlan, work
from penstock.lab.demo_overlay import free_ports


def plan(port: int, **changes: Any) -> WorkerPlan:
    now_s = time.time()
    values: dict[str, Any] = {
        "name": "worker",
        "groups": [f"239.77.5.1:{port}"],
        "control": f"239.77.5.2:{port}",
        "key": "a key for tests",
        "interface": "lo",
        "aup": {},
        "packet_bytes": 100,
        "join_s": 0.0,
        "base_packets_s": 200.0,
        "peak_packets_s": 200.0,
        "surge_from_s": now_s,
        "surge_to_s": now_s,
        "end_s": now_s + 0.4,
    }
    return WorkerPlan(**{**values, **changes})


def test_a_worker_sends_its_load_and_says_what_it_did() -> None:
    (port,) = free_ports(1)
    result = asyncio.run(work(plan(port)))
    assert result.sent > 0
    assert (result.dropped, result.learned_epochs, result.slowed) == (0, -1, 0)


def test_a_worker_is_slowed_down_and_learns_the_policy_from_others() -> None:
    (port,) = free_ports(1)
    aup = {
        "limit_bytes_s": 2000.0,
        "alpha": 1.0,
        "beta": 1.0,
        "epoch_ms": 50,
        "report_fraction": 1.0,
        "version": 1,
        "author": "lab",
    }

    async def both() -> tuple[Any, Any]:
        end_s = time.time() + 1.0
        first = work(plan(port, aup=aup, end_s=end_s))
        return await asyncio.gather(first, work(plan(port, name="late", end_s=end_s)))

    known, late = asyncio.run(both())
    assert known.slowed + late.slowed > 0
    assert late.learned_epochs >= 0
