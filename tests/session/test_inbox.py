from __future__ import annotations

from penstock.model.tick import tick_at
from penstock.protocol.frames import Handed
from penstock.protocol.work_frames import Outcome, Outcomes, Verdict
from penstock.session.inbox import Inbox, Lag, Wanted
from penstock.session.positions import LostTicks
from penstock.session.received import BestEffortReceived, Received
from penstock.session.work import Shared


def inbox_with(count: int, *, bytes_max: int = 10**6, messages_max: int = 10**6, size: int = 100) -> Inbox:
    inbox = Inbox(1, Wanted("TRUE"), bytes_max=bytes_max, messages_max=messages_max)
    for tick in range(count):
        inbox.push(Received("p", tick, bytes(size)))
    inbox.check_invariants()
    return inbox


def test_messages_come_out_in_order() -> None:
    inbox = inbox_with(5)
    assert inbox.pop().tick == 0
    assert [each.tick for each in inbox.pop_many(2)] == [1, 2]
    inbox.check_invariants()
    assert [each.tick for each in inbox.pop_many()] == [3, 4]
    assert inbox.size == 0


def test_it_blocks_from_full_to_half_by_number() -> None:
    inbox = inbox_with(9, messages_max=10)
    assert not inbox.update_blocking()
    inbox.push(Received("p", 9, b""))
    assert inbox.update_blocking()
    inbox.pop_many(4)
    assert inbox.update_blocking()
    inbox.pop()
    assert not inbox.update_blocking()


def test_it_blocks_from_full_to_half_by_bytes() -> None:
    inbox = inbox_with(10, bytes_max=10 * 300, size=100)
    assert inbox.update_blocking()
    inbox.pop_many(5)
    assert not inbox.update_blocking()
    assert not inbox.blocking


def test_empty_messages_have_a_weight_too() -> None:
    assert inbox_with(100, bytes_max=10_000, size=0).update_blocking()


def test_it_is_over_when_closed_or_refused() -> None:
    inbox = inbox_with(0)
    assert not inbox.is_over
    inbox.state = "refused"
    assert inbox.is_over


def test_a_repetition_is_not_taken_in() -> None:
    inbox = Inbox(1, Wanted("TRUE", {"p": 5}), bytes_max=10**6, messages_max=10**6)
    assert [inbox.push(Received("p", tick, b"")) for tick in (4, 5, 5, 7)] == [False, True, False, True]
    assert [inbox.push(BestEffortReceived("p", tick, b"")) for tick in (4, 3, 3)] == [True] * 3
    inbox.check_invariants()


def test_positions_of_the_reader_stay_in_front_of_what_was_not_read() -> None:
    inbox = Inbox(1, Wanted("TRUE"), bytes_max=10**6, messages_max=10**6)
    inbox.on_subscribed("TRUE", ("r",), (("p", 2), ("q", 4)))
    for tick in (3, 6):
        inbox.push(Received("p", tick, b""))
    assert inbox.read_positions() == {"p": 3, "q": 4}
    inbox.pop()
    assert inbox.read_positions() == {"p": 6, "q": 4}
    inbox.withdraw()
    assert inbox.read_positions() == {"p": 6, "q": 4}, "what was forgotten has not been read"
    inbox.on_subscribed("TRUE", (), (("p", 7), ("r", 9)))
    assert inbox.starts == {"p": 2, "q": 4, "r": 9}


def test_the_newest_notices_of_lost_ticks_are_kept_and_all_are_counted() -> None:
    inbox = Inbox(1, Wanted("TRUE", {"p": 0}), bytes_max=10**6, messages_max=10**6)
    for first in range(0, 500, 2):
        assert inbox.on_lost(LostTicks("p", first, first + 1))
    assert not inbox.on_lost(LostTicks("p", 0, 1))
    assert (inbox.lost_count, len(inbox.lost), inbox.lost[-1]) == (250, 100, LostTicks("p", 498, 499))


def test_lag_is_what_lies_between_the_reader_and_the_pubend_and_silence_counts_as_read() -> None:
    inbox = Inbox(1, Wanted("TRUE"), bytes_max=10**6, messages_max=10**6)
    assert inbox.lag({"p": tick_at(9_000)}) == {}, "it has not begun anywhere"
    inbox.on_subscribed("TRUE", (), (("p", tick_at(1_000)), ("q", tick_at(1_000))))
    assert inbox.lag({"p": tick_at(9_000)}) == {"p": Lag(8_000, 0), "q": Lag(0, 0)}
    for ms in (2_000, 3_000):
        inbox.push(Received("p", tick_at(ms), b""))
    inbox.push(Received("best-effort", tick_at(7_000), b""))
    inbox.positions.on_horizon("p", tick_at(8_000))
    assert inbox.lag({"p": tick_at(9_000)})["p"] == Lag(7_000, 2)
    inbox.pop()
    assert inbox.lag({"p": tick_at(9_000)})["p"] == Lag(6_000, 1)
    inbox.pop()
    assert inbox.lag({"p": tick_at(9_000)})["p"] == Lag(1_000, 0)
    assert inbox.lag({"p": tick_at(500)})["p"] == Lag(0, 0), "what has arrived was there"


def test_what_was_fetched_for_a_reader_is_not_read() -> None:
    inbox = Inbox(1, Wanted("TRUE", {"p": 0}, durable="app"), bytes_max=10**6, messages_max=10**6)
    for tick in (3, 5, 8):
        inbox.push(Received("p", tick, b""))
    fetched = inbox.pop_many(2)
    inbox.fetched = lambda: tuple(fetched)
    assert inbox.receipts is not None
    inbox.receipts.settle()
    assert (inbox.read_positions(), inbox.acknowledgeable(), inbox.lag({})["p"].pending) == ({"p": 3}, {"p": 3}, 3)
    fetched.pop(0)
    assert (inbox.read_positions(), inbox.acknowledgeable(), inbox.lag({})["p"].pending) == ({"p": 5}, {"p": 5}, 2)
    inbox.withdraw()
    assert inbox.read_positions() == {"p": 5}


def test_what_waits_when_another_took_over_is_not_for_this_one() -> None:
    taken_over = "durable subscription 'app' was taken over or forgotten"
    for durable, reason, is_taken_over in (("app", taken_over, True), ("app", "no", False), ("", taken_over, False)):
        inbox = Inbox(1, Wanted("TRUE", {"p": 0}, durable=durable), bytes_max=10**6, messages_max=10**6)
        inbox.push(Received("p", 3, b""))
        inbox.refuse(reason)
        assert (inbox.is_over, inbox.is_taken_over, len(inbox.queue)) == (
            True,
            is_taken_over,
            0 if is_taken_over else 1,
        )
        assert inbox.read_positions() == {"p": 3}


def handed(*messages: tuple[int, int]) -> Handed:
    ticks, attempts = [tick for tick, _ in messages], [attempt for _, attempt in messages]
    return Handed("p", "", b"", (1, 1, 1, 1), ticks, attempts, [b"body"] * len(messages))


def test_messages_of_a_group_are_queued_once_and_the_last_attempt_replaces_unread_ones() -> None:
    inbox = Inbox(1, Wanted("TRUE", shared=Shared("g")), bytes_max=10**6, messages_max=10**6)
    assert inbox.take_in(handed((1, 1), (2, 1)))
    assert not inbox.take_in(handed((1, 1)))
    assert inbox.take_in(handed((1, 2)))
    inbox.check_invariants()
    assert [(each.tick, each.attempt) for each in inbox.queue] == [(2, 1), (1, 2)]


def test_a_member_that_withdraws_returns_what_was_not_read() -> None:
    inbox = Inbox(1, Wanted("TRUE", shared=Shared("g")), bytes_max=10**6, messages_max=10**6)
    inbox.take_in(handed((1, 1), (2, 1)))
    inbox.pop()
    inbox.withdraw()
    assert inbox.work is not None
    (frame,) = inbox.work.take(1, now_ms=0)
    assert [(tick, verdict) for tick, _, verdict, _, _ in frame.verdicts] == [(2, Verdict.RETURNED)]
    assert not inbox.queue


def test_unread_messages_that_others_got_are_dropped() -> None:
    inbox = Inbox(1, Wanted("TRUE", shared=Shared("g")), bytes_max=10**6, messages_max=10**6)
    inbox.take_in(handed((1, 1), (2, 1)))
    assert inbox.work is not None
    inbox.work.take(1, inbox.unread(), now_ms=0)
    inbox.on_outcomes(Outcomes(1, "q", ((1, 1, Verdict.EXTENDED, Outcome.LOST),)))
    assert len(inbox.queue) == 2, "another pubend's"
    inbox.on_outcomes(Outcomes(1, "p", ((1, 1, Verdict.EXTENDED, Outcome.LOST),)))
    inbox.check_invariants()
    assert [each.tick for each in inbox.queue] == [2]
    assert inbox.take_in(handed((1, 2)))
    assert [(each.tick, each.attempt) for each in inbox.queue] == [(2, 1), (1, 2)]
