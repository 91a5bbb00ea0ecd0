from __future__ import annotations

from random import Random

import pytest

from penstock.tracking.accuracy import FppMeasurement, measure_fpp, message_columns
from penstock.tracking.sizing import TABLE_2, FilterShape


@pytest.mark.parametrize(
    ("row", "filters", "probes"),
    [("64K-99", 20, 400_000), ("64K-95", 20, 400_000), ("1M-95", 3, 200_000), ("64K-99.999", 10, 2_000_000)],
)
def test_measured_fpp_is_within_four_standard_errors_of_the_formula(row: str, filters: int, probes: int) -> None:
    found = measure_fpp(TABLE_2[row], filters=filters, probes=probes, rng=Random(5))
    assert found.probes >= probes
    assert abs(found.deviation) < 4


def test_many_hashes_into_few_bits_are_as_good_as_the_formula() -> None:
    # Here indices that depend on each other show: 16 of them in a filter of 4 Kbit, with enough hits to tell 2 %.
    found = measure_fpp(FilterShape(4_096, 400, 16), filters=60, probes=600_000, rng=Random(6))
    assert found.hits > 500
    assert found.measured == pytest.approx(found.theory, rel=0.12)


def test_a_measurement_notices_a_wrong_formula() -> None:
    shape = FilterShape(4_096, 400, 4)
    found = measure_fpp(shape, filters=20, probes=100_000, rng=Random(7))
    wrong = FppMeasurement(FilterShape(4_096, 500, 4), found.filters, found.probes, found.hits, found.standard_error)
    assert abs(found.deviation) < 4 < abs(wrong.deviation)


def test_ids_are_all_different() -> None:
    high, low = message_columns(2_000, publisher=5, start_ms=77)
    assert len(set(zip(high.tolist(), low.tolist(), strict=True))) == 2_000
    assert {each >> 16 for each in low.tolist()} == set(range(77, 477))
