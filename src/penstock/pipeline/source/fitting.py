"""Decides which attribute values fit which column type; values that do not fit are never guessed at.

The rules are strict, so that a filter pushed down to the broker never drops a row that Spark would have kept: text
comes only from text, a number only from numbers, a boolean only from booleans. An integer fits a floating-point column
if every integer up to its size does (2**53, or 2**24); a decimal takes any value that needs no rounding. NaN fits
nothing: selectors cannot compare it, and Spark would consider it larger than all numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

__all__ = ["UNFIT", "Fit", "Kind", "kind_of"]


class _Unfit:
    """Marks a value that does not fit."""


UNFIT: Final = _Unfit()
Fit: TypeAlias = Callable[[Any], Any]
"""Converts a value for its column, or returns ``UNFIT``."""

_DOUBLE_INTEGER_MAX: Final = 2**53
_SINGLE_INTEGER_MAX: Final = 2**24
_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


@dataclass(slots=True, frozen=True)
class Kind:
    """How values of one column type are made."""

    decoded: Any
    """The type with which msgspec can decode most values at once."""
    arrow: Any
    fit: Fit
    is_direct: bool = True
    """Whether Arrow can build the column from decoded values, refusing those that do not fit."""


def kind_of(data_type: DataType) -> Kind:
    """Find how values of this type are made."""
    if isinstance(data_type, StringType):
        return Kind(str | None, pa.string(), _fit_text)
    if isinstance(data_type, BooleanType):
        return Kind(bool | None, pa.bool_(), _fit_truth)
    if isinstance(data_type, DoubleType):
        return Kind(float | int | None, pa.float64(), _fit_double)
    if isinstance(data_type, FloatType):
        return Kind(float | int | None, pa.float32(), _fit_single, is_direct=False)
    if isinstance(data_type, DecimalType):
        fit = partial(_fit_decimal, data_type.precision, data_type.scale)
        arrow = pa.decimal128(data_type.precision, data_type.scale)
        return Kind(float | int | None, arrow, fit, is_direct=False)
    bits = _BITS[type(data_type)]
    return Kind(int | None, _integer_type(bits), partial(_fit_integer, 1 << (bits - 1)))


def _integer_type(bits: int) -> Any:
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]


def _fit_text(value: Any) -> Any:
    return value if type(value) is str else UNFIT


def _fit_truth(value: Any) -> Any:
    return value if type(value) is bool else UNFIT


def _fit_integer(bound: int, value: Any) -> Any:
    return value if type(value) is int and -bound <= value < bound else UNFIT


def _fit_double(value: Any) -> Any:
    if type(value) is float:
        return UNFIT if math.isnan(value) else value
    return float(value) if type(value) is int and abs(value) <= _DOUBLE_INTEGER_MAX else UNFIT


def _fit_single(value: Any) -> Any:
    if type(value) is int and abs(value) > _SINGLE_INTEGER_MAX:
        return UNFIT
    exact = _fit_double(value)
    if exact is UNFIT:
        return UNFIT
    with np.errstate(over="ignore"):
        rounded = float(np.float32(exact))
    return UNFIT if math.isinf(rounded) and not math.isinf(exact) else rounded


def _fit_decimal(precision: int, scale: int, value: Any) -> Any:
    if type(value) is int:
        exact = Decimal(value)
    elif type(value) is float and math.isfinite(value):
        # The shortest decimal that reads back as the same number, which is the one that was written.
        exact = Decimal(repr(value))
    else:
        return UNFIT
    if not exact:
        return exact
    _, digits, exponent = exact.normalize().as_tuple()
    assert isinstance(exponent, int)
    return exact if -exponent <= scale and len(digits) + exponent <= precision - scale else UNFIT
