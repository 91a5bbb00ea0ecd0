"""Spans cut time; every timestamp finds the spans that have it."""

from __future__ import annotations

from random import Random

import numpy as np

from penstock.pipeline.trace.timeline import TIME_MAX, Timeline


def test_segments_are_covered_as_their_times_are() -> None:
    rng = Random(5)
    items = [
        [(first, first + rng.choice((0, 1, 30, 10**6))) for first in (rng.randrange(-50, 250) for _ in range(3))]
        for _ in range(40)
    ]
    items.append([(0, 2**63 - 1)])
    timeline = Timeline([span for item in items for span in item], first_ms=20, last_ms=180)
    times = np.arange(20, 181)
    masks, sums = timeline.masks(items), timeline.sums((item, 1.0) for item in items)
    for time, segment in zip(times.tolist(), timeline.segments(times).tolist(), strict=True):
        covers = [any(first <= time <= last for first, last in item) for item in items]
        assert [bool(int(masks[segment]) >> place & 1) for place in range(len(items))] == covers
        assert sums[segment] == sum(covers)


def test_each_segment_has_a_time_of_its_own() -> None:
    timeline = Timeline([(5, 9), (7, TIME_MAX), (100, 200)], first_ms=6, last_ms=20)
    assert timeline.starts() == [6, 7, 10]
    assert timeline.segments(np.array(timeline.starts())).tolist() == [0, 1, 2]
    assert timeline.slices([(100, 200), (0, 5)]) == []
