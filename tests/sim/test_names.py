"""The lives of a durable name: nothing skipped, nothing again, by its owner, complete; each breach is named."""

from __future__ import annotations

from penstock.protocol.frames import Missing
from penstock.sim.names import Life, breaches
from penstock.sim.records import Acknowledged, LostTicks, Start, SubscriptionRecord, Visit

OWED = {"p": [10, 20, 30, 40, 50]}


def life(
    client: str, asked_us: int, start: int, reached: int, *acks: tuple[int, int], stated: int | None = None
) -> Life:
    """A life that was confirmed 10 after it was asked for, ended 100 after, and got all in between."""
    record = SubscriptionRecord(1, "a = 1", durable="n", ended_us=asked_us + 100)
    visit = Visit(asked_us, "b1", {} if stated is None else {"p": stated}, {"p": Start(asked_us + 10, start)})
    visit.ended_us, visit.reached = asked_us + 100, {"p": reached}
    record.visits.append(visit)
    record.positions["p"] = reached
    record.acknowledged += [Acknowledged(sent_us, "p", tick) for sent_us, tick in acks]
    return Life(client, record, {("p", tick) for tick in OWED["p"] if start <= tick < reached})


def found(*lives: Life, may_lapse: bool = False) -> list[str]:
    return [each.what for each in breaches(lives, OWED, may_lapse=may_lapse)]


def test_a_life_that_begins_where_the_last_one_acknowledged_is_right() -> None:
    assert found(life("one", 0, 5, 31, (50, 20)), life("two", 200, 20, 51)) == []


def test_who_begins_above_what_was_acknowledged_skips_something() -> None:
    lives = life("one", 0, 5, 31, (50, 20)), life("two", 200, 30, 51)
    assert len(found(*lives)) == 1
    assert "above 1970-01-01T00:00:00.000Z+20" in found(*lives)[0]
    assert len(found(*lives, may_lapse=True)) == 1, "where a log lapses, what is gone is told, and nothing is skipped"


def test_what_a_life_acknowledges_as_soon_as_it_begins_is_no_reason_to_begin_there() -> None:
    assert len(found(life("one", 0, 5, 31, (50, 20)), life("two", 200, 30, 51, (210, 30)))) == 1


def test_who_lives_may_go_on_where_it_is() -> None:
    assert found(life("one", 0, 5, 31), life("one", 200, 31, 51, stated=31)) == []


def test_what_a_former_owner_acknowledged_does_not_count() -> None:
    first, second = life("one", 0, 5, 51, (60, 51)), life("two", 20, 5, 21)
    assert found(first, second, life("three", 200, 5, 51)) == []
    assert len(found(first, second, life("three", 200, 51, 51))) == 1
    # Before the other one was confirmed, it counts.
    assert found(life("one", 0, 5, 51, (25, 51)), second, life("three", 200, 51, 51)) == []
    # When the other one has ended, its broker may have claimed the name anew, unless it was told that it lost it.
    second.record.visits[0].ended_us = 50
    assert found(first, second, life("three", 200, 51, 51)) == []
    first.record.refused = "durable subscription was taken over"
    assert len(found(first, second, life("three", 200, 51, 51))) == 1
    # It was told when the third claimed the name: that says nothing about the second.
    first.record.visits[0].ended_us = 205
    assert found(first, second, life("three", 200, 51, 51)) == []


def test_what_was_acknowledged_by_who_was_never_told_where_it_begins_counts() -> None:
    moving = life("two", 20, 5, 31, (60, 31))
    moving.record.visits[0].starts.clear()
    assert found(life("one", 0, 5, 31), moving, life("three", 200, 31, 51)) == []
    assert len(found(life("one", 0, 5, 31), moving, life("three", 200, 40, 51))) == 1


def test_nobody_begins_below_where_somebody_began_or_what_was_settled() -> None:
    assert "below" in found(life("one", 0, 15, 31), life("two", 200, 5, 51))[0]
    settled = life("one", 0, 5, 31, (50, 20))
    settled.record.settled["p"] = Acknowledged(90, "p", 20)
    assert "below" in found(settled, life("two", 200, 10, 51))[0]
    assert found(settled, life("two", 80, 10, 51)) == []


def test_what_lies_between_must_have_come_unless_it_may_lapse_and_was_told() -> None:
    one = life("one", 0, 5, 31)
    one.got.remove(("p", 20))
    assert found(one) == ["one: subscription 1 (n) misses p 1970-01-01T00:00:00.000Z+20, though it went on behind it"]
    told = one._replace(lost=[LostTicks(50, "p", 15, 25, (1,))])
    assert found(told, may_lapse=True) == []
    assert len(found(told)) == len(found(one, may_lapse=True)) == 1


def test_what_came_to_no_life_is_missed_once_the_last_owner_is_behind_it() -> None:
    # Both have stated that they have more than was ever acknowledged, and one of them lies.
    one, two = life("one", 0, 5, 21), life("two", 200, 40, 51, stated=40)
    assert found(one, two) == []
    two.record.ended_us = None
    assert found(one, two) == ["p 1970-01-01T00:00:00.000Z+30 came to no life of durable subscription n"]
    assert len(found(one, two, may_lapse=True)) == 1
    told = one._replace(lost=[LostTicks(50, "p", 25, 35, (1,))])
    assert found(told, two, may_lapse=True) == []
    assert len(found(told, two)) == 1


def test_a_name_is_refused_only_to_one_of_those_who_claim_it_at_the_same_time() -> None:
    loser = life("two", 30_000_000, 5, 5)
    loser.record.refused = "durable subscription 'n' is in use and could not be taken over"
    assert found(life("one", 0, 5, 51), loser) == ["two: was refused n although nobody else came"]
    assert found(life("one", 25_000_000, 5, 51), loser) == []


def refused(missing: Missing, below: int) -> Life:
    """A life that was refused at once, when the log had been given up below a tick."""
    one = life("two", 200, 0, 0)
    one.record.visits[-1].starts.clear()
    one.record.missing, one.record.given_up = missing, {"p": below}
    one.record.refused = "position 20 of pubend p is not kept any more"
    return one


def test_only_who_asks_for_it_is_refused_a_name_whose_position_is_gone() -> None:
    first = life("one", 0, 20, 31)
    assert found(first, refused("fail", 25)) == []
    for missing in ("earliest", "latest"):
        assert "although it asked to resume" in found(first, refused(missing, 25))[0]


def test_nobody_is_refused_a_name_whose_position_is_kept() -> None:
    assert "although its position is kept" in found(life("one", 0, 20, 31), refused("fail", 20))[0]
    resumed = life("one", 0, 20, 31)
    resumed.record.visits[-1].stated["p"] = 20
    assert found(resumed, refused("fail", 20)) == [], "it had come to 20, and had not acknowledged that"
    settled = life("one", 0, 5, 31)
    settled.record.settled["p"] = Acknowledged(150, "p", 20)
    assert "although its position is kept" in found(settled, refused("fail", 20))[0]
    # What came later says nothing about then.
    settled.record.settled["p"] = Acknowledged(250, "p", 20)
    assert found(settled, refused("fail", 20)) == []
    assert found(life("one", 0, 5, 31), refused("fail", 20), life("three", 300, 20, 31, stated=20)) == []


# --- single messages


def manual(one: Life, **done: int) -> Life:
    """A life whose messages came a microsecond after one another, done at these times."""
    one.record.is_manual = True
    one.record.done |= {("p", int(tick[1:])): done_us for tick, done_us in done.items()}
    asked_us = one.record.visits[0].asked_us
    return one._replace(came={where: asked_us + 20 + where[1] // 10 for where in sorted(one.got)})


def test_what_is_kept_comes_to_nobody_who_claims_the_name_later() -> None:
    first, second = manual(life("one", 0, 5, 31), t20=60), manual(life("two", 200, 5, 51))
    first.record.kept.append(Acknowledged(150, "p", 20))
    assert found(first, second) == [
        "two: subscription 1 (n) got p 1970-01-01T00:00:00.000Z+20, of which the acknowledgement was kept before"
    ]
    first.record.kept[0] = Acknowledged(200, "p", 20)
    assert found(first, second) == [], "nobody knew that when the name was claimed"


def test_what_came_while_a_client_moved_may_have_come_by_the_old_line() -> None:
    first, second = manual(life("one", 0, 5, 31), t20=60), manual(life("two", 200, 5, 51))
    first.record.kept.append(Acknowledged(150, "p", 20))
    second.record.visits.insert(0, Visit(140, "b2", {}, {"p": Start(145, 5)}, ended_us=230))
    assert found(first, second) == []
    second.record.visits[0].ended_us = 210
    assert len(found(first, second)) == 1


def test_only_what_its_owner_had_named_before_may_be_missing() -> None:
    first, second = manual(life("one", 0, 5, 31), t20=60), manual(life("two", 200, 5, 51))
    second.got.remove(("p", 20))
    assert len(found(first, second)) == 1
    first.record.named.append(Acknowledged(70, "p", 20))
    assert found(first, second) == []
    first.record.named[0] = Acknowledged(211, "p", 20)
    assert len(found(first, second)) == 1, "it was named when the other one had begun"
    first.record.named[0] = Acknowledged(70, "p", 20)
    usurper = manual(life("three", 20, 5, 51))
    assert len(found(first, usurper, second)) == 1, "somebody else had the name then"


def test_no_position_passes_what_is_not_done() -> None:
    one = manual(life("one", 0, 5, 51, (60, 20), (80, 31)), t10=50, t20=80, t30=80)
    assert found(one) == []
    one.record.done["p", 30] = 81
    assert found(one) == [
        "one: subscription 1 (n) acknowledged a position above p 1970-01-01T00:00:00.000Z+30, not done"
    ]
    del one.record.done["p", 10], one.record.done["p", 30]
    assert len(found(one)) == 2
    one.record.is_manual = False
    assert found(one) == []


def test_no_single_message_is_named_that_is_not_done() -> None:
    one = manual(life("one", 0, 5, 51), t20=80)
    one.record.named += [Acknowledged(80, "p", 20)]
    assert found(one) == []
    one.record.named += [Acknowledged(79, "p", 20), Acknowledged(90, "p", 30)]
    assert len(found(one)) == 2
