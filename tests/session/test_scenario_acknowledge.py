"""Durable subscriptions of a resident: whatever happens, no more is acknowledged than the application is done with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import deliver
from penstock.model.tick import tick_at
from penstock.protocol.frames import (
    Acknowledge,
    Forget,
    Forgotten,
    Frame,
    Horizons,
    Refused,
    StatusRequest,
    Subscribed,
    Unsubscribe,
)
from penstock.session.inbox import Inbox, Lag, Wanted
from penstock.session.received import Received
from penstock.session.resident import Resident
from session.test_resident import NAMES, WELCOME, feed, naming, resident_up

PAUSE_MS = 1_000


def subscribed(resident: Resident, *, is_manual: bool = False, start: int = 1) -> Inbox:
    inbox = resident.subscribe(Wanted("TRUE", durable="app", is_manual=is_manual))
    resident.take_frames(now_ms=0)
    feed(resident, Subscribed(inbox.number, "TRUE", (), (("quotes", start),)), naming(0, start, inbox.number))
    assert resident.take_frames(now_ms=0) == [Acknowledge(((0, start),), inbox.number)]
    return inbox


def come_back(resident: Resident, inbox: Inbox) -> None:
    """The application asks for more."""
    assert inbox.receipts is not None
    if inbox.receipts.settle():
        resident.on_moved(inbox)


def acknowledgements(frames: list[Frame]) -> list[Acknowledge]:
    return [frame for frame in frames if isinstance(frame, Acknowledge)]


def test_what_was_read_is_acknowledged_in_time() -> None:
    resident = resident_up()
    inbox = subscribed(resident)
    feed(resident, deliver(5), deliver(7))
    inbox.pop()
    come_back(resident, inbox)
    assert acknowledgements(resident.take_frames(now_ms=PAUSE_MS - 1)) == []
    assert resident.next_deadline() == PAUSE_MS
    assert acknowledgements(resident.take_frames(now_ms=PAUSE_MS)) == [Acknowledge(((0, 7),), 1)]
    inbox.pop()
    feed(resident, Horizons(0, 20))
    assert acknowledgements(resident.take_frames(now_ms=3 * PAUSE_MS)) == [], "it is at work on 7"
    come_back(resident, inbox)
    assert acknowledgements(resident.take_frames(now_ms=3 * PAUSE_MS)) == [Acknowledge(((0, 20),), 1)]


def test_silence_is_acknowledged_without_a_message() -> None:
    resident = resident_up()
    subscribed(resident)
    feed(resident, Horizons(0, 20))
    assert acknowledgements(resident.take_frames(now_ms=PAUSE_MS)) == [Acknowledge(((0, 20),), 1)]


def test_a_withdrawal_is_preceded_by_what_was_read() -> None:
    for is_done, expected in ((True, 7), (False, 5)):
        resident = resident_up()
        inbox = subscribed(resident)
        feed(resident, deliver(5), deliver(7))
        inbox.pop()
        resident.unsubscribe(inbox, is_done=is_done)
        assert resident.take_frames(now_ms=0) == [Acknowledge(((0, expected),), 1), Unsubscribe(1)]
        resident.unsubscribe(inbox, is_done=is_done)
        assert resident.take_frames(now_ms=0) == []


def test_the_last_words_of_a_client_do_not_wait_for_anything() -> None:
    resident = resident_up()
    one, two = subscribed(resident), subscribed(resident, is_manual=True)
    feed(resident, deliver(5, 1, 2), deliver(7, 1, 2))
    one.pop()
    two.pop()
    resident.writable = False
    resident.on_closing(is_done=True)
    assert resident.take_frames(now_ms=0) == [Acknowledge(((0, 7),), 1), Acknowledge(((0, 5),), 2)]


def test_on_another_connection_it_is_said_again_when_the_broker_knows_the_subscription() -> None:
    resident = resident_up()
    inbox = subscribed(resident)
    feed(resident, deliver(5), deliver(7))
    inbox.pop()
    come_back(resident, inbox)
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    feed(resident, WELCOME, NAMES)
    (_, subscribe) = resident.take_frames(now_ms=PAUSE_MS)
    assert (subscribe.positions, subscribe.resumes, subscribe.durable) == ((("quotes", 8),), True, "app")  # type: ignore[union-attr]
    feed(resident, Subscribed(1, "TRUE", (), (("quotes", 8),)))
    assert resident.take_frames(now_ms=PAUSE_MS) == [Acknowledge(((0, 7),), 1)]


def test_one_that_was_taken_over_says_no_more() -> None:
    resident = resident_up()
    inbox = subscribed(resident)
    feed(resident, deliver(5))
    inbox.pop()
    feed(resident, Refused("subscribe", 1, "durable subscription 'app' was taken over or forgotten"))
    come_back(resident, inbox)
    resident.unsubscribe(inbox, is_done=True)
    assert resident.take_frames(now_ms=PAUSE_MS - 1) == []
    assert inbox.is_taken_over


def test_lag_is_told_by_what_the_broker_has_heard() -> None:
    resident = resident_up()
    inbox = subscribed(resident, start=tick_at(1_000))
    feed(resident, Horizons(0, tick_at(2_000), present=tick_at(9_000)))
    assert resident.lag(inbox) == {"quotes": Lag(7_000, 0)}


def test_to_forget_is_a_request_with_an_answer() -> None:
    resident = resident_up()
    assert (
        resident.ask(StatusRequest, now_ms=0),
        resident.ask(lambda n: Forget(n, "app"), now_ms=0),
        resident.ask(lambda n: Forget(n, "b"), now_ms=0),
    ) == (1, 2, 3)
    assert resident.take_frames(now_ms=0)[1:] == [Forget(2, "app"), Forget(3, "b")]
    answers: list[Frame] = [Forgotten(2, ("far",)), Refused("forget", 3, "there is none")]
    assert feed(resident, *answers).answers == answers


_STEPS = st.lists(st.sampled_from(["message", "silence", "take", "batch", "acknowledge", "time", "reconnect"]))


class Reader:
    """An application with a durable subscription, and the oracle: what it is done with, message by message."""

    def __init__(self, *, is_manual: bool) -> None:
        self.session = resident_up()
        self.inbox = subscribed(self.session, is_manual=is_manual)
        self.is_manual = is_manual
        self.now_ms, self.tick = 0, 1
        self.sent: list[int] = []
        self.taken: list[Received] = []
        self.done: set[int] = set()
        self.said = 1

    def step(self, step: str) -> None:
        match step:
            case "message":
                self.sent.append(self.tick)
                feed(self.session, deliver(self.tick), now_ms=self.now_ms)
                self.tick += 1
            case "silence":
                self.tick += 3
                feed(self.session, Horizons(0, self.tick), now_ms=self.now_ms)
            case "take" | "batch":
                come_back(self.session, self.inbox)
                if not self.is_manual:
                    self.done |= {each.tick for each in self.taken}
                if self.inbox.queue:
                    self.taken += [self.inbox.pop()] if step == "take" else self.inbox.pop_many()
            case "acknowledge" if self.is_manual and self.taken:
                assert self.inbox.receipts is not None
                each = self.taken[len(self.taken) // 2]
                self.inbox.receipts.acknowledge_through(each)
                self.session.on_moved(self.inbox)
                self.done |= {other.tick for other in self.taken if other.tick <= each.tick}
            case "time":
                self.now_ms += PAUSE_MS
            case "reconnect":
                self.session.on_disconnected()
                self.session.on_connected(now_ms=self.now_ms)
                feed(self.session, WELCOME, NAMES, Subscribed(1, "TRUE", (), (("quotes", self.tick),)))
                feed(self.session, naming(0, self.tick), now_ms=self.now_ms)
        self.hear()

    def hear(self) -> None:
        """Checks what the broker is told."""
        for frame in acknowledgements(self.session.take_frames(now_ms=self.now_ms)):
            ((_, self.said),) = frame.positions
            assert frame.number == 1
            assert all(tick in self.done for tick in self.sent if tick < self.said)


@given(_STEPS, st.booleans(), st.booleans(), st.booleans())
def test_no_more_is_acknowledged_than_is_done_and_in_the_end_all_of_it(
    steps: list[str], is_manual: bool, is_orderly: bool, is_client: bool
) -> None:
    reader = Reader(is_manual=is_manual)
    for step in steps:
        reader.step(step)
    if not is_manual and is_orderly:
        reader.done |= {each.tick for each in reader.taken}
    if is_client:
        reader.session.on_closing(is_done=is_orderly)
    else:
        reader.session.unsubscribe(reader.inbox, is_done=is_orderly)
    reader.hear()
    still_open = [tick for tick in reader.sent if tick not in reader.done]
    assert reader.said == min(still_open, default=reader.tick), "nothing that is done with comes again"


def test_a_number_is_that_of_its_request_only() -> None:
    resident = resident_up()
    inbox = subscribed(resident)
    feed(resident, Refused("forget", 1, "there is none"))
    assert not inbox.is_over


@pytest.mark.parametrize("is_manual", [False, True])
def test_a_subscription_without_a_name_is_never_acknowledged_by_itself(is_manual: bool) -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("TRUE", is_manual=is_manual))
    assert inbox.receipts is None
    resident.on_closing(is_done=True)
    assert acknowledgements(resident.take_frames(now_ms=0)) == []
