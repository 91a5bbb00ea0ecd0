"""What the tests of the sink share: brokers as processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan

PLAN = OverlayPlan({"b1": ("b1.in", "b1.out", "b1.more"), "b2": ()}, [("b1", "b2")], {"heartbeat_ms": 50})

DOOR_PLAN = OverlayPlan(
    {"door": (), "b1": ("b1.in", "b1.out"), "b2": ("b2.out",)},
    [("door", "b1"), ("door", "b2"), ("b1", "b2")],
    {"heartbeat_ms": 50},
)
"""Pubends at two brokers, which have a link of their own, and a third broker without any."""


@pytest.fixture(scope="module")
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as running:
        yield running
