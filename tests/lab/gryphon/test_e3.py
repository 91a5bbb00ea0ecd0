"""E3: the larger overlay wants everything together, and each host two fifths."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.e3 import COMPLEX, E3
from penstock.lab.gryphon.overlay import TOPICS


def test_the_hosts_want_everything_together_and_two_fifths_each() -> None:
    assert {topic for topics in COMPLEX.topics.values() for topic in topics} == set(range(TOPICS))
    assert all(len(set(topics)) == TOPICS * 2 // 5 for topics in COMPLEX.topics.values())
    assert len(COMPLEX.brokers) == 9
    assert COMPLEX.publisher == "PB"


@pytest.mark.long
def test_a_short_run_is_measured_and_drawn(tmp_path: Path) -> None:
    settings = ["phase_s=30", "limit_s=20", "after_s=12", "profile=swift"]
    measured = run_experiment(E3, settings, seed=1, figures=tmp_path).measured
    promised = ["recovery_s", "rate_limited", "rate_in_recovery", "lost", "duplicated", "reordered"]
    assert [name for name in measured if name in promised] == promised
    assert 100 < measured["rate_limited"] < 440
    assert measured["rate_in_recovery"] < measured["rate_limited"]
    assert (measured["duplicated"], measured["reordered"]) == (0, 0)
    assert (tmp_path / "gryphon-e3.png").stat().st_size > 10_000
