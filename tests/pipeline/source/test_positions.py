from __future__ import annotations

import pytest

from penstock.client.reading import PubendSpan, Survey
from penstock.model.tick import tick_at
from penstock.pipeline.source.errors import SourceOptionError
from penstock.pipeline.source.positions import (
    BEGINNING,
    EARLIEST,
    LATEST,
    TICK_LAST,
    Position,
    end_of,
    narrowed,
    parse_position,
    start_of,
)

SURVEY = Survey({"b": PubendSpan(20, 90), "a": PubendSpan(10, 80)}, ("away",))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", EARLIEST),
        (" LATEST ", LATEST),
        ("1970-01-01T00:00:01.5Z", Position("time", ms=1_500)),
        ("1970-01-01T02:00:00+02:00", Position("time", ms=0)),
        ('{"b": 2, "a": 0}', Position("ticks", ticks=(("a", 0), ("b", 2)))),
        ("{}", Position("ticks")),
        (f'{{"a": {TICK_LAST}}}', Position("ticks", ticks=(("a", TICK_LAST),))),
    ],
)
def test_a_position_is_understood(text: str, position: Position) -> None:
    assert parse_position(text) == position


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not one of earliest"),
        ("2026-11-15T10:00:00", "has no time zone"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("9999-01-01T00:00:00Z", "too far in the future"),
        ("{", "begins as JSON but is none"),
        ('{"a": "1"}', "'1' of pubend a is not a tick"),
        ('{"a": true}', "True of pubend a is not a tick"),
        ('{"a": -1}', "-1 of pubend a"),
        (f'{{"a": {TICK_LAST + 1}}}', "not a tick in"),
    ],
)
def test_what_is_no_position_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SourceOptionError, match=problem):
        parse_position(text)


def test_every_tick_fits_a_signed_long() -> None:
    assert TICK_LAST < 2**63
    assert TICK_LAST >> 16 > 4_000 * 365 * 86_400_000 // 100


def test_earliest_is_the_beginning_wherever_that_is() -> None:
    assert start_of(EARLIEST, SURVEY, now_ms=5) == {"a": BEGINNING, "away": BEGINNING, "b": BEGINNING}


def test_latest_is_behind_what_is_there_and_now_for_those_away() -> None:
    found = start_of(LATEST, SURVEY, now_ms=5)
    assert found == {"a": 81, "away": tick_at(5), "b": 91}
    assert list(found) == sorted(found)


def test_a_time_is_the_tick_of_its_millisecond_or_the_beginning_if_that_is_later() -> None:
    spans = {"old": PubendSpan(tick_at(3), tick_at(9)), "new": PubendSpan(tick_at(7), tick_at(9))}
    assert start_of(Position("time", ms=5), Survey(spans, ("away",)), now_ms=0) == {
        "away": tick_at(5),
        "new": BEGINNING,
        "old": tick_at(5),
    }


def test_ticks_are_taken_as_they_are_and_others_begin_at_the_beginning() -> None:
    assert start_of(Position("ticks", ticks=(("a", 3),)), SURVEY, now_ms=0) == {"a": 3, "away": 0, "b": 0}
    assert start_of(Position("ticks", ticks=(("away", 3),)), SURVEY, now_ms=0) == {"a": 0, "away": 3, "b": 0}


@pytest.mark.parametrize(
    ("position", "end"),
    [
        (LATEST, {"a": 81, "b": 91}),
        (EARLIEST, {"a": 0, "b": 0}),
        (Position("ticks", ticks=(("a", 50),)), {"a": 50, "b": 91}),
        (Position("ticks", ticks=(("a", 500),)), {"a": 81, "b": 91}),
        (Position("time", ms=10**9), {"a": 81, "b": 91}),
        (Position("time", ms=0), {"a": 0, "b": 0}),
    ],
)
def test_an_end_is_never_behind_what_is_there_for_good(position: Position, end: dict[str, int]) -> None:
    assert end_of(position, SURVEY) == end


def test_unknown_pubends_are_refused_with_those_there_are() -> None:
    wrong = Position("ticks", ticks=(("zz", 1),))
    with pytest.raises(SourceOptionError, match=r"option startingPosition names pubend 'zz'.* a, away, b"):
        start_of(wrong, SURVEY, now_ms=0)
    with pytest.raises(SourceOptionError, match="option endingPosition names pubend 'zz'"):
        end_of(wrong, SURVEY)
    with pytest.raises(SourceOptionError, match=r"option pubends names pubend 'zz'; .* are none"):
        narrowed(Survey({}), ("zz",))


def test_a_survey_is_narrowed_to_the_pubends_wanted() -> None:
    assert narrowed(SURVEY, ()) is SURVEY
    assert narrowed(SURVEY, ("a",)) == Survey({"a": PubendSpan(10, 80)}, ())
    assert narrowed(SURVEY, ("away",)) == Survey({}, ("away",))
