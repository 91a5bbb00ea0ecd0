"""Sessions from request to DONE, and everything that can go wrong with them."""

from __future__ import annotations

import pytest

from penstock.balancing.detection import Action
from penstock.balancing.estimators import Figures
from penstock.balancing.mediation import Mediator, Phase
from penstock.balancing.messages import Done, End, Letter, Moving, Refusal, Reply, Request
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.model.metrics import INPUT

SETTINGS = BalancingSettings(reply_ms=1_000, migration_ms=100, sample_ms=5_000)
REPLY = Reply(Figures(1.0, 1, 1.0, 1.0, 0.0, 0.1))
NOW = 1_000_000


def asking(*partners: str) -> tuple[Mediator, Letter]:
    mediator = Mediator("a", SETTINGS)
    letters = mediator.ask([Action(each, INPUT, 0.2) for each in partners], now_ms=NOW)
    assert len(letters) == 1
    return mediator, letters[0]


def answer(letter: Letter, content: Reply | Refusal | Moving | Done | End, *, session: int | None = None) -> Letter:
    return Letter(letter.to, letter.sender, letter.session if session is None else session, content)


def test_candidates_are_asked_one_after_the_other() -> None:
    mediator, first = asking("b", "c")
    assert (first.to, first.content) == ("b", Request("input"))
    (second,) = mediator.on_refusal(answer(first, Refusal("BUSY")), now_ms=NOW)
    assert second.to == "c"
    assert second.session != first.session
    assert mediator.on_refusal(answer(second, Refusal("BUSY")), now_ms=NOW) == []
    assert mediator.session is None
    assert mediator.counts["refused"] == 2


def test_who_does_not_answer_is_passed_over() -> None:
    mediator, first = asking("b", "c")
    assert mediator.next_deadline() == NOW + 1_000
    (second,) = mediator.give_up_asking(now_ms=NOW + 1_000)
    assert second.to == "c"
    # The reply that comes after all: whoever replied must not wait.
    (end,) = mediator.on_reply(answer(first, REPLY), REPLY, now_ms=NOW + 2_000)
    assert (end.to, end.session, type(end.content)) == ("b", first.session, End)
    assert mediator.session is not None
    assert mediator.session.partner == "c"


def test_a_whole_session_of_both_sides() -> None:
    offloader, request = asking("b")
    acceptor = Mediator("b", SETTINGS)
    accepted, (reply,) = acceptor.on_request(request, State.OK, REPLY, now_ms=NOW)
    assert accepted
    assert offloader.on_reply(reply, REPLY, now_ms=NOW) == []
    assert offloader.session is not None
    assert offloader.session.phase is Phase.SAMPLING
    assert offloader.next_deadline() == NOW + 5_000
    (moving,) = offloader.moving(Moving(2), now_ms=NOW)
    assert isinstance(moving.content, Moving)
    assert not acceptor.on_moving(moving, moving.content, now_ms=NOW)
    assert acceptor.next_deadline() == NOW + 2 * 100 + 1_000
    assert not acceptor.on_arrived(moving.session)
    assert acceptor.on_arrived(moving.session)
    session, (done,) = acceptor.finish(Done(2))
    assert session.arrived == 2
    ended = offloader.on_end(done)
    assert ended is not None
    assert ended.total == 2
    assert offloader.session is acceptor.session is None


def test_subscribers_may_arrive_before_anybody_said_how_many() -> None:
    _, request = asking("b")
    acceptor = Mediator("b", SETTINGS)
    acceptor.on_request(request, State.OK, REPLY, now_ms=NOW)
    assert not acceptor.on_arrived(request.session)
    moving = Letter("a", "b", request.session, Moving(1))
    assert acceptor.on_moving(moving, Moving(1), now_ms=NOW)


@pytest.mark.parametrize("state", [state for state in State if state is not State.OK])
def test_who_is_not_ok_refuses_with_its_state(state: State) -> None:
    _, request = asking("b")
    acceptor = Mediator("b", SETTINGS)
    accepted, (refusal,) = acceptor.on_request(request, state, REPLY, now_ms=NOW)
    assert not accepted
    assert refusal.content == Refusal(state.value, f"state {state.value}")
    assert acceptor.session is None


def test_one_session_at_a_time() -> None:
    mediator, _ = asking("b")
    accepted, (refusal,) = mediator.on_request(Letter("c", "a", 7, Request()), State.OK, REPLY, now_ms=NOW)
    assert not accepted
    assert isinstance(refusal.content, Refusal)
    assert refusal.content.reason == "in a session"


def test_strays_change_nothing() -> None:
    mediator, request = asking("b")
    strange = answer(request, Done(9), session=request.session + 1)
    assert mediator.on_end(strange) is None
    assert mediator.on_end(Letter("mallory", "a", request.session, Done(9))) is None
    assert mediator.on_refusal(strange, now_ms=NOW) == []
    assert not mediator.on_moving(answer(request, Moving(5)), Moving(5), now_ms=NOW)
    assert not mediator.on_arrived(request.session)
    assert mediator.on_failed(request.session) == []
    assert mediator.session is not None
    assert mediator.session.phase is Phase.ASKING
    assert mediator.counts["strays"] == 4
    idle = Mediator("z", SETTINGS)
    (end,) = idle.on_reply(answer(request, REPLY), REPLY, now_ms=NOW)
    assert isinstance(end.content, End)


def test_a_partner_that_waits_hears_of_those_who_stay() -> None:
    mediator, request = asking("b")
    mediator.on_reply(answer(request, REPLY), REPLY, now_ms=NOW)
    mediator.moving(Moving(2), now_ms=NOW)
    (fewer,) = mediator.on_failed(request.session)
    assert isinstance(fewer.content, Moving)
    assert fewer.content.total == 1


def test_n_that_never_arrives_is_bounded() -> None:
    _, request = asking("b")
    acceptor = Mediator("b", SETTINGS)
    acceptor.on_request(request, State.OK, REPLY, now_ms=NOW)
    acceptor.on_moving(Letter("a", "b", request.session, Moving(10**15)), Moving(10**15), now_ms=NOW)
    assert acceptor.next_deadline() == NOW + SETTINGS.moves_max * 100 + 1_000


def test_who_cannot_be_understood_counts_as_having_refused() -> None:
    mediator, first = asking("b", "c")
    ended, (end, second) = mediator.on_unreadable("b", first.session, now_ms=NOW)
    assert ended is None
    assert (end.to, end.session, type(end.content)) == ("b", first.session, End)
    assert second.to == "c"
    assert mediator.counts["refused"] == 1
    ended, letters = mediator.on_unreadable("c", second.session, now_ms=NOW)
    assert (ended, [each.to for each in letters]) == (None, ["c"])
    assert mediator.session is None


def test_a_session_that_has_begun_is_over_when_the_partner_cannot_be_understood() -> None:
    mediator, first = asking("b")
    mediator.on_reply(answer(first, REPLY), REPLY, now_ms=NOW)
    assert mediator.on_unreadable("c", first.session, now_ms=NOW) == (None, [])
    assert mediator.on_unreadable("b", first.session + 1, now_ms=NOW) == (None, [])
    begun = mediator.session
    ended, (end,) = mediator.on_unreadable("b", first.session, now_ms=NOW)
    assert ended is begun
    assert isinstance(end.content, End)
    assert mediator.session is None
    assert mediator.on_unreadable("b", first.session, now_ms=NOW) == (None, [])
