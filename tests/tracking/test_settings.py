from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.tracking.history import History
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.settings import TrackingSettings, TrackingSettingsError
from penstock.tracking.sizing import TABLE_2, efpp
from tracking.ids import joined, make_id


def test_the_usual_settings_keep_to_two_filters() -> None:
    bounds = TrackingSettings().bounds()
    assert [bound.phase for bound in bounds] == list(Phase)
    assert all(bound.matching_set == 2 and bound.efpp <= 1e-5 for bound in bounds)
    assert "at most 2 match" in str(bounds[0])


def test_theorem_1_bounds_the_matching_set() -> None:
    # Tf = 2,521 / 5,000 s = 504.2 ms. HP: 2·Ts = 600 ≤ 2·Tn, so three. Hb: 600 + 500 ≤ 3·Tn, so four.
    settings = TrackingSettings(shape=TABLE_2["64K-99.999"], skew_tolerance_ms=300, jitter_ms=500, efpp=1e-4)
    assert [bound.matching_set for bound in settings.bounds()] == [3, 4, 4]
    assert settings.bounds()[1].filter_ms == pytest.approx(504.2)
    assert settings.bounds()[1].efpp == pytest.approx(efpp(TABLE_2["64K-99.999"].fpp, 4))


def test_the_persistence_interval_counts_unless_filters_are_kept_on_being_filled() -> None:
    kept = TrackingSettings(persist_ms=100, efpp=0.001)
    assert kept.bounds()[0].filter_ms > 500
    assert replace(kept, keep_filling=False, matching_set_max=6).bounds()[0].filter_ms == 100


def test_settings_that_are_not_accurate_enough_are_refused_with_remedies_that_work() -> None:
    with pytest.raises(TrackingSettingsError) as refused:
        TrackingSettings(skew_tolerance_ms=5_000)
    text = str(refused.value)
    assert "cannot keep to an efpp of 1e-05" in text
    remedies = re.findall(r"change (\w+) from [\d.e+-]+ to ([\d.e+-]+)", text)
    assert {name for name, _ in remedies} >= {"skew_tolerance_ms", "buffer_bytes"}
    for name, value in remedies:
        changed: dict[str, object] = {"skew_tolerance_ms": 5_000, name: float(value) if name == "efpp" else int(value)}
        TrackingSettings(**changed)  # type: ignore[arg-type]


def test_filters_that_are_worse_than_asked_are_refused() -> None:
    with pytest.raises(TrackingSettingsError, match=r"change efpp from 1e-05 to 0\.1"):
        TrackingSettings(shape=TABLE_2["64K-95"])
    assert TrackingSettings(shape=TABLE_2["64K-95"], efpp=0.05).records_per_force == 7_281


def test_more_subscribers_make_more_accurate_subscriber_histories() -> None:
    settings = TrackingSettings(subscribers_checked=100, buffer_bytes=20_000)
    deliver, route = settings.options(Phase.DELIVER).shape, settings.options(Phase.ROUTE).shape
    assert efpp(deliver.fpp, 2) <= 1e-7
    assert deliver.n < route.n


def test_records_between_disk_forces_are_as_published() -> None:
    assert TrackingSettings(strategy="exact", buffer_bytes=10_000).records_per_force == 625
    assert TrackingSettings(strategy="exact", buffer_bytes=135_000).records_per_force == 8_437
    assert TrackingSettings(buffer_bytes=10_000, shape=TABLE_2["64K-99.999"]).records_per_force == 2_521


@pytest.mark.parametrize("row", TABLE_2)
def test_a_filter_and_what_is_staged_fit_the_buffers_of_the_paper(row: str) -> None:
    buffer_bytes = 10_000 if row.startswith("64K") else 135_000
    options = TrackingSettings(buffer_bytes=buffer_bytes, shape=TABLE_2[row], efpp=0.1, staged_max=0).options(
        Phase.ROUTE
    )
    assert options.shape.size_bytes + 16 * options.staged_max <= buffer_bytes
    assert options.staged_max > 100
    assert TrackingSettings(staged_max=700).options(Phase.ROUTE).staged_max == 700


def test_exact_records_are_not_kept_on_being_filled() -> None:
    settings = TrackingSettings(strategy="exact")
    assert not settings.options(Phase.ROUTE).keep_filling
    assert settings.bounds() == []
    assert settings.options(Phase.DELIVER).shape.m == 192
    assert replace(settings, per_subscriber=True).options(Phase.DELIVER).shape.m == 128


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("strategy", "guess", "'guess' is not one of null, exact, bloom"),
        ("efpp", 0, "efpp 0 is not between 0 and 1"),
        ("persist_ms", 0, "persist_ms 0 is not positive"),
        ("waiting_bytes_max", -1, "waiting_bytes_max -1 is not positive"),
        ("jitter_ms", -1, "jitter_ms -1 is negative"),
        ("singletons_max", 257, "singletons_max 257 is over 256"),
        ("staged_max", -1, "staged_max -1 is not in 0 .. 65536"),
        ("buffer_bytes", 127, "buffer_bytes 127 is less than 128"),
    ],
)
def test_values_that_cannot_work_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(TrackingSettingsError, match=message):
        TrackingSettings(**{name: value})  # type: ignore[arg-type]


@settings(max_examples=25)
@given(data=st.data(), skew_ms=st.integers(0, 60), jitter_ms=st.integers(0, 100))
def test_no_matching_set_is_larger_than_promised(data: st.DataObject, skew_ms: int, jitter_ms: int) -> None:
    chosen = TrackingSettings(
        skew_tolerance_ms=skew_ms,
        jitter_ms=jitter_ms,
        efpp=0.9,
        buffer_bytes=128,
        publish_rate_max=1_000,
        delivery_rate_max=1_000,
    )
    history = History(HistoryKey(Phase.ROUTE, 1), chosen.options(Phase.ROUTE))
    count = 4 * chosen.records_per_force
    # One message a millisecond, each published up to Ts off and on its way for up to Tj.
    offsets = data.draw(st.lists(st.integers(-skew_ms - jitter_ms, skew_ms), min_size=20, max_size=20))
    for number in range(count):
        timestamp_ms = 10_000 + number + offsets[number % 20]
        history.record(joined([make_id(timestamp_ms, number % 7)]), now_ms=10_000 + number)
    indices = [each.header.index for each in history.take()]
    indices += [header.index for header, _ in history.current(now_ms=10_000 + count)]
    promised = chosen.bounds()[1].matching_set
    largest = max(sum(time in index for index in indices) for time in range(9_800, 10_200 + count))
    assert largest <= promised
    assert not any(index.singletons for index in indices)
