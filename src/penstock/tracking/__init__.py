"""Tracking: where every message came from, which way it went and who received it ([Tracking], spec/tracking.md).

Recording, from the inside out: `hashing` and `bloom` (filters), `spans` (their times), `history` (filters one after the
other), `recorder` (all histories of a broker). Asking: `catalogue` (matching sets), `answering` (one broker),
`reconstruct` (all of them). Nothing here knows of connections, files or clocks.
"""

from __future__ import annotations

from penstock.tracking.accuracy import FppMeasurement, measure_fpp
from penstock.tracking.aliases import AliasBook
from penstock.tracking.answering import Answerer, Inquiry
from penstock.tracking.answers import Ask, BrokerAnswer, GapSeen, Hop, Trace, Verdict
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import HASH_VERSION, subscriber_key
from penstock.tracking.history import History, HistoryOptions
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.reconstruct import Reconstruction
from penstock.tracking.recorder import Recorder, make_tracking
from penstock.tracking.records import AliasRecord, AttachmentRecord, DamagedRecordError, GapRecord, Keep
from penstock.tracking.recovery import recover
from penstock.tracking.settings import MatchingBound, TrackingSettings, TrackingSettingsError
from penstock.tracking.sizing import TABLE_2, FilterShape, choose_shape, efpp, fpp
from penstock.tracking.skew import SkewCheck, measured_skew_ms
from penstock.tracking.stored import FilterHeader, StoredFilter, decode_filter, decode_header, merged
from penstock.tracking.strategy import Matching, NullTracking, Tracking

__all__ = [
    "HASH_VERSION",
    "TABLE_2",
    "AliasBook",
    "AliasRecord",
    "Answerer",
    "Ask",
    "AttachmentMap",
    "AttachmentRecord",
    "BloomFilter",
    "BrokerAnswer",
    "DamagedRecordError",
    "FilterHeader",
    "FilterShape",
    "FppMeasurement",
    "GapRecord",
    "GapSeen",
    "History",
    "HistoryKey",
    "HistoryOptions",
    "Hop",
    "Inquiry",
    "Keep",
    "Matching",
    "MatchingBound",
    "NullTracking",
    "Phase",
    "Reconstruction",
    "Recorder",
    "SkewCheck",
    "StoredFilter",
    "Trace",
    "Tracking",
    "TrackingSettings",
    "TrackingSettingsError",
    "Verdict",
    "choose_shape",
    "decode_filter",
    "decode_header",
    "efpp",
    "fpp",
    "make_tracking",
    "measure_fpp",
    "measured_skew_ms",
    "merged",
    "recover",
    "subscriber_key",
]
