"""The order of the story, what happens when a chapter fails, and the verdict; ``test_demo`` plays all of it."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story import telling
from penstock.cli.story.crowd import Member
from penstock.cli.story.market import MARK
from penstock.cli.story.outcome import Told
from penstock.cli.story.stage import Stage
from penstock.cli.story.telling import CHAPTERS, judge_all
from penstock.lab.demo_overlay import BrokerProcessError
from penstock.model.errors import PenstockError
from penstock.model.message_id import MessageId
from stages import World, seat

SENT = [SentMessage(MessageId(1, 1, number, 0), {"n": number}) for number in range(1, 5)]
SENT.append(SentMessage(MessageId(1, 1, 9, 0), {MARK: "gold"}))


def test_chapters_are_in_the_order_of_the_story() -> None:
    assert [key for key, *_ in CHAPTERS] == ["balancing", "links", "limit", "token", "trace", "spark"]
    assert all(title and about.endswith(".") for _, title, about, _ in CHAPTERS)


def played(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[Told]:
    async def fail(_stage: Stage, _told: Told) -> NoReturn:
        raise error

    monkeypatch.setattr(telling, "CHAPTERS", (("key", "Title", "About.", fail),))
    world, chapters = World().pass_time(2.0), list[Told]()
    asyncio.run(telling._played(world.stage, chapters, 0))
    return chapters


def test_a_chapter_that_fails_is_told_and_the_story_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = played(monkeypatch, PenstockError("the admin page is gone"))
    assert told.as_expected is False
    assert told.lines == ["that did not work: the admin page is gone"]
    assert (told.begun_s, told.ended_s) == (2.0, 2.0)


def test_a_broker_that_ended_ends_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerProcessError):
        played(monkeypatch, BrokerProcessError("broker sb1 ended by itself"))


def test_waiting_for_the_last_messages_ends_when_all_have_all() -> None:
    world = World()
    for member in world.crowd.members:
        member.marks = len(world.crowd.publishers)
    asyncio.run(telling._arrived(world.stage))
    assert world.now_s == 0.0


def test_or_when_nothing_has_come_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(telling, "_STALLED_S_MAX", 7.0)
    come = [100, 100]

    def shares() -> dict[str, float]:
        return {"sb1": float(come.pop())} if come else {}

    monkeypatch.setattr(world, "shares", shares)
    asyncio.run(telling._arrived(world.stage))
    assert not come
    assert world.now_s == 0.5 + 0.5 + 7.0


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
