"""A host's questions: asked once and again, settled by one answer; names that somebody holds with a higher number."""

from __future__ import annotations

import pytest

from penstock.broker.access import Claimant
from penstock.broker.claims import Claims
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.openings import Openings
from penstock.broker.host.wishes import Begun, Settled, Wish
from penstock.protocol.stream_frames import LATEST, StreamForget, StreamForgotten, StreamOpen, StreamOpened

NOW_MS = 1_000_000


class Host:
    """The questions of a host, and what it has said."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.openings = Openings("sb", Claims(3), incarnation=5, send=self._send)
        self.now_ms = NOW_MS

    def _send(self, frame: object, *, now_ms: int) -> list[Wish]:
        assert now_ms == self.now_ms
        self.said.append(frame)
        return []

    def take(self) -> list[object]:
        said, self.said = self.said, []
        return said

    def ask(self, subscription: HostSubscription, pubend: str = "p") -> StreamOpen:
        self.openings.ask(subscription, pubend, now_ms=self.now_ms)
        (asked,) = self.take()
        assert isinstance(asked, StreamOpen)
        return asked

    def wait(self, milliseconds: int) -> list[object]:
        self.now_ms += milliseconds
        self.openings.on_deadline(now_ms=self.now_ms)
        return self.take()

    def answer(self, asked: StreamOpen, **words: int | str) -> HostSubscription | None:
        frame = StreamOpened(asked.pubend, asked.host, asked.ticket, 5, asked.ownership, **words)  # type: ignore[arg-type]
        opening, _ = self.openings.answer(frame, is_leaving=lambda _: False, now_ms=self.now_ms)
        return None if opening is None else opening.subscription


def subscription(key: int = 1, **wishes: object) -> HostSubscription:
    return HostSubscription(key, 7, 1, 0, **wishes)  # type: ignore[arg-type]


def durable(ownership: int = 10) -> HostSubscription:
    return subscription(durable="D", ownership=ownership)


def test_a_question_says_what_is_wanted_of_this_pubend() -> None:
    host = Host()
    wanted = subscription(positions={"p": 3}, otherwise=9, missing="latest", durable="D", ownership=4, resumes=True)
    first, second = host.ask(wanted), host.ask(wanted, "q")
    assert first == StreamOpen("p", "sb", first.ticket, 3, "latest", "D", 4, resumes=True)
    # Only where it states a position does it know how far it is.
    assert second == StreamOpen("q", "sb", second.ticket, 9, "latest", "D", 4, resumes=False)
    assert first.ticket != second.ticket
    assert host.ask(subscription(2)).tick == LATEST


def test_what_is_not_answered_is_asked_again_with_the_same_ticket() -> None:
    host = Host()
    asked = host.ask(subscription())
    host.openings.ask(subscription(), "p", now_ms=NOW_MS)
    assert host.take() == []
    assert host.wait(499) == []
    assert host.wait(1) == [asked]
    assert host.openings.next_deadline() == host.now_ms + 500
    assert host.wait(500) == [asked]


def test_a_claim_is_raised_at_pubends_that_answer_at_once() -> None:
    host, wanted = Host(), durable()
    asked = [host.ask(wanted, pubend) for pubend in ("far", "near-1", "near-2")]
    settled: list[str] = []

    def answer_at_once(frame: object, *, now_ms: int) -> list[Wish]:
        assert now_ms == host.now_ms
        assert isinstance(frame, StreamOpen)
        if frame.pubend == "far":
            return []
        host.answer(frame)
        settled.append(frame.pubend)
        return [Begun(subscription(len(settled)))]

    host.openings._send = answer_at_once
    held = StreamOpened("far", "sb", asked[0].ticket, 5, asked[0].ownership, held=1 << 40)
    opening, wishes = host.openings.answer(held, is_leaving=lambda _: False, now_ms=host.now_ms)
    assert opening is None
    assert settled == ["near-1", "near-2"]
    assert wanted.ownership > 1 << 40
    # What the answers require is returned in their order.
    assert wishes == [Begun(subscription(1)), Begun(subscription(2))]


def test_an_answer_settles_a_question_once() -> None:
    host, wanted = Host(), subscription()
    asked = host.ask(wanted)
    assert host.answer(asked) is wanted
    assert host.answer(asked) is None
    assert host.openings.next_deadline() is None
    assert host.wait(10_000) == []


def test_a_problem_settles_a_question_too() -> None:
    host, wanted = Host(), subscription()
    assert host.answer(host.ask(wanted), problem="no") is wanted
    assert host.openings.next_deadline() is None


@pytest.mark.parametrize("answer", [StreamOpened("p", "sb", 999, 5), StreamOpened("q", "sb", (5 << 20) + 1, 5)])
def test_answers_to_what_was_not_asked_settle_nothing(answer: StreamOpened) -> None:
    host = Host()
    asked = host.ask(subscription())
    assert host.openings.answer(answer, is_leaving=lambda _: False, now_ms=NOW_MS) == (None, [])
    assert host.wait(500) == [asked]


def test_after_an_answer_the_same_may_be_asked_again() -> None:
    host, wanted = Host(), subscription()
    first = host.ask(wanted)
    host.answer(first)
    assert host.ask(wanted).ticket != first.ticket


def test_who_has_gone_asks_no_more() -> None:
    host, wanted = Host(), subscription()
    asked, other = host.ask(wanted), host.ask(subscription(2))
    host.ask(wanted, "q")
    host.openings.leave(wanted.key)
    assert host.answer(asked) is None
    assert host.wait(500) == [other]


def test_a_name_that_is_held_with_a_higher_number_is_claimed_with_a_higher_one_still() -> None:
    host, wanted = Host(), durable(10)
    asked = host.ask(wanted)
    assert host.answer(asked, held=50) is None
    assert wanted.ownership > 50
    (again,) = host.take()
    assert isinstance(again, StreamOpen)
    assert (again.ticket, again.ownership) == (asked.ticket, wanted.ownership)
    assert host.answer(again) is wanted


def test_after_many_claims_the_holder_is_there_to_stay() -> None:
    host, wanted = Host(), durable(10)
    asked = host.ask(wanted)
    answers = 0
    while host.answer(asked, held=wanted.ownership + 5) is None:
        answers += 1
        (asked,) = (each for each in host.take() if isinstance(each, StreamOpen))
    assert 1 < answers < 100
    assert host.openings.next_deadline() is None


def test_a_second_answer_to_a_claim_that_was_raised_since_settles_nothing() -> None:
    """The round trip takes longer than the time after which a question is repeated.

    1. A name is claimed, and claimed again before the first answer is there.
    2. Both answers say that somebody has it with a higher number; with the first one, ours becomes higher.
    3. The second one speaks of what has been corrected since.
    """
    host, wanted = Host(), durable(10)
    asked = host.ask(wanted)
    host.wait(500)
    assert host.answer(asked, held=50) is None
    (again,) = host.take()
    assert isinstance(again, StreamOpen)
    assert host.answer(asked, held=50) is None
    assert host.answer(asked) is None
    assert host.answer(again) is wanted


def test_a_claim_that_is_raised_is_raised_at_all_pubends() -> None:
    host, wanted = Host(), durable(10)
    first, second, third = (host.ask(wanted, pubend) for pubend in ("p", "q", "r"))
    assert host.answer(first) is wanted
    wanted.opened["p"] = 5
    assert host.answer(second, held=50) is None
    said = [each for each in host.take() if isinstance(each, StreamOpen)]
    assert {each.pubend for each in said} == {"p", "q", "r"}
    assert {each.ownership for each in said if each.ownership != wanted.ownership} == set()
    assert host.answer(third) is None


def test_a_name_that_is_held_with_a_number_nobody_honest_has_is_not_claimed() -> None:
    host, wanted = Host(), durable(10)
    assert host.answer(host.ask(wanted), held=2**62) is wanted
    assert host.take() == []


def test_questions_of_two_lives_are_told_apart() -> None:
    def ticket(incarnation: int) -> int:
        said: list[StreamOpen | StreamForget] = []

        def send(frame: StreamOpen | StreamForget, *, now_ms: int) -> list[Wish]:
            assert now_ms == NOW_MS
            said.append(frame)
            return []

        Openings("sb", Claims(3), incarnation=incarnation, send=send).ask(subscription(), "p", now_ms=NOW_MS)
        return said[0].ticket

    assert ticket(5) != ticket(6)


# --- forgetting


def test_a_name_is_forgotten_when_all_pubends_have_answered() -> None:
    host = Host()
    host.openings.forget(7, 3, "D", ["p", "q"], now_ms=NOW_MS)
    first, second = host.take()
    assert isinstance(first, StreamForget)
    assert isinstance(second, StreamForget)
    assert (first.durable, first.host, second.pubend) == ("D", "sb", "q")
    assert host.openings.on_forgotten(StreamForgotten("p", "sb", first.ticket, existed=True)) == []
    settled = host.openings.on_forgotten(StreamForgotten("q", "sb", second.ticket, existed=False))
    assert settled == [Settled(7, 3, "D", existed=True, problem="", pending=())]
    assert host.openings.next_deadline() is None


def test_who_does_not_answer_in_time_is_pending() -> None:
    host = Host()
    host.openings.forget(7, 3, "D", ["p", "q"], now_ms=NOW_MS)
    first, _ = host.take()
    assert isinstance(first, StreamForget)
    host.openings.on_forgotten(StreamForgotten("p", "sb", first.ticket, existed=False))
    wishes: list[Wish] = []
    for _ in range(20):
        host.now_ms += 500
        wishes += host.openings.on_deadline(now_ms=host.now_ms)
    assert wishes == [Settled(7, 3, "D", existed=False, problem="", pending=("q",))]
    assert host.openings.next_deadline() is None
    assert host.openings.on_forgotten(StreamForgotten("q", "sb", first.ticket, existed=True)) == []


def test_a_request_to_forget_that_is_not_answered_is_repeated() -> None:
    host = Host()
    host.openings.forget(7, 3, "D", ["p", "q"], now_ms=NOW_MS)
    first, second = host.take()
    assert isinstance(first, StreamForget)
    host.openings.on_forgotten(StreamForgotten("p", "sb", first.ticket, existed=True))
    due_ms = host.openings.next_deadline()
    assert due_ms is not None
    assert host.wait(due_ms - host.now_ms) == [second]


def test_without_pubends_there_is_nothing_to_forget() -> None:
    host = Host()
    settled = host.openings.forget(7, 3, "D", [], now_ms=NOW_MS)
    assert settled == [Settled(7, 3, "D", existed=False, problem="", pending=())]


@pytest.mark.parametrize(("pubend", "ticket"), [("p", 999), ("elsewhere", (5 << 20) + 1)])
def test_nobody_forgets_by_answers_to_what_was_not_asked(pubend: str, ticket: int) -> None:
    host = Host()
    host.openings.forget(7, 3, "D", ["p"], now_ms=NOW_MS)
    assert host.openings.on_forgotten(StreamForgotten(pubend, "sb", ticket, existed=False)) == []


def test_requests_to_forget_are_counted_by_connection_and_by_the_name_that_was_proved() -> None:
    host = Host()
    host.openings.forget(7, 1, "D", ["p"], Claimant("feed"), now_ms=NOW_MS)
    host.openings.forget(8, 1, "D", ["p"], Claimant("feed"), now_ms=NOW_MS)
    host.openings.forget(9, 1, "D", ["p"], now_ms=NOW_MS)
    counted = [
        host.openings.forgetting(*each) for each in ((7, "feed"), (10, "feed"), (10, "other"), (9, ""), (10, ""))
    ]
    assert counted == [2, 2, 0, 1, 0]
