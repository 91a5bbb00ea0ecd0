"""Brokers in namespaces do what brokers with relays do; skipped, with the reason, where root does not allow it."""

from __future__ import annotations

import tomllib

import pytest

from lab.links.test_overlays import PLAN, limited
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.namespaced import AddressedPlan, NamespacedOverlay
from penstock.lab.links.namespaces import why_no_namespaces


def test_a_plan_with_addresses_asks_who_is_there() -> None:
    plan = AddressedPlan(
        PLAN.pubends,
        PLAN.links,
        within=PLAN,
        addresses={"b1": "198.18.0.1", "b2": "198.18.0.2"},
        clients={"reader": "secret"},
        link_token="between us",  # noqa: S106 - a test
    )
    told = tomllib.loads(plan.toml({"b1": 7_001, "b2": 7_002}))
    assert {name: each["host"] for name, each in told["brokers"].items()} == plan.addresses
    assert (told["security"], told["clients"]) == (
        {"link_token": "between us"},
        [{"name": "reader", "token": "secret"}],
    )
    assert told["defaults"]["heartbeat_ms"] == 100
    assert "secret" not in repr(plan)


def test_namespaces_are_links() -> None:
    if why := why_no_namespaces():
        pytest.skip(why)
    limited(NamespacedOverlay(PLAN, LinkLimits(buffer_bytes=10_000), clients=("publisher", "subscriber")))
