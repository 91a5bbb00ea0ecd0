"""The verdict, and what it is made of."""

from __future__ import annotations

import msgspec
import pytest

from penstock.cli.demo_verdict import DemoVerdict
from penstock.cli.story.outcome import Judged, Outcome, Told
from penstock.cli.story.settings import FAST


def outcome(*verdicts: DemoVerdict, audit: bool | None = None) -> Outcome:
    judged = [Judged(f"s{place}", "sb1", "TRUE", 0, verdict) for place, verdict in enumerate(verdicts)]
    told = Told("links", "Links", "about", as_expected=False)
    return Outcome(FAST, [told], [], judged, 7, None, audit)


RIGHT = DemoVerdict(5, 5, 0, 0, in_order=True)


@pytest.mark.parametrize("audit", [None, True])
def test_a_chapter_that_is_not_as_expected_is_no_failure(audit: bool | None) -> None:
    good = outcome(RIGHT, RIGHT, audit=audit)
    assert good.is_good
    assert good.verdict_line() == "published 7, delivered 10, lost 0, duplicated 0"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (DemoVerdict(5, 4, 1, 0, in_order=True), "lost 1, duplicated 0"),
        (DemoVerdict(5, 6, 0, 1, in_order=True), "lost 0, duplicated 1"),
        (DemoVerdict(5, 5, 0, 0, in_order=False), "subscribers with messages out of order 1"),
        (DemoVerdict(5, 5, 0, 0, in_order=True, damaged=2), "damaged 2"),
    ],
)
def test_one_wrong_delivery_is_a_failure(verdict: DemoVerdict, words: str) -> None:
    bad = outcome(RIGHT, verdict, audit=True)
    assert not bad.is_good
    assert words in bad.verdict_line()


def test_an_audit_that_finds_a_fault_is_a_failure() -> None:
    assert not outcome(RIGHT, audit=False).is_good


def test_programs_get_all_of_it() -> None:
    told = msgspec.json.decode(msgspec.json.encode(outcome(RIGHT, audit=True).as_builtins()))
    assert (told["good"], told["matched"], told["lost"], told["audit_clean"]) == (True, 5, 0, True)
    assert told["chapters"][0]["key"] == "links"
    assert told["subscribers"][0]["verdict"]["delivered"] == 5


def test_words() -> None:
    assert [Told("k", "t", "a", as_expected=each).word for each in (True, False, None)] == [
        "as expected",
        "not as expected",
        "left out",
    ]
