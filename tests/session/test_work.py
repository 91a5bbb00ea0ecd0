"""A member's part in a group: what it is handed once, what it says until it is answered, and what it gives back."""

from __future__ import annotations

from penstock.protocol.data_frames import Handed
from penstock.protocol.work_frames import VERDICTS_MAX, Outcome, Outcomes, Verdict
from penstock.session import work as module
from penstock.session.received import HandedOut
from penstock.session.work import Shared, Work


def handed(*messages: tuple[int, int]) -> Handed:
    ticks, attempts = [tick for tick, _ in messages], [attempt for _, attempt in messages]
    return Handed("p", "", b"", (1, 1, 1, 1), ticks, attempts, [b"body"] * len(messages))


def work() -> Work:
    return Work(Shared("g", "key", 5_000, 3, 7), b"me")


def one(made: Work, tick: int = 1, attempt: int = 1) -> HandedOut:
    (message,) = made.take_in(handed((tick, attempt)))
    return message


def answer(tick: int, attempt: int, verdict: Verdict, outcome: Outcome = Outcome.KEPT) -> Outcomes:
    return Outcomes(1, "p", ((tick, attempt, verdict, outcome),))


def test_it_asks_for_what_the_application_wants_and_counts_its_connections() -> None:
    made = work()
    joins = [made.join(3, "x = 1", 0, ("p",)), made.join(3, "x = 1", 0, ("p",))]
    assert [(each.round, each.member) for each in joins] == [(1, b"me"), (2, b"me")]
    first = joins[0]
    assert (first.number, first.selector, first.group, first.key) == (3, "x = 1", "g", "key")
    assert (first.work_ms, first.deliveries_max, first.prefetch, first.pubends) == (5_000, 3, 7, ("p",))


def test_a_message_that_comes_again_is_new_only_with_a_higher_attempt() -> None:
    made = work()
    assert [(each.tick, each.attempt) for each in made.take_in(handed((1, 1), (2, 3)))] == [(1, 1), (2, 3)]
    assert made.take_in(handed((1, 1), (2, 2))) == []
    assert [(each.tick, each.attempt) for each in made.take_in(handed((1, 2)))] == [(1, 2)]


def test_a_judged_message_that_was_sent_again_before_the_answer_is_not_new() -> None:
    made = work()
    message = one(made)
    made.judge(message, Verdict.DONE)
    assert made.take_in(handed((1, 1))) == []
    # Answers overtake messages on the way.
    made.on_outcomes(answer(1, 1, Verdict.DONE))
    assert made.take_in(handed((1, 1))) == []
    assert one(made, attempt=2).attempt == 2


def test_only_the_last_judged_messages_are_remembered() -> None:
    made = work()
    count = module._JUDGED_MAX + 1
    for tick in range(count):
        made.judge(one(made, tick), Verdict.DONE)
        made.on_outcomes(answer(tick, 1, Verdict.DONE))
    assert made.take_in(handed((1, 1))) == []
    assert len(made.take_in(handed((0, 1)))) == 1


def test_what_is_said_is_repeated_until_it_is_answered() -> None:
    made = work()
    said = made.judge(one(made), Verdict.REFUSED, 300, "busy")
    (frame,) = made.take(9, now_ms=0)
    assert (frame.number, frame.pubend, frame.verdicts) == (9, "p", ((1, 1, Verdict.REFUSED, 300, "busy"),))
    assert made.take(9, now_ms=1) == []
    assert made.next_deadline(has_unread=False) == 2_000
    assert made.take(9, now_ms=2_000) == [frame]
    made.on_outcomes(answer(1, 1, Verdict.REFUSED))
    assert said.outcome is Outcome.KEPT
    assert made.next_deadline(has_unread=False) is None
    assert made.take(9, now_ms=10_000) == []


def test_what_has_no_answer_is_said_at_once_on_a_new_connection() -> None:
    made = work()
    made.judge(one(made), Verdict.DONE)
    (frame,) = made.take(9, now_ms=0)
    made.join(9, "", 0, ())
    assert made.take(9, now_ms=1) == [frame]


def test_what_a_member_does_not_have_is_lost_at_once() -> None:
    made = work()
    message = one(made)
    one(made, attempt=2)
    assert made.judge(message, Verdict.DONE).outcome is Outcome.LOST
    assert made.take(9, now_ms=0) == []


def test_an_extension_leaves_the_message_with_the_member_unless_it_was_lost() -> None:
    made = work()
    message = one(made)
    made.judge(message, Verdict.EXTENDED)
    assert made.is_held(message)
    made.on_outcomes(answer(1, 1, Verdict.EXTENDED))
    assert made.is_held(message)
    made.judge(message, Verdict.EXTENDED)
    made.on_outcomes(answer(1, 1, Verdict.EXTENDED, Outcome.LOST))
    assert not made.is_held(message)


def test_a_late_answer_about_an_attempt_does_not_take_the_next_one_away() -> None:
    made = work()
    made.judge(one(made), Verdict.EXTENDED)
    again = one(made, attempt=2)
    made.on_outcomes(answer(1, 1, Verdict.EXTENDED, Outcome.LOST))
    assert made.is_held(again)


def test_an_answer_to_nothing_is_ignored() -> None:
    made = work()
    made.on_outcomes(answer(5, 1, Verdict.DONE))
    assert made.take(9, now_ms=0) == []


def test_many_verdicts_go_in_several_frames() -> None:
    made = work()
    made.give_back(made.take_in(handed(*[(tick, 1) for tick in range(VERDICTS_MAX + 1)])))
    frames = made.take(9, now_ms=0)
    assert [len(each.verdicts) for each in frames] == [VERDICTS_MAX, 1]
    assert {each[2] for frame in frames for each in frame.verdicts} == {Verdict.RETURNED}


def test_unread_messages_that_are_lost_are_told_and_come_again_only_if_they_are_handed_out_anew() -> None:
    made = work()
    lost, kept = made.take_in(handed((1, 1), (2, 1)))
    (frame,) = made.take(9, [lost, kept], now_ms=0)
    assert {each[2] for each in frame.verdicts} == {Verdict.EXTENDED}
    assert made.on_outcomes(answer(1, 1, Verdict.EXTENDED, Outcome.LOST)) == {1}
    assert made.on_outcomes(answer(2, 1, Verdict.EXTENDED)) == set()
    assert not made.is_held(lost)
    assert made.is_held(kept)
    assert made.taken_away == 1
    assert made.take_in(handed((1, 1))) == [], "a copy that was late on the way"
    assert one(made, attempt=2).attempt == 2


def test_an_answer_about_an_earlier_attempt_takes_no_unread_message_away() -> None:
    made = work()
    one(made)
    one(made, attempt=2)
    assert made.on_outcomes(answer(1, 1, Verdict.EXTENDED, Outcome.LOST)) == set()
    assert made.taken_away == 0


def test_a_new_connection_asks_at_once_whether_unread_messages_are_still_its_own() -> None:
    made = work()
    message = one(made)
    assert made.take(9, [message], now_ms=0)
    assert made.take(9, [message], now_ms=1) == []
    made.join(9, "", 0, ())
    (frame,) = made.take(9, [message], now_ms=2)
    assert [each[2] for each in frame.verdicts] == [Verdict.EXTENDED]


def test_to_say_the_same_again_leads_to_the_same() -> None:
    made = work()
    message = one(made)
    first = made.judge(message, Verdict.DONE)
    assert made.judge(message, Verdict.DONE) is first, "not answered yet"
    made.on_outcomes(answer(1, 1, Verdict.DONE))
    assert made.judge(message, Verdict.DONE).outcome is Outcome.KEPT
    assert made.judge(message, Verdict.REFUSED).outcome is Outcome.LOST
    assert made.judge(message, Verdict.EXTENDED).outcome is Outcome.LOST
    gone = one(made, tick=3)
    made.on_outcomes(answer(3, 1, Verdict.EXTENDED, Outcome.UNKNOWN))
    assert made.judge(gone, Verdict.DONE).outcome is Outcome.UNKNOWN
    late = one(made, tick=2)
    made.judge(late, Verdict.DONE)
    made.on_outcomes(answer(2, 1, Verdict.DONE, Outcome.UNKNOWN))
    assert made.judge(late, Verdict.DONE).outcome is Outcome.UNKNOWN


def test_only_what_the_application_has_said_and_not_been_answered_is_open() -> None:
    made = work()
    done, refused, extended, returned = made.take_in(handed((1, 1), (2, 1), (3, 1), (4, 1)))
    made.judge(done, Verdict.DONE)
    made.judge(refused, Verdict.REFUSED)
    made.judge(extended, Verdict.EXTENDED)
    made.give_back([returned])
    assert made.unanswered == 2
    made.on_outcomes(answer(1, 1, Verdict.DONE))
    made.on_outcomes(answer(2, 1, Verdict.REFUSED, Outcome.LOST))
    assert made.unanswered == 0
