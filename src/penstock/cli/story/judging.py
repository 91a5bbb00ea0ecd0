"""Judges from outside the brokers: every selector is asked about every message, and compared with what came."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.demo_verdict import SentMessage, judge
from penstock.cli.story.crowd import Member
from penstock.cli.story.market import with_mark
from penstock.cli.story.outcome import Judged

__all__ = ["judge_all", "judge_member"]


def judge_all(members: Sequence[Member], sent: Sequence[SentMessage]) -> list[Judged]:
    """Every subscriber, judged."""
    return [judge_member(each, sent) for each in members]


def judge_member(member: Member, sent: Sequence[SentMessage]) -> Judged:
    """What one subscriber should have got, and what it did."""
    verdict = judge(with_mark(member.selector), sent, member.ids, damaged=member.damaged)
    moves = member.client.counters.moves if member.client is not None else 0
    return Judged(member.name, member.broker, member.selector, moves, verdict)
