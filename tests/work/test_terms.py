from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import MisuseError
from penstock.work.terms import Terms

GOOD = Terms("resizers", "type = 'job'", "symbol", 1_000, 5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "a b\n"}, "cannot be the name of a group"),
        ({"key": "k" * 256}, "shared_by has 256 characters"),
        ({"work_ms": 99}, "work_ms is 99; it must be 100 to 86,400,000"),
        ({"deliveries_max": 1_001}, "deliveries_max is 1001"),
    ],
)
def test_terms_that_no_group_can_have_are_refused(change: dict[str, object], problem: str) -> None:
    GOOD.check()
    with pytest.raises(MisuseError, match=problem):
        replace(GOOD, **change).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, ""),
        ({"selector": "TRUE"}, "group 'resizers' has the selector \"type = 'job'\", not 'TRUE'; forget the group"),
        ({"key": ""}, "group 'resizers' has shared_by 'symbol', not ''"),
        ({"work_ms": 2_000}, "has work_ms 1000, not 2000"),
        ({"deliveries_max": 6}, "has deliveries_max 5, not 6"),
    ],
)
def test_a_member_hears_what_the_group_has_instead(change: dict[str, object], difference: str) -> None:
    found = GOOD.difference(replace(GOOD, **change))  # type: ignore[arg-type]
    assert difference in found
    assert bool(found) == bool(change)
