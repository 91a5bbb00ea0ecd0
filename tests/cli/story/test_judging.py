"""Every subscriber is judged by its own selector, marks included."""

from __future__ import annotations

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.crowd import Member
from penstock.cli.story.judging import judge_all
from penstock.cli.story.market import MARK
from penstock.model.message_id import MessageId
from stages import seat

SENT = [SentMessage(MessageId(1, 1, number, 0), {"n": number}) for number in range(1, 5)]
SENT.append(SentMessage(MessageId(1, 1, 9, 0), {MARK: "gold"}))


def test_all_are_judged_each_by_what_it_wanted() -> None:
    right, wrong = Member("a", "n > 2"), Member("b", "n <= 2")
    seat(right, "sb3", moves=2)
    right.ids += [each.id.to_bytes() for each in SENT[2:]]
    wrong.ids += [SENT[0].id.to_bytes(), SENT[0].id.to_bytes()]
    first, second = judge_all([right, wrong], SENT)
    assert (first.name, first.broker, first.moves, first.verdict.word) == ("a", "sb3", 2, "exact")
    assert first.verdict.matched == 3
    assert second.verdict.word == "2 missing, 1 too many"
    wrong.damaged = 2
    assert "2 damaged" in judge_all([wrong], SENT)[0].verdict.word
