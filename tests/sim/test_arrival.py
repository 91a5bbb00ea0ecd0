"""What is known of a new connection is told by subscription."""

from __future__ import annotations

from penstock.broker.frames import Migrate
from penstock.sim.arrival import Arrival


def test_how_far_a_client_was_is_known_by_subscription_and_pubend() -> None:
    arrival = Arrival(Migrate(1, 1, "b2", "b2"), "b1")
    assert arrival.behind_of(1) == {}
    arrival.behind |= {(1, "quotes"): 5, (2, "quotes"): 6, (1, "orders"): 7}
    assert arrival.behind_of(1) == {"quotes": 5, "orders": 7}
