"""Spans of time as users give them: with a zone, and not backwards."""

from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.time_span import TimeSpan, parse_time


@pytest.mark.parametrize(
    ("text", "says"),
    [("noon", "is not a time"), ("2026-11-15T10:00:00", "has no time zone"), ("1969-01-01T00:00:00Z", "before 1970")],
)
def test_times_that_are_none_are_refused(text: str, says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        parse_time(text)


def test_a_span_ends_after_it_begins() -> None:
    assert TimeSpan.parse("1970-01-01T00:00:01Z", None) == TimeSpan(1000, None)
    assert TimeSpan.parse("1970-01-01T01:00:01+01:00", "1970-01-01T00:00:02Z") == TimeSpan(1000, 2000)
    with pytest.raises(MisuseError, match="before it begins at 1970-01-01T00:00:02"):
        TimeSpan(2000, 2000)
