"""Positions follow deliveries and horizons, outlive connections, and never get ahead of what has come."""

from __future__ import annotations

import struct

import pytest

from penstock.protocol.frames import Acknowledge, Horizons, Subscribed
from penstock.sim.positions import Positions, unpacked
from penstock.sim.records import Start, SubscriptionRecord


def numbers(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


class Case:
    """Two subscriptions at a broker with two pubends."""

    def __init__(self) -> None:
        self.records = {number: SubscriptionRecord(number, "a = 1") for number in (1, 2)}
        self.wanted = {1: "a = 1", 2: "a = 1"}
        self.positions = Positions(self.records, self.wanted)
        self.connect()

    def connect(self) -> None:
        self.positions.connect()
        self.positions.learn(((0, "p"), (2, "q")))

    def confirm(self, number: int, *starts: tuple[str, int], now_us: int = 0) -> None:
        self.positions.on_subscribed(Subscribed(number, "a = 1", starts=starts), now_us)

    def begin(self, number: int, tick: int, pubend: int = 0) -> None:
        """The broker names the subscription, in order with its deliveries: from now on horizons are meant for it."""
        self.positions.on_horizons(Horizons(pubend, tick, numbers(number), is_only=True))

    def of(self, pubend: str) -> list[int | None]:
        return [record.positions.get(pubend) for record in self.records.values()]


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_position_begins_at_the_start_and_follows_deliveries(case: Case) -> None:
    case.confirm(1, ("p", 10), now_us=5)
    assert case.positions.stated(1) == (("p", 10),)
    case.positions.on_deliver(1, "p", 15)
    case.positions.on_deliver(1, "p", 12)
    assert case.positions.stated(1) == (("p", 16),)
    case.confirm(1, ("p", 20), ("q", 30), now_us=7)
    assert case.positions.stated(1) == (("p", 16), ("q", 30))
    assert case.records[1].starts == {"p": Start(5, 10), "q": Start(7, 30)}


def test_what_came_before_the_confirmation_counts(case: Case) -> None:
    case.positions.on_deliver(1, "p", 15)
    case.positions.on_deliver(1, "best-effort", 3)
    assert case.positions.stated(1) == ()
    case.confirm(1, ("p", 10))
    assert case.positions.stated(1) == (("p", 16),)


def test_horizons_are_for_all_confirmed_subscriptions_but_the_exceptions(case: Case) -> None:
    case.confirm(1, ("p", 10))
    case.begin(1, 10)
    case.positions.on_horizons(Horizons(0, 50))
    assert case.of("p") == [50, None]
    case.confirm(2, ("p", 20))
    case.begin(2, 20)
    case.positions.on_horizons(Horizons(0, 60, numbers(2)))
    assert case.of("p") == [60, 20]
    case.positions.on_horizons(Horizons(0, 55))
    assert case.of("p") == [60, 55]


def test_horizons_for_some_are_for_those_only(case: Case) -> None:
    for number in (1, 2):
        case.confirm(number, ("p", 10))
    case.positions.on_horizons(Horizons(0, 50, numbers(2, 9), is_only=True))
    assert case.of("p") == [10, 50]


def test_horizons_are_not_for_a_subscription_that_was_not_named_before(case: Case) -> None:
    case.confirm(1, ("p", 10))
    case.positions.on_horizons(Horizons(0, 50))
    assert case.of("p") == [10, None]


def test_a_subscription_that_was_given_up_gets_no_further(case: Case) -> None:
    case.confirm(2, ("p", 10))
    case.begin(2, 10)
    del case.wanted[2]
    case.positions.on_horizons(Horizons(0, 50, numbers(2), is_only=True))
    assert case.of("p") == [None, 10]


def test_after_a_reconnect_horizons_wait_until_the_subscription_is_named(case: Case) -> None:
    for number in (1, 2):
        case.confirm(number, ("p", 10))
        case.begin(number, 10)
    case.connect()
    for number in (1, 2):
        case.confirm(number, ("p", 10))
    case.begin(1, 10)
    # The broker may not have known of the second subscription when it said this.
    case.positions.on_horizons(Horizons(0, 50))
    assert case.of("p") == [50, 10]


def test_what_all_subscriptions_have_is_acknowledged_once(case: Case) -> None:
    case.confirm(1, ("p", 10), ("q", 10))
    case.begin(1, 10)
    assert case.positions.on_horizons(Horizons(0, 50)) is None
    case.confirm(2, ("p", 20))
    assert case.positions.on_horizons(Horizons(0, 60, numbers(2))) == Acknowledge(((0, 20),))
    assert case.positions.on_horizons(Horizons(0, 70, numbers(2))) is None
    del case.wanted[2]
    assert case.positions.on_horizons(Horizons(0, 70)) == Acknowledge(((0, 70), (2, 10)))
    case.connect()
    case.confirm(1, ("p", 70))
    assert case.positions.on_horizons(Horizons(0, 70)) == Acknowledge(((0, 70), (2, 10)))


def test_a_subscription_states_where_it_wants_to_begin_until_it_is_further(case: Case) -> None:
    case.records[1].asked = {"p": 5, "q": 6}
    assert case.positions.stated(1) == (("p", 5), ("q", 6))
    case.positions.on_deliver(1, "p", 7)
    assert case.positions.stated(1) == (("p", 8), ("q", 6))
    case.confirm(1, ("p", 5))
    case.positions.on_deliver(1, "p", 9)
    assert case.positions.stated(1) == (("p", 10), ("q", 6))


def test_a_number_that_was_never_explained_is_a_bug(case: Case) -> None:
    with pytest.raises(AssertionError, match="what pubend 7 is"):
        case.positions.on_horizons(Horizons(7, 50))


def test_numbers_are_unpacked() -> None:
    assert unpacked(numbers(1, 2**32 - 1)) == (1, 2**32 - 1)
