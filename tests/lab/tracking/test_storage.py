"""What a recorder stores is weighed rightly, and ``tracking-storage`` measures every configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.tracking import storage
from penstock.lab.tracking.storage import TRACKING_STORAGE, Weighed, recorded
from penstock.lab.tracking.table import FULL_BYTES, Configuration, metric_of
from penstock.tracking.records import Keep
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import TABLE_2


def ids(count: int) -> bytes:
    return storage._ids(count)


def test_what_replaces_something_is_written_twice_and_kept_once() -> None:
    weighed = Weighed(records=10)
    weighed.add(Keep("filter/a#1", bytes(100)), len)
    weighed.add(Keep("filter/a#1", bytes(100)), lambda _: 40)
    weighed.add(Keep("mark", bytes(6)), lambda value: len(value) + 7)
    assert (weighed.kept, weighed.written, weighed.forces) == (120, 230, 2)
    assert (weighed.kept_compressed, weighed.written_compressed) == (60, 170)
    assert weighed.per_message("zip") == {"kept": 12.0, "kept_zip": 6.0, "written": 23.0, "written_zip": 17.0}
    weighed.add(Keep("filter/a#1", None), len)
    assert (weighed.kept, weighed.written) == (10, 230)


def test_a_filter_that_goes_on_being_filled_is_kept_once_and_written_every_interval() -> None:
    # Two and a half seconds of messages, in filters that take 7,281: nearly one and a half seconds.
    some = ids(12_500)
    each = Configuration("bloom", 10_000, 1, "64K-95")
    filling, sealing = (recorded(each.settings(keep_filling=keeps), some) for keeps in (True, False))
    assert filling.records == 12_500
    filter_bytes = 8_192
    assert filling.kept // filter_bytes == 2
    assert sealing.kept // filter_bytes == sealing.forces == 3
    assert filling.written // filter_bytes == filling.forces == 4
    assert sealing.written - sealing.kept < filter_bytes


def test_exact_records_take_16_bytes_and_deliveries_8_more() -> None:
    settings = TrackingSettings(strategy="exact", persist_ms=10**9)
    published, delivered = recorded(settings, ids(2_500)), recorded(settings, ids(2_500), delivers=True)
    assert published.forces == delivered.forces == 4
    assert 16 < published.kept / 2_500 < 16.4
    assert 24 < delivered.kept / 2_500 < 24.4


@pytest.mark.long
def test_every_configuration_is_measured_and_full_filters_are_as_published(tmp_path: Path) -> None:
    result = run_experiment(TRACKING_STORAGE, ["seconds=30"], figures=tmp_path)
    measured = result.measured
    for row, size in FULL_BYTES.items():
        assert measured[f"full_{metric_of(row)}"] == pytest.approx(size, rel=0.02)
        assert measured[f"full_bits_{metric_of(row)}"] == pytest.approx(size, rel=0.001)
        assert measured[f"records_per_force_{metric_of(row)}"] == TABLE_2[row].n
    assert measured["records_per_force_exact_10k"] == 625
    assert measured["full_exact_10k"] == pytest.approx(16, rel=0.02)
    # So short a run ends in the middle of filters; those of the small ones count little.
    small = [("64k_99_999", 3.25), ("64k_99", 1.5), ("64k_95", 1.125)]
    for name, size in small:
        for tp in ("tp1", "tp2"):
            assert measured[f"kept_filling_{name}_{tp}"] == pytest.approx(size, rel=0.1)
            assert measured[f"written_filling_{name}_{tp}"] > measured[f"kept_filling_{name}_{tp}"]
            assert measured[f"kept_sealing_{name}_{tp}"] > measured[f"kept_filling_{name}_{tp}"]
    assert measured["kept_sealing_1m_95_tp1"] > 25
    assert {name for name in measured if name.endswith("_1m_99_tp27")} >= {
        f"{kind}_{way}_1m_99_tp27" for kind in ("kept", "written") for way in ("filling", "sealing")
    }
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_published_figures_are_named_like_measured_ones() -> None:
    names = [metric_of(row) for row in TABLE_2] + ["exact_10k", "exact_135k"]
    known = {f"{kind}_{name}" for kind in ("full", "records_per_force") for name in names}
    assert set(TRACKING_STORAGE.published) <= known | {"kept_over_full_filling_worst"}
