"""A made-up lake holds what its overlay says, as filters and as records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from live.shipping.lakes import rows_of
from penstock.pipeline.experiments.trace_bulk.lake import TracedOverlay, slabs, topics_of, write_lake
from penstock.tracking.settings import TrackingSettings

OVERLAY = TracedOverlay(3, brokers=6, subscribers=36, topics=20, origins=2)
SETTINGS = TrackingSettings(efpp=0.01, subscribers_checked=6)


def test_ids_are_unique_and_tell_their_topics() -> None:
    parts = list(slabs(OVERLAY, 5_000))
    ids = np.concatenate([np.stack((high, low), axis=1) for _, high, low in parts])
    assert len(np.unique(ids, axis=0)) == 5_000
    topics = topics_of(OVERLAY, ids[:, 0], ids[:, 1])
    assert set(topics.tolist()) == set(range(20))
    assert {int(each) & 0xFFFFFFFF for each in ids[:, 0]} == {OVERLAY.number(each) for each in OVERLAY.origins}


def test_messages_go_from_their_origin_to_all_who_want_them() -> None:
    for topic, homes in enumerate(OVERLAY.wanted):
        for origin in OVERLAY.origins:
            assert set(homes) <= OVERLAY.routed(origin, topic) | {origin}


def test_filters_and_records_hold_the_same_events(tmp_path: Path) -> None:
    bloom = write_lake(tmp_path / "bloom", OVERLAY, SETTINGS, 3_000)
    exact = write_lake(tmp_path / "exact", OVERLAY, SETTINGS, 3_000, exact=True)
    assert bloom.events == exact.events
    filters = rows_of(tmp_path / "bloom", "histories")
    assert sum(row["count"] for row in filters) == bloom.events
    assert sum(row["m"] // 8 for row in filters) == bloom.raw
    assert len(rows_of(tmp_path / "exact", "records")) == exact.events
    assert len(rows_of(tmp_path / "exact", "attachments")) == 36
