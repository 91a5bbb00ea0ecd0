"""What a client says of its subscriptions on each connection, and whether what it was refused for was so."""

from __future__ import annotations

from penstock.protocol.frames import Subscribed
from penstock.sim.clock import Clock
from penstock.sim.records import SubscriptionRecord
from penstock.sim.subscribing import Subscribing


def subscribing(given_up: dict[str, int] | None = None, **options: object) -> tuple[Subscribing, SubscriptionRecord]:
    made = Subscribing(Clock(), lambda: given_up or {})
    record = SubscriptionRecord(1, "a = 1", **options)  # type: ignore[arg-type]
    made.add(record)
    return made, record


def test_a_durable_one_states_on_the_next_connection_what_has_come() -> None:
    made, record = subscribing(durable="n")
    first = made.ask_for(record, "b1")
    assert (first.durable, first.positions, first.resumes) == ("n", (), False)
    made.positions.on_deliver(1, "p", 7)
    made.disconnect()
    # It was never confirmed, but what has come must not come again.
    again = made.ask_for(record, "b2")
    assert (again.positions, again.resumes) == ((("p", 8),), True)
    assert [session.broker for session in record.sessions] == ["b1", "b2"]


def test_one_that_was_given_up_has_sessions_that_ended() -> None:
    made, record = subscribing({"p": 5})
    made.ask_for(record, "b1")
    made.on_subscribed(Subscribed(1, "a = 1", starts=(("p", 7),)))
    assert record.is_confirmed
    assert record.sessions[0].starts["p"].trimmed_below == 5
    made.give_up(1)
    assert record.periods[0].to_us == 0
    assert (record.sessions[0].reached, record.ended_us, made.wanted) == ({"p": 7}, 0, {})


def test_a_refusal_is_right_where_the_position_was_given_up() -> None:
    for asked, is_right in ((4, True), (5, False)):
        made, record = subscribing({"p": 5}, asked={"p": asked})
        made.ask_for(record, "b1")
        made.on_refused(1, "position 4 is not kept any more")
        assert (record.refused_rightly, made.wanted) == (is_right, {})
