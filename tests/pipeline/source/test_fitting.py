from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from penstock.pipeline.source.fitting import UNFIT, kind_of
from pipeline.source.support import DATA_TYPES

KINDS = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(6,2)")


def kind(name: str) -> Any:
    return kind_of(DATA_TYPES[name])


@pytest.mark.parametrize("name", KINDS)
def test_the_arrow_type_is_the_one_that_spark_expects(name: str) -> None:
    assert kind(name).arrow == to_arrow_type(DATA_TYPES[name])


@pytest.mark.parametrize(
    ("name", "value", "fitted"),
    [
        ("string", "x", "x"),
        ("string", 1, UNFIT),
        ("string", True, UNFIT),
        ("boolean", True, True),
        ("boolean", 1, UNFIT),
        ("boolean", "true", UNFIT),
        ("tinyint", 127, 127),
        ("tinyint", -128, -128),
        ("tinyint", 128, UNFIT),
        ("smallint", -(2**15) - 1, UNFIT),
        ("int", 2**31 - 1, 2**31 - 1),
        ("int", 2**31, UNFIT),
        ("bigint", -(2**63), -(2**63)),
        ("bigint", True, UNFIT),
        ("bigint", 1.0, UNFIT),
        ("bigint", "1", UNFIT),
        ("double", 1, 1.0),
        ("double", 2**53, 2.0**53),
        ("double", 2**53 + 1, UNFIT),
        ("double", 2**60, UNFIT),
        ("double", math.inf, math.inf),
        ("double", math.nan, UNFIT),
        ("double", False, UNFIT),
        ("double", "1.0", UNFIT),
        ("float", 0.5, 0.5),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e300, UNFIT),
        ("float", -math.inf, -math.inf),
        ("float", 2**24, 2.0**24),
        ("float", 2**24 + 1, UNFIT),
        ("float", math.nan, UNFIT),
        ("float", "1", UNFIT),
        ("decimal(6,2)", 18.2, Decimal("18.2")),
        ("decimal(6,2)", 9999, Decimal(9999)),
        ("decimal(6,2)", 10_000, UNFIT),
        ("decimal(6,2)", 0.01, Decimal("0.01")),
        ("decimal(6,2)", 0.001, UNFIT),
        ("decimal(6,2)", -0.0, Decimal(0)),
        ("decimal(6,2)", 1e300, UNFIT),
        ("decimal(6,2)", math.inf, UNFIT),
        ("decimal(6,2)", math.nan, UNFIT),
        ("decimal(6,2)", "1", UNFIT),
        ("decimal(6,2)", True, UNFIT),
    ],
)
def test_what_fits_and_what_does_not(name: str, value: Any, fitted: Any) -> None:
    found = kind(name).fit(value)
    assert found is fitted if fitted is UNFIT or isinstance(fitted, bool) else found == fitted


values = st.one_of(
    st.booleans(), st.text(max_size=3), st.floats(), st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200)
)


@given(name=st.sampled_from(KINDS), value=values)
def test_what_fits_is_what_arrow_takes_without_changing_it(name: str, value: Any) -> None:
    found = kind(name)
    fitted = found.fit(value)
    if fitted is UNFIT:
        return
    assert pa.array([fitted], type=found.arrow).to_pylist() == [fitted]
    if name != "float":
        exact = Decimal(repr(value)) if name.startswith("decimal") else value
        assert fitted == exact
