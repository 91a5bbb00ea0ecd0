"""The work of ``penstock match`` is the same in one process and in several, and its memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.cli import match_work
from penstock.cli.match_inputs import Chunk, MessageFormat, NamedSelector
from penstock.cli.match_work import Matcher, Outcome, Task, Wanted, outcomes
from penstock.selectors import Selector

SELECTORS = [NamedSelector(number, Selector.parse(text)) for number, text in enumerate(["a > 1", "a > 2 OR a = 2"], 1)]


def task(wanted: Wanted) -> Task:
    return Task(SELECTORS, MessageFormat("file"), wanted)


def chunks(count: int) -> Iterator[Chunk]:
    for number in range(count):
        yield Chunk(2 * number + 1, [(2 * number + offset, f'{{"a": {number + offset}}}') for offset in (1, 2)])


def summary(answers: Iterator[Outcome]) -> list[tuple[int, int, list[int] | None, str]]:
    return [
        (each.messages, each.matches, None if each.counts is None else each.counts.tolist(), each.text)
        for each in answers
    ]


def test_counts_are_per_selector_and_a_message_counts_once() -> None:
    outcome = Matcher(task(Wanted.COUNTS)).answer(next(chunks(1)))
    assert outcome.counts is not None
    assert (outcome.messages, outcome.matches, outcome.counts.tolist()) == (2, 2, [1, 1])


def test_counts_do_not_depend_on_how_many_ids_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = summary(outcomes(task(Wanted.COUNTS), chunks(5), 1))
    monkeypatch.setattr(match_work, "_PENDING_IDS_MAX", 1)
    assert summary(outcomes(task(Wanted.COUNTS), chunks(5), 1)) == expected


def test_pairs_carry_the_number_of_the_message_in_the_whole_file() -> None:
    texts = [outcome.text for outcome in outcomes(task(Wanted.PAIRS), chunks(2), 1)]
    assert texts == ["2\t1\n2\t2", "3\t1\n3\t2\n4\t1\n4\t2"]
    texts = [outcome.text for outcome in outcomes(task(Wanted.JSON_PAIRS), chunks(1), 1)]
    assert texts == ["[2, 1],\n[2, 2]"]


def test_several_processes_answer_in_the_order_of_the_file() -> None:
    alone, together = (summary(outcomes(task(Wanted.PAIRS), chunks(20), jobs)) for jobs in (1, 2))
    assert together == alone
    assert len(together) == 20


def test_a_small_input_is_not_spread_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_work, "_in_processes", None)
    assert len(list(outcomes(task(Wanted.COUNTS), chunks(3), None))) == 3


def test_a_large_input_is_read_no_further_ahead_than_the_processes_need() -> None:
    read = 0

    def counted() -> Iterator[Chunk]:
        nonlocal read
        for chunk in chunks(1_000):
            read += 1
            yield chunk

    answers = outcomes(task(Wanted.COUNTS), counted(), 2)
    next(answers)
    assert read <= 6
    assert isinstance(answers, Iterator)
    del answers
