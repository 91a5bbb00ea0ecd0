"""The verdict names each broken law of guaranteed delivery, and is silent about what is right."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.sim.client import SimClient
from penstock.sim.older_copies import Loss
from penstock.sim.records import Acknowledged, Delivery, LostTicks, Published, Start, Visit
from penstock.sim.verdict import Verdict, judge
from sim.scripted import idle_client


def client(name: str, *selectors: str) -> SimClient:
    made = idle_client(name, *selectors)
    for record in made.subscriptions.values():
        record.starts, record.positions = {"p": Start(100, 0)}, {"p": 0}
    return made


def body(counter: int, a: int = 1) -> bytes:
    return encode_body(MessageId(1, 1, 1_000, counter), Message({"a": a}))


class Case:
    """A publisher of messages 1 to 5 (the last unacknowledged), and two subscribers that want them all."""

    def __init__(self) -> None:
        self.publisher, self.one, self.other = client("pub"), client("one", "a = 1"), client("other", "a > 0")
        self.publisher.published[:] = [
            Published(
                100 + counter,
                body(counter),
                pubend="p",
                is_guaranteed=True,
                acked_us=200 if counter < 5 else None,
            )
            for counter in range(1, 6)
        ]
        for subscriber in (self.one, self.other):
            self.deliver(subscriber, 1, 2, 3, 4)

    def deliver(self, subscriber: SimClient, *counters: int) -> None:
        subscriber.deliveries += [Delivery(300, 1, "p", 10 * each, body(each)) for each in counters]

    def judge(
        self,
        *excused: bytes,
        journal: list[tuple[str, int, bytes]] | None = None,
        may_lapse: bool = False,
        rules: dict[str, str] | None = None,
        losses: tuple[Loss, ...] = (),
    ) -> Verdict:
        return judge(
            [self.publisher],
            [self.one, self.other],
            excused=excused,
            journal=journal,
            may_lapse=may_lapse,
            rules=rules,
            losses=losses,
        )


@pytest.fixture
def case() -> Case:
    return Case()


def test_what_is_right_has_no_problems(case: Case) -> None:
    assert case.judge() == Verdict(published=5, acknowledged=4, delivered=8)
    assert case.judge().is_sound


def test_an_acknowledged_message_that_one_or_nobody_gets_is_lost(case: Case) -> None:
    del case.one.deliveries[1]
    assert (case.judge().lost, case.judge().is_sound) == (1, False)
    assert "one: subscription 1 misses" in case.judge().problems[0]
    assert case.judge(body(2)).lost == 0
    del case.other.deliveries[1]
    assert case.judge().lost == 2
    assert "got by nobody" in case.judge().problems[0]


def test_what_one_got_all_must_get_though_it_was_never_acknowledged(case: Case) -> None:
    case.deliver(case.one, 5)
    assert case.judge().lost == 1
    assert "came to others" in case.judge().problems[0]
    case.deliver(case.other, 5)
    assert case.judge() == Verdict(published=5, acknowledged=4, delivered=10)


def test_nothing_is_owed_that_was_sent_before_the_confirmation_or_after_the_end(case: Case) -> None:
    del case.one.deliveries[1:]
    record = case.one.subscriptions[1]
    record.starts["p"] = Start(105, 0)
    assert case.judge().lost == 0
    record.starts["p"] = Start(100, 0)
    assert case.judge().lost == 3
    record.ended_us = 400
    assert case.judge().lost == 0


def test_what_lies_below_a_position_has_come_whenever_it_was_sent(case: Case) -> None:
    del case.one.deliveries[1]
    record = case.one.subscriptions[1]
    record.ended_us, record.starts["p"] = 400, Start(500, 15)
    assert case.judge().lost == 0
    record.positions["p"] = 41
    assert case.judge().lost == 1
    record.starts["p"] = Start(500, 21)
    assert case.judge().lost == 0


def test_a_message_that_nobody_gets_is_owed_to_those_confirmed_for_its_pubend(case: Case) -> None:
    del case.one.deliveries[1], case.other.deliveries[1]
    case.publisher.published[1].pubend = "q"
    assert case.judge().lost == 0
    case.one.subscriptions[1].starts["q"] = Start(50, 0)
    assert case.judge().lost == 1


def test_a_message_in_another_pubend_than_it_was_published_to_is_noticed(case: Case) -> None:
    case.publisher.published[1].pubend = "q"
    assert case.judge().duplicated > 0


def test_a_guaranteed_message_that_was_given_up_is_lost(case: Case) -> None:
    case.publisher.published[4].is_unconfirmed = True
    assert case.judge(journal=[("p", 10 * each, body(each)) for each in range(1, 5)]).lost == 1


def test_a_log_that_swaps_messages_of_a_publisher_is_noticed_though_nobody_reads_it(case: Case) -> None:
    case.one.deliveries.clear()
    case.other.deliveries.clear()
    journal = [("p", 10, body(2)), ("p", 20, body(1)), ("p", 30, body(3)), ("p", 40, body(4))]
    assert case.judge(journal=journal).reordered == 1


def test_what_a_publisher_may_not_publish_must_be_refused_and_nothing_else(case: Case) -> None:
    assert case.judge(rules={}).is_sound
    assert case.judge(rules={"pub": "a = 1", "somebody": "a = 2"}).is_sound
    assert case.judge(rules={"pub": "a = 2"}).wrongly_filtered == 4
    case.publisher.published[4].is_refused = True
    assert case.judge(rules={}).lost == 1
    assert "was refused, and may be published" in case.judge(rules={"pub": "a = 1"}).problems[0]


def test_a_refused_message_that_is_in_a_log_or_of_which_nobody_was_told_is_noticed(case: Case) -> None:
    last = case.publisher.published[4]
    last.body = body(5, a=3)
    last.is_refused = last.was_sent = True
    assert case.judge(rules={"pub": "a = 1"}).is_sound
    journal = [("p", 10 * each, body(each)) for each in range(1, 5)]
    assert case.judge(rules={"pub": "a = 1"}, journal=[*journal, ("p", 50, body(5, a=3))]).wrongly_filtered == 1
    last.is_refused = False
    assert "nobody was told" in case.judge(rules={"pub": "a = 1"}).problems[0]
    last.is_guaranteed = False
    assert case.judge(rules={"pub": "a = 1"}).is_sound


def test_refused_and_best_effort_messages_are_not_owed(case: Case) -> None:
    case.one.deliveries.clear()
    case.other.deliveries.clear()
    for each in case.publisher.published:
        each.is_refused = True
    assert case.judge() == Verdict(acknowledged=4)
    case.deliver(case.one, 1)
    assert case.judge().wrongly_filtered == 1
    for each in case.publisher.published:
        each.is_refused = each.is_guaranteed = False
    assert case.judge() == Verdict()


def test_a_message_that_comes_twice_is_noticed(case: Case) -> None:
    case.deliver(case.one, 4)
    assert (case.judge().duplicated, case.judge().reordered, case.judge().lost) == (1, 0, 0)
    assert "came twice" in case.judge().problems[0]


def test_a_message_under_two_ticks_and_a_tick_of_two_messages_are_noticed(case: Case) -> None:
    case.one.deliveries[3] = case.one.deliveries[3]._replace(tick=41)
    assert case.judge().duplicated == 1
    case.one.deliveries[3] = case.one.deliveries[3]._replace(tick=40)
    case.publisher.published[4].acked_us = 300
    for subscriber in (case.one, case.other):
        subscriber.deliveries.append(Delivery(300, 1, "p", 40, body(5)))
    verdict = case.judge()
    assert (verdict.duplicated, verdict.reordered) == (2, 2)
    assert "are not one to one" in verdict.problems[0]


def test_disorder_of_ticks_and_of_a_publisher_is_noticed(case: Case) -> None:
    one, two, *rest = case.one.deliveries
    case.one.deliveries = [two, one, *rest]
    assert "came after 1970" in case.judge().problems[0]
    for subscriber in (case.one, case.other):
        subscriber.deliveries = [two._replace(tick=5), one._replace(tick=6), *rest]
    verdict = case.judge()
    assert (verdict.reordered, verdict.duplicated, verdict.lost) == (2, 0, 0)
    assert "later one of the same publisher" in verdict.problems[0]


def test_what_nobody_asked_for_or_published_is_noticed(case: Case) -> None:
    case.one.deliveries.append(Delivery(300, 1, "p", 50, body(99)))
    case.one.deliveries.append(Delivery(300, 7, "p", 60, body(1)))
    case.publisher.published[3].body = case.publisher.published[3].body[:16] + body(4, a=2)[16:]
    verdict = case.judge()
    assert verdict.wrongly_filtered == 3
    assert [problem.split(") ")[1].split(",")[0] for problem in verdict.problems] == [
        "is refused",
        "was published by nobody",
        "came for no subscription",
    ]


def test_strangers_on_other_pubends_need_only_be_selected(case: Case) -> None:
    case.one.deliveries.append(Delivery(300, 1, "$b1", 50, body(99)))
    assert case.judge().is_sound
    case.one.deliveries.append(Delivery(300, 1, "$b1", 50, body(98, a=2)))
    assert case.judge().wrongly_filtered == 1


def test_what_was_not_granted_and_what_comes_after_the_end_are_noticed(case: Case) -> None:
    record = case.one.subscriptions[1]
    record.granted = "a = 1 AND a > 5"
    assert case.judge().wrongly_filtered == 4
    record.granted, record.gone_us = "a = 1", 299
    assert "that is gone" in case.judge().problems[0]


def test_what_a_client_was_told_is_lost_may_be_missing_only_where_it_may(case: Case) -> None:
    del case.one.deliveries[1]
    case.one.lost.append(LostTicks(300, "p", 15, 25, (1,)))
    assert (case.judge().lost, case.judge(may_lapse=True).lost) == (1, 0)
    record = case.one.subscriptions[1]
    record.asked, record.starts["p"], record.positions["p"] = {"p": 0}, Start(150, 0), 41
    assert case.judge().lost == 0
    # It was sent when the subscription was in force already: then nothing may go.
    record.starts["p"] = Start(101, 0)
    assert case.judge().lost == 1
    case.one.lost[0] = LostTicks(300, "p", 15, 25, (2,))
    assert case.judge(may_lapse=True).lost == 1


def test_a_journal_tells_what_became_durable(case: Case) -> None:
    journal = [("p", 10 * counter, body(counter)) for counter in range(1, 5)]
    assert case.judge(journal=journal).is_sound
    assert "never became durable" in case.judge(journal=journal[:-1]).problems[0]
    # Not acknowledged, but durable: it will be delivered, so it must be to all.
    assert case.judge(journal=[*journal, ("p", 50, body(5))]).lost == 2
    assert case.judge(journal=[*journal, ("p", 50, body(4))]).duplicated == 1


def test_what_lies_before_a_start_is_owed_only_to_who_was_told_to_begin_now_before_it_was_sent(case: Case) -> None:
    del case.one.deliveries[1]
    record = case.one.subscriptions[1]
    record.starts["p"] = Start(100, 21)
    assert case.judge().lost == 1
    record.starts["p"] = Start(150, 21)
    assert case.judge().lost == 0
    record.starts["p"], record.asked = Start(100, 21), {"p": 21}
    assert case.judge().lost == 0


def test_a_subscription_begins_where_it_wants_or_where_the_log_does_if_it_said_so(case: Case) -> None:
    record = case.one.subscriptions[1]
    for missing, wanted, start, trimmed_below, is_right in (
        ("fail", 5, 5, 0, True),
        ("fail", 5, 7, 7, False),
        ("fail", 0, 7, 7, True),
        ("earliest", 5, 7, 7, True),
        ("earliest", 5, 8, 7, False),
        ("latest", 5, 9, 7, True),
        ("latest", 5, 9, 4, False),
        ("earliest", 5, 4, 7, False),
    ):
        record.missing, record.asked = missing, {"p": wanted}  # type: ignore[assignment]
        record.visits = [Visit(50, "b1", {"p": wanted}, {"p": Start(100, start, trimmed_below)})]
        assert case.judge().is_sound is is_right, (missing, wanted, start, trimmed_below)


def test_a_wrong_refusal_breaks_a_law(case: Case) -> None:
    case.one.subscriptions[1].refused_rightly = False
    assert "was wrongly refused" in case.judge().problems[0]


def test_the_lives_of_a_durable_name_are_judged_together(case: Case) -> None:
    record = case.one.subscriptions[1]
    record.durable, record.ended_us = "n", 400
    record.visits = [Visit(50, "b1", {}, {"p": Start(100, 5)}, 400, {"p": 21})]
    record.acknowledged = [Acknowledged(300, "p", 20)]
    del case.one.deliveries[2:]
    number = case.one.subscribe("a = 1", durable="n")
    again = case.one.subscriptions[number]
    again.visits, again.positions = [Visit(500, "b1", {}, {"p": Start(510, 20)})], {"p": 41}
    case.one.deliveries += [Delivery(600, number, "p", 10 * each, body(each)) for each in (2, 3, 4)]
    assert case.judge().is_sound
    # Had it been forgotten in between, it would have begun with what came after that.
    verdict = judge([case.publisher], [case.one], forgotten={"n": 450})
    assert verdict.duplicated == 3
    again.otherwise = 0
    verdict = judge([case.publisher], [case.one], forgotten={"n": 450})
    assert verdict.duplicated == 0, "who begins it anew may want all there is"
    again.visits[0].starts["p"] = Start(510, 21)
    assert case.judge().lost == 1


def test_only_the_first_problems_are_told(case: Case) -> None:
    case.deliver(case.one, *([4] * 30))
    assert (case.judge().duplicated, len(case.judge().problems)) == (30, 20)


def test_what_is_lost_to_who_was_away_beyond_its_grace_must_be_told(case: Case) -> None:
    del case.one.deliveries[1]
    record = case.one.subscriptions[1]
    record.positions["p"] = 41
    record.visits += [Visit(50, ended_us=1_000), Visit(6_001)]
    everybody = [case.one, case.other]
    assert judge([case.publisher], everybody, grace_ms=5).lost == 1, "nobody told it"
    case.one.lost.append(LostTicks(7_000, "p", 15, 25, (1,)))
    assert judge([case.publisher], everybody, grace_ms=5).is_sound
    assert judge([case.publisher], everybody, grace_ms=6).lost == 1, "it was not away for so long"
    assert judge([case.publisher], everybody).lost == 1


def test_a_best_effort_message_may_be_missing_but_not_come_twice(case: Case) -> None:
    for each in case.publisher.published:
        each.is_guaranteed = False
    del case.one.deliveries[1]
    assert case.judge().is_sound
    case.deliver(case.other, 2)
    assert case.judge().duplicated == 1


class Clocked:
    """A broker whose clock shows virtual time."""

    def wall_ms(self, at_us: int) -> int:
        return at_us // 1_000

    def wall_ms_max(self) -> int:
        return 2_500


@pytest.mark.parametrize(
    ("expires", "sent_us", "lost", "late"),
    [(1.0, 1_999_000, 0, 0), (1.0, 2_000_000, 0, 1), (1.5, 2_000_000, 0, 0), (1.501, 2_000_000, 1, 0)],
)
def test_expired_messages_may_be_missing_but_may_not_come(
    case: Case, expires: float, sent_us: int, lost: int, late: int
) -> None:
    made = encode_body(MessageId(1, 1, 1_000, 9), Message({"a": 1}, expires=expires))
    case.publisher.published.append(Published(sent_us, made, pubend="p", is_guaranteed=True, acked_us=sent_us))
    case.one.deliveries.append(Delivery(sent_us + 1, 1, "p", 90, made))
    carriers = case.one.witness.carriers[1, "p", 90] = [("b1", 200)]
    brokers: Any = {"b1": Clocked()}
    found = judge([case.publisher], [case.one, case.other], brokers=brokers)
    assert (found.lost, found.wrongly_filtered) == (lost, late)
    # A receiver that asked its broker only afterwards must not get it either.
    carriers[0] = ("b1", 2_600_000)
    case.one.deliveries[-1] = Delivery(2_700_000, 1, "p", 90, made)
    assert judge([case.publisher], [case.one, case.other], brokers=brokers).wrongly_filtered == 1


def test_a_message_may_come_from_either_broker_while_a_client_moves(case: Case) -> None:
    made = encode_body(MessageId(1, 1, 1_000, 9), Message({"a": 1}, expires=1.0))
    case.publisher.published.append(Published(1_500_000, made, pubend="p", is_guaranteed=True, acked_us=1_500_000))
    case.one.deliveries.append(Delivery(2_200_000, 1, "p", 90, made))
    brokers: Any = {"b1": Clocked(), "b2": Clocked()}
    for asked_us, late in ((1_600_000, 0), (2_050_000, 1)):
        case.one.witness.carriers[1, "p", 90] = [("b1", 2_100_000), ("b2", asked_us)]
        found = judge([case.publisher], [case.one, case.other], brokers=brokers)
        assert found.wrongly_filtered == late


# --- older copies of disks


def journal_of(*counters: int) -> list[tuple[str, int, bytes]]:
    return [("p", 10 * each, body(each)) for each in counters]


def test_what_an_older_copy_lacks_may_be_missing_if_the_client_was_told(case: Case) -> None:
    journal, losses = journal_of(1, 2, 3, 4), (Loss(250, "p", frozenset({20, 30}), (20, 30), is_recognised=True),)
    del case.one.deliveries[1]
    assert case.judge(journal=journal, losses=losses).lost == 1
    case.one.lost.append(LostTicks(300, "p", 11, 25, (1,)))
    assert case.judge(journal=journal, losses=losses).is_sound
    assert case.judge(journal=journal).lost == 1


def test_what_nobody_could_recognise_as_lost_is_owed_to_nobody(case: Case) -> None:
    journal, losses = journal_of(1, 2, 3, 4), (Loss(250, "p", frozenset({20}), (20, 20), is_recognised=False),)
    del case.one.deliveries[1]
    assert case.judge(journal=journal, losses=losses).is_sound
    assert case.judge(journal=journal).lost == 1


def test_a_lost_message_that_is_sent_again_may_come_twice_and_late(case: Case) -> None:
    journal = [*journal_of(1, 2, 3, 4), ("p", 50, body(2))]
    losses = (Loss(250, "p", frozenset({20, 30}), (20, 30), is_recognised=True),)
    case.one.deliveries.append(Delivery(400, 1, "p", 50, body(2)))
    del case.other.deliveries[1]
    case.other.deliveries.append(Delivery(400, 1, "p", 50, body(2)))
    assert case.judge(journal=journal, losses=losses).is_sound
    assert not case.judge(journal=journal).is_sound
    del case.other.deliveries[-1]
    assert case.judge(journal=journal, losses=losses).lost == 1


def test_a_lost_tick_that_is_given_to_another_message_is_noticed(case: Case) -> None:
    journal = [*journal_of(1, 2, 3, 4), ("p", 20, body(5))]
    assert case.judge(
        journal=journal, losses=(Loss(250, "p", frozenset({20}), (20, 20), is_recognised=True),)
    ).duplicated
    assert not case.judge(
        journal=journal, losses=(Loss(250, "p", frozenset({20}), (20, 20), is_recognised=False),)
    ).duplicated
