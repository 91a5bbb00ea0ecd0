"""A new connection is of use once its broker has answered."""

from __future__ import annotations

from penstock.protocol.frames import Migrate, Welcome
from penstock.sim.arrival import Arrival
from sim.test_line import made


def test_a_connection_is_welcome_when_the_broker_has_answered_on_it() -> None:
    arrival = Arrival(Migrate(1, 1, "b2", "b2"), "b1")
    seen = [arrival.is_welcome]
    arrival.line = made()[2]
    seen.append(arrival.is_welcome)
    arrival.line.welcome = Welcome(1, "b2", "o", 1, 1, 0, 200, 1)
    assert [*seen, arrival.is_welcome] == [False, False, True]
