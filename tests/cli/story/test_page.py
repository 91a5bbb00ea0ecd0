"""The page is one file, with everything in it, whatever happened."""

from __future__ import annotations

import re

from penstock.cli.demo_verdict import DemoVerdict, Latency
from penstock.cli.story.outcome import Judged, Outcome, Told
from penstock.cli.story.page import story_page
from penstock.cli.story.sampling import Sample
from penstock.cli.story.settings import FULL


def played(verdict: DemoVerdict, *, audit: bool | None) -> Outcome:
    samples = [
        Sample(at / 2, 60 * at, 400 * at, {"sb1": 400 * at}, {"gold": 60 * at}, {"sb1": 9 - at % 4, "sb2": at % 4})
        for at in range(20)
    ]
    chapters = [
        Told("balancing", "Spread <b>", "what it is", 0.0, 4.0, ["a < b"], as_expected=True),
        Told("trace", "Trace", "what it is", 4.0, 9.0, [], as_expected=False, drawing="tree\n└── leaf"),
        Told("spark", "Spark", "what it is", 12.0, 40.0, ["left out: no Java"]),
    ]
    judged = [Judged("subscriber-001", "sb2", "price < 3", 1, verdict)]
    return Outcome(FULL, chapters, samples, judged, 1_234, Latency(1.0, 2.0, 3.0, 4.0), audit)


def test_a_good_run() -> None:
    page = story_page(played(DemoVerdict(5, 5, 0, 0, in_order=True), audit=True))
    assert 'class="verdict good"' in page
    assert "published 1,234, delivered 5, lost 0, duplicated 0" in page
    assert page.count("<svg") == 4
    assert "Spread &lt;b&gt;" in page
    assert "a &lt; b" in page
    assert "price &lt; 3" in page
    assert "└── leaf" in page
    assert re.findall(r">\(([a-z ]+)\)<", page) == ["as expected", "not as expected", "left out"]
    assert "audit of durable subscriptions agrees" in page


def test_nothing_is_loaded_from_anywhere() -> None:
    page = story_page(played(DemoVerdict(5, 5, 0, 0, in_order=True), audit=None))
    assert not re.search(r"(?:src|href)=|https?:|@import|<script", page)


def test_a_bad_run_says_so() -> None:
    page = story_page(played(DemoVerdict(5, 4, 1, 0, in_order=True), audit=False))
    assert 'class="verdict bad"' in page
    assert "1 missing" in page
    assert "audit found faults" in page


def test_chapters_after_the_last_sample_are_not_in_the_charts() -> None:
    page = story_page(played(DemoVerdict(5, 5, 0, 0, in_order=True), audit=True))
    assert page.count('class="chapter"') == 4 * 2
