from __future__ import annotations

from penstock.client.inbox import Inbox
from penstock.client.received import Received
from penstock.client.reporting import MESSAGES_MAX, Reporting
from penstock.client.wanted import Wanted
from penstock.protocol.frames import Acknowledge

PAUSE_MS = 1_000


def durable(number: int = 1, *, start: int = 1) -> Inbox:
    inbox = Inbox(number, Wanted("TRUE", durable="app"), bytes_max=10**6, messages_max=10**6)
    inbox.on_subscribed("TRUE", (), (("p", start),))
    return inbox


def reporting(*names: tuple[int, str]) -> Reporting:
    made = Reporting(pause_ms=PAUSE_MS)
    made.on_names(names or [(4, "p")])
    return made


def read(inbox: Inbox, *ticks: int) -> None:
    """The application takes messages, and comes back."""
    assert inbox.receipts is not None
    for tick in ticks:
        inbox.push(Received("p", tick, b""))
    inbox.pop_many()
    inbox.receipts.settle()


def test_the_broker_is_told_at_once_and_then_after_a_pause() -> None:
    reports, inbox = reporting(), durable()
    assert (reports.next_deadline(), reports.take(now_ms=5)) == (None, [])
    read(inbox, 6)
    assert reports.on_moved(inbox)
    assert reports.take(now_ms=5) == [Acknowledge(((4, 7),), 1)]
    assert reports.next_deadline() is None
    read(inbox, 8)
    assert reports.on_moved(inbox)
    assert not reports.on_moved(inbox), "the time is known"
    assert reports.next_deadline() == 5 + PAUSE_MS
    assert reports.take(now_ms=4 + PAUSE_MS) == []
    assert reports.take(now_ms=5 + PAUSE_MS) == [Acknowledge(((4, 9),), 1)]


def test_very_much_is_told_at_once() -> None:
    reports, inbox = reporting(), durable()
    read(inbox, 1)
    reports.on_moved(inbox)
    reports.take(now_ms=5)
    read(inbox, *range(2, MESSAGES_MAX + 1))
    reports.on_moved(inbox)
    assert reports.take(now_ms=6) == []
    read(inbox, MESSAGES_MAX + 1)
    assert reports.on_moved(inbox)
    assert reports.next_deadline() == 0
    assert reports.take(now_ms=6) == [Acknowledge(((4, MESSAGES_MAX + 2),), 1)]


def test_each_subscription_is_told_of_by_itself() -> None:
    reports, one, two = reporting(), durable(1, start=5), durable(2, start=7)
    for inbox in (two, one):
        reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((4, 7),), 2), Acknowledge(((4, 5),), 1)]


def test_one_that_the_broker_does_not_know_yet_waits() -> None:
    reports, inbox = reporting(), durable()
    inbox.state = "asked"
    assert reports.on_moved(inbox)
    assert (reports.next_deadline(), reports.take(now_ms=0), reports.last(inbox)) == (None, [], [])
    inbox.state = "ready"
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((4, 1),), 1)]
    inbox.state = "closing"
    assert not reports.on_moved(inbox)


def test_a_pubend_without_a_number_waits_for_it() -> None:
    reports, inbox = reporting((0, "other")), durable()
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == []
    reports.on_names([(8, "p"), (9, "p")])
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((8, 1),), 1)]


def test_the_last_word_does_not_wait() -> None:
    reports, inbox = reporting(), durable()
    read(inbox, 3)
    reports.on_moved(inbox)
    reports.take(now_ms=0)
    read(inbox, 4)
    reports.on_moved(inbox)
    assert reports.last(inbox) == [Acknowledge(((4, 5),), 1)]
    assert (reports.last(inbox), reports.next_deadline()) == ([], None)


def test_another_connection_has_other_numbers() -> None:
    reports, inbox = reporting(), durable()
    reports.on_moved(inbox)
    reports.on_disconnected()
    assert reports.take(now_ms=0) == []
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == []
