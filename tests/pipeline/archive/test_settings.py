"""What an archive is asked to do is checked before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.archive.settings import ArchiveSettings, duration_s


def settings(**changes: Any) -> ArchiveSettings:
    return ArchiveSettings("penstock://sb1:7000", "lake", **changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"selector": "a >"}, "a >"),
        ({"missing": "maybe"}, "missing is 'maybe', but must be one of fail, skip"),
        ({"rows_max": 0}, "the rows of a batch are 0"),
        ({"every_s": 86_401.0}, "outside 0 to a day"),
        ({"every_s": -1.0}, "outside 0 to a day"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MisuseError) as raised:
        settings(**changes)
    assert complaint in str(raised.value)


def test_the_source_is_told_everything() -> None:
    asked = settings(selector="a>1", start="latest", missing="skip", rows_max=7, source={"token": "t"})
    assert asked.source_options() == {
        "token": "t",
        "broker": "penstock://sb1:7000",
        "selector": "a > 1",
        "startingPosition": "latest",
        "missing": "skip",
        "maxRowsPerTrigger": "7",
    }


def test_selectors_that_are_written_differently_are_the_same() -> None:
    assert settings(selector="n>5").canonical_selector == settings(selector=" n  > 5 ").canonical_selector


class Writer:
    """Remembers when it is to make a batch."""

    def trigger(self, **when: Any) -> Any:
        return when


def test_batches_come_in_time_or_until_all_is_there() -> None:
    writer: Any = Writer()
    found: list[Any] = [settings(every_s=each).triggered(writer) for each in (1.5, None)]
    assert found == [{"processingTime": "1500 milliseconds"}, {"availableNow": True}]


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0.0), (" 1.5 M ", 90.0), ("250ms", 0.25), ("1h", 3_600.0)])
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1 s 2", "1e3", "∞", "9" * 400])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="is not a time such as 10s"):
        duration_s(text)
