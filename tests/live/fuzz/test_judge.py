"""The judge of the live fuzz, on journals written by hand: each law has one that keeps it and one that breaks it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.live_fuzz.judge import FuzzVerdict, judge_round
from bench.live_fuzz.plan import Keeping, Limits, PublisherPlan, RoundPlan, SubscriberPlan, SubscriptionPlan
from bench.live_fuzz.quotes import SELECTORS

Line = list[Any]

EVERYTHING, LITTLE = 0, 1
SHORT = Limits(grace_ms=10_000, retain_ms=1_000)
LAPSING = Limits(retain_bytes_max=1_000, retain_policy="lapse")


def plan_of(
    keeping: Keeping = "plain", *, selector: int = EVERYTHING, limits: Limits | None = None, off: tuple[str, ...] = ()
) -> RoundPlan:
    durable = "" if keeping in {"plain", "stored"} else "name"
    subscription = SubscriptionPlan(selector, keeping, durable, "latest", "earliest", "batch")
    return RoundPlan(
        seed=1,
        pubends={"b1": ("q",)},
        links=(),
        limits=limits or Limits(),
        publishers=(PublisherPlan("p", "async", ("b1",), (), 1.0, cancels=True),),
        subscribers=(SubscriberPlan("s", ("b1",), (subscription,), is_sync=False, cancels=False),),
        blows=(),
        harm_s=1.0,
        off=off,
    )


def sent(n: int, *, at_ms: int = 500, volume: int = 7) -> Line:
    return ["sent", at_ms, "p.0", n, "", {"publisher": "p.0", "n": n, "symbol": "S01", "volume": volume}]


def published(count: int) -> list[Line]:
    """So many messages, all acknowledged."""
    lines = [line for n in range(1, count + 1) for line in (sent(n), ["took", 500, "p.0", n, n])]
    return [*lines, ["acked", 600, "p.0", count]]


def asked(at_ms: int = 100, *, start: str | dict[str, int] = "latest", begins: int = 10) -> list[Line]:
    """A subscription that is confirmed."""
    return [["life", at_ms, 1], ["ask", at_ms, 0, start, "earliest"], ["starts", at_ms, 0, {"q": begins}]]


def got(at_ms: int, *rows: tuple[int, int], position: int | None = None) -> Line:
    """Messages, each with its tick and number."""
    return ["got", at_ms, 0, [["q", tick, "p.0", n] for tick, n in rows], None if position is None else {"q": position}]


def end(position: int = 100, at_ms: int = 9_000) -> Line:
    return ["end", at_ms, 0, {"q": position}]


def judged(folder: Path, plan: RoundPlan, publisher: list[Line], subscriber: list[Line]) -> FuzzVerdict:
    for name, lines in (("p", publisher), ("s", subscriber)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return judge_round(plan, folder)


def complaints(folder: Path, plan: RoundPlan, publisher: list[Line], subscriber: list[Line]) -> str:
    return "\n".join(judged(folder, plan, publisher, subscriber).faults)


def test_whoever_got_everything_in_order_is_content(tmp_path: Path) -> None:
    verdict = judged(tmp_path, plan_of(), published(2), [*asked(), got(700, (20, 1), (21, 2)), end()])
    assert verdict.faults == []
    assert verdict.counts["acknowledged"] == 2
    assert verdict.counts["delivered"] == 2


def test_an_acknowledged_message_that_came_to_nobody_is_missed(tmp_path: Path) -> None:
    read = [*asked(), got(700, (20, 1)), end()]
    assert "1 messages were acknowledged and came to nobody, the first is ('p.0', 2)" in complaints(
        tmp_path, plan_of(), published(2), read
    )


def test_a_message_that_was_sent_before_the_confirmation_need_not_come(tmp_path: Path) -> None:
    read = [*asked(at_ms=550), got(700, (20, 1)), end()]
    assert complaints(tmp_path, plan_of(), published(2), read) == ""


def test_a_message_in_doubt_may_come_once_or_not_at_all(tmp_path: Path) -> None:
    doubtful = [*published(1), sent(2), ["doubt", 700, "p.0", 2, 2, "cancelled"], ["acked", 800, "p.0", 2]]
    assert complaints(tmp_path, plan_of(), doubtful, [*asked(), got(700, (20, 1)), end()]) == ""
    assert complaints(tmp_path, plan_of(), doubtful, [*asked(), got(700, (20, 1), (21, 2)), end()]) == ""
    twice = [*asked(), got(700, (20, 1), (21, 2), (22, 2)), end()]
    assert "1 messages came twice" in complaints(tmp_path, plan_of(), doubtful, twice)


def test_a_flush_that_failed_leaves_messages_in_doubt_and_those_before_acknowledged(tmp_path: Path) -> None:
    unsure = [*published(1), sent(2), ["took", 700, "p.0", 2, 2], ["unsure", 800, "p.0", 2, "lost"]]
    assert complaints(tmp_path, plan_of(), unsure, [*asked(), got(900, (20, 1)), end()]) == ""
    assert "1 messages were acknowledged and came to nobody" in complaints(
        tmp_path, plan_of(), unsure, [*asked(), end()]
    )


def test_a_message_that_the_client_refused_to_take_must_not_come(tmp_path: Path) -> None:
    blocked = [sent(1), ["blocked", 500, "p.0", 1]]
    assert complaints(tmp_path, plan_of(), blocked, [*asked(), end()]) == ""
    assert "had refused to take it" in complaints(tmp_path, plan_of(), blocked, [*asked(), got(700, (20, 1)), end()])


def test_a_message_that_anybody_got_must_come_to_everybody(tmp_path: Path) -> None:
    plan = plan_of()
    other = replace(plan.subscribers[0], name="t")
    plan = replace(plan, subscribers=(*plan.subscribers, other))
    witness = [*asked(), got(700, (20, 1), (21, 2)), end()]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in witness))
    read = [*asked(), got(700, (21, 2)), end()]
    assert "s/0 (plain, n > 0): 1 messages of q" in complaints(tmp_path, plan, published(2), read)
    assert complaints(tmp_path, plan, published(2), witness) == ""


def test_what_was_not_read_when_a_life_ended_is_not_missed(tmp_path: Path) -> None:
    read = [*asked(), got(700, (20, 1)), ["at", 700, 0, {"q": 21}], *asked(5_000, begins=40), end()]
    assert complaints(tmp_path, plan_of(), published(2), read) == ""


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([(21, 1), (20, 2)], "tick 20 of q comes after 21"),
        ([(20, 2), (21, 1)], "q: p.0/1 at tick 21 comes after p.0/2"),
        ([(9, 1), (20, 2)], "tick 9 of q is below the start 10"),
        ([(20, 1), (21, 1), (22, 2)], "message ('p.0', 1) is at ('q', 21), and at ('q', 20) elsewhere"),
        ([(20, 1), (20, 2)], "('q', 20) is message ('p.0', 2), and ('p.0', 1) elsewhere"),
        ([(20, 1), (21, 2), (22, 3)], "nobody published p.0/3"),
    ],
)
def test_order_and_identity_are_judged(rows: list[tuple[int, int]], complaint: str, tmp_path: Path) -> None:
    assert complaint in complaints(tmp_path, plan_of(), published(2), [*asked(), got(700, *rows), end()])


def test_selectors_are_evaluated_by_the_judge_itself(tmp_path: Path) -> None:
    plan = plan_of(selector=LITTLE)
    assert SELECTORS[LITTLE].text == "volume < 100"
    mixed = [sent(1, volume=99), sent(2, volume=100), ["took", 500, "p.0", 1, 2], ["acked", 600, "p.0", 2]]
    assert complaints(tmp_path, plan, mixed, [*asked(), got(700, (20, 1)), end()]) == ""
    assert "p.0/2 does not fit" in complaints(tmp_path, plan, mixed, [*asked(), got(700, (20, 1), (21, 2)), end()])


def test_a_message_that_nobody_published_as_it_came_is_strange(tmp_path: Path) -> None:
    strange = [*asked(), got(700, (20, 1)), ["strange", 700, 0, "<Received>"], end()]
    assert "nobody published <Received>" in complaints(tmp_path, plan_of(), published(1), strange)


# Lives.

NOT_STORED = [got(700, (20, 1)), ["at", 700, 0, {"q": 21}]]


def test_a_durable_name_may_repeat_over_lives_but_not_within_one(tmp_path: Path) -> None:
    again = [*asked(), *NOT_STORED, *asked(5_000, begins=10), got(5_100, (20, 1), (21, 2)), end()]
    assert complaints(tmp_path, plan_of("durable"), published(2), again) == ""
    twice = [*again[:-1], got(5_200, (21, 2)), end()]
    assert "came twice" in complaints(tmp_path, plan_of("durable"), published(2), twice)


def test_a_durable_name_loses_nothing_between_its_lives(tmp_path: Path) -> None:
    skipping = [*asked(), *NOT_STORED, *asked(5_000, begins=30), got(5_100, (31, 3)), end()]
    plan = plan_of("durable")
    seen = replace(plan, subscribers=(*plan.subscribers, replace(plan.subscribers[0], name="t")))
    witness = [*asked(), got(700, (20, 1), (21, 2), (31, 3)), end()]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in witness))
    assert "missing without a notice, the first is ('p.0', 2)" in complaints(tmp_path, seen, published(3), skipping)
    lapsing = replace(seen, limits=LAPSING)
    assert "missing without a notice" in complaints(tmp_path, lapsing, published(3), skipping)
    told = [*skipping[:-1], ["lost", 5_050, 0, "q", 21, 29], end()]
    assert complaints(tmp_path, lapsing, published(3), told) == ""
    assert complaints(tmp_path, replace(lapsing, off=("lapsed-resume",)), published(3), skipping) == ""


def test_stored_positions_make_it_exactly_once_over_all_lives(tmp_path: Path) -> None:
    plan = plan_of("stored")
    first = [*asked(), got(700, (20, 1), position=21)]
    going_on = [*first, *asked(5_000, start={"q": 21}, begins=21), got(5_100, (22, 2), position=23), end()]
    assert complaints(tmp_path, plan, published(2), going_on) == ""
    repeating = [*first, *asked(5_000, start={"q": 21}, begins=10), got(5_100, (20, 1), (22, 2), position=23), end()]
    assert "came twice" in complaints(tmp_path, plan, published(2), repeating)


def test_a_torn_line_is_as_if_it_had_never_been_written(tmp_path: Path) -> None:
    plan = plan_of("stored")
    judged(tmp_path, plan, published(1), [*asked(), got(700, (20, 1), position=21), end()])
    path = tmp_path / "s.jsonl"
    path.write_text(path.read_text() + '["got",800,0,[["q",20,"p.')
    assert judge_round(plan, tmp_path).faults == []


# Notices.

NOTICE: Line = ["lost", 9_000, 0, "q", 21, 29]


def lost_after(quiet_ms: int) -> list[Line]:
    """A subscription whose position moved last so long before it was told of lost ticks."""
    moved_ms = 9_000 - quiet_ms
    return [*asked(), got(700, (20, 1)), ["at", moved_ms, 0, {"q": 21}], NOTICE, end()]


@pytest.mark.parametrize(
    ("keeping", "limits", "quiet_ms", "is_excused"),
    [
        ("plain", LAPSING, 0, True),
        ("durable", LAPSING, 0, True),
        ("plain", SHORT, 8_000, True),
        ("plain", SHORT, 6_000, False),
        ("durable", SHORT, 8_000, False),
        ("plain", Limits(grace_ms=5_000), 8_000, False),
    ],
)
def test_a_notice_needs_an_excuse(
    keeping: Keeping, limits: Limits, quiet_ms: int, *, is_excused: bool, tmp_path: Path
) -> None:
    told = complaints(tmp_path, plan_of(keeping, limits=limits), published(1), lost_after(quiet_ms))
    assert ("is not excused" not in told) is is_excused


def test_whoever_was_away_for_too_long_may_hear_of_it_while_it_catches_up(tmp_path: Path) -> None:
    back = [*asked(), got(700, (20, 1)), ["at", 700, 0, {"q": 21}], ["at", 9_000, 0, {"q": 25}]]
    told = [*back, ["lost", 12_000, 0, "q", 25, 29], end()]
    assert complaints(tmp_path, plan_of(limits=SHORT), published(1), told) == ""
    late = [*back, ["at", 14_000, 0, {"q": 26}], ["lost", 20_000, 0, "q", 26, 29], end()]
    assert "is not excused" in complaints(tmp_path, plan_of(limits=SHORT), published(1), late)


def test_a_stored_position_that_is_not_kept_may_be_skipped_after_a_long_absence(tmp_path: Path) -> None:
    plan = plan_of("stored", limits=SHORT)
    seen = replace(plan, subscribers=(*plan.subscribers, replace(plan.subscribers[0], name="t")))
    witness = [*asked(), got(700, (20, 1), (21, 2), (31, 3)), end()]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in witness))
    first = [*asked(), got(700, (20, 1), position=21)]
    late = [*first, *asked(9_000, start={"q": 21}, begins=30), got(9_100, (31, 3), position=32), end()]
    assert complaints(tmp_path, seen, published(3), late) == ""
    soon = [*first, *asked(5_000, start={"q": 21}, begins=30), got(5_100, (31, 3), position=32), end()]
    assert "missing without a notice" in complaints(tmp_path, seen, published(3), soon)


def test_half_of_the_grace_is_enough_where_that_is_not_demanded(tmp_path: Path) -> None:
    plan = plan_of(limits=SHORT, off=("restart-grace",))
    assert complaints(tmp_path, plan, published(1), lost_after(6_000)) == ""


def test_whoever_left_in_order_is_not_waited_for(tmp_path: Path) -> None:
    left = [*asked(), got(700, (20, 1), position=21), ["left", 800, 0]]
    back = [*asked(1_000, start={"q": 21}, begins=21), ["lost", 1_100, 0, "q", 21, 29], end()]
    plan = plan_of("stored", limits=SHORT)
    assert complaints(tmp_path, plan, published(1), [*left, *back]) == ""
    assert "is not excused" in complaints(tmp_path, plan, published(1), [*left[:-1], *back])


@pytest.mark.parametrize(
    ("limits", "reason", "is_excused"),
    [
        (LAPSING, "RefusedError: position 21 is not kept any more", True),
        (SHORT, "RefusedError: position 21 is not kept any more", False),
        (LAPSING, "TakenOverError: somebody else uses it", False),
    ],
)
def test_a_refusal_needs_an_excuse(limits: Limits, reason: str, *, is_excused: bool, tmp_path: Path) -> None:
    first = [*asked(), got(700, (20, 1), position=21)]
    refused = [["life", 1_000, 1], ["ask", 1_000, 0, {"q": 21}, "fail"], ["refused", 1_100, 0, reason]]
    read = [*first, *refused, *asked(1_200, begins=40), end()]
    told = complaints(tmp_path, plan_of("stored", limits=limits), published(1), read)
    assert ("was refused" not in told) is is_excused


def test_a_crash_of_a_client_is_a_fault(tmp_path: Path) -> None:
    crashed = [*published(1), ["crash", 800, "KeyError: 3"]]
    assert "p crashed: KeyError: 3" in complaints(tmp_path, plan_of(), crashed, [*asked(), got(700, (20, 1)), end()])
