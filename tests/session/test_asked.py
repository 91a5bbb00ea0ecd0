"""Questions are asked again until they are answered, or nobody waits for the answer."""

from __future__ import annotations

from penstock.protocol.frames import StatusRequest, SurveyRequest
from penstock.session.asked import Asked


def test_questions_have_ascending_numbers_and_are_kept_until_they_are_settled() -> None:
    asked = Asked()
    assert asked.ask(StatusRequest, now_ms=0) == (1, StatusRequest(1))
    assert asked.ask(SurveyRequest, now_ms=0) == (2, SurveyRequest(2))
    assert [*asked] == [StatusRequest(1), SurveyRequest(2)]
    assert (asked.next_deadline(), asked.take(now_ms=10**9)) == (None, [])
    asked.settle(1)
    assert [*asked] == [SurveyRequest(2)]
    asked.clear()
    assert [*asked] == []
    assert asked.ask(StatusRequest, now_ms=0)[0] == 3, "an answer on its way must not be taken for that of another"


def test_what_may_get_lost_is_asked_again_every_so_often() -> None:
    asked = Asked()
    asked.ask(SurveyRequest, again_ms=100, now_ms=5)
    assert asked.next_deadline() == 105
    assert asked.take(now_ms=104) == []
    assert asked.take(now_ms=110) == [SurveyRequest(1)]
    assert asked.next_deadline() == 210
