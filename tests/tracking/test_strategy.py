from __future__ import annotations

from msgspec import to_builtins

from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.recorder import Recorder, make_tracking
from penstock.tracking.records import Keep
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.strategy import NullTracking, delivery_key
from tracking.ids import joined, make_ids


def test_the_settings_choose_the_strategy() -> None:
    assert isinstance(make_tracking(1, TrackingSettings(strategy="null"), now_ms=0), NullTracking)
    for strategy in ("exact", "bloom"):
        made = make_tracking(1, TrackingSettings(strategy=strategy), now_ms=0)
        assert isinstance(made, Recorder)
        assert made.kind == strategy


def test_without_tracking_nothing_is_stored_and_everything_unknown() -> None:
    tracking = NullTracking()
    tracking.record_published(joined(make_ids(1, 3)), now_ms=1)
    tracking.record_routed(1, joined(make_ids(1, 3)), now_ms=1)
    tracking.record_delivered(1, joined(make_ids(1, 3)), [1, 2, 3], now_ms=1)
    tracking.on_deadline(now_ms=99)
    tracking.stop(now_ms=99)
    # The mark of an earlier life goes: a later one must not think that all was recorded.
    assert tracking.take() == [Keep("mark", None)]
    assert tracking.take() == []
    tracking.on_kept([])
    assert tracking.next_deadline() is None
    assert not tracking.matching(HistoryKey(Phase.ROUTE, 1), 1, now_ms=1).is_known
    assert tracking.waiting_value("mark") is None
    assert to_builtins(tracking.status()) == {"strategy": "null", "attachments": 0, "aliases": 0, "damaged": 0}


def test_the_history_of_one_subscriber_is_named_by_its_key() -> None:
    assert str(delivery_key(7, 0xAB)) == "deliver/7/00000000000000ab"
