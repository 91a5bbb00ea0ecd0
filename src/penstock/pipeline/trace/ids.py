"""Reads which messages to trace: identifiers from a file, a lake table or the command line, as two longs.

Malformed identifiers are set aside with the reason, and the others are traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import TABLES
from penstock.model.message_id import MESSAGE_ID_CHARS, InvalidMessageIdError, MessageId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PARSED_SCHEMA", "given_ids", "halves_of_texts", "parsed_batches", "parsed_ids", "read_ids"]

PARSED_SCHEMA: Final = "id_high long, id_low long, malformed string"
"""Parsed identifiers: two longs, or the reason why not."""

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BAD: Final = 255
_LONGS: Final = ("id_high", "id_low")
_TEXT: Final = "message_id"
_DETAILS_MAX: Final = 100
"""How many malformed texts of one batch get a full reason."""


def _digits() -> npt.NDArray[np.uint8]:
    table = np.full(256, _BAD, dtype=np.uint8)
    for digit, char in enumerate(_ALPHABET):
        table[[ord(char), ord(char.lower())]] = digit
    # Characters that people mistake when copying.
    table[[ord(char) for char in "IiLl"]] = 1
    table[[ord(char) for char in "Oo"]] = 0
    return table


_DIGITS: Final = _digits()


def read_ids(spark: SparkSession, source: str, lake: str) -> DataFrame:
    """Read identifiers from a source: a lake table by name, or a file (Parquet, CSV, or text with one per line)."""
    from penstock.pipeline.lake import read_table

    if any(source == table.name for table in TABLES):
        return _columns_of(read_table(spark, lake, source), f"table {source!r}")
    path = Path(source)
    if not path.exists():
        names = ", ".join(table.name for table in TABLES)
        raise MisuseError(f"no ids at {source!r}: it is neither a file nor a table of the lake ({names})")
    location = str(path.absolute())
    if path.is_dir() or path.suffix == ".parquet":
        return _columns_of(spark.read.parquet(location), f"file {source!r}")
    if path.suffix == ".csv":
        return _columns_of(spark.read.option("header", "true").csv(location), f"file {source!r}")
    lines = spark.read.text(location).selectExpr(f"trim(value) AS {_TEXT}")
    return parsed_ids(lines.where(f"{_TEXT} <> '' AND {_TEXT} NOT LIKE '#%'"))


def given_ids(spark: SparkSession, texts: Sequence[str]) -> DataFrame:
    """Parse identifiers that were given one by one."""
    return parsed_ids(spark.createDataFrame([(text,) for text in texts], f"{_TEXT} string"))


def parsed_ids(frame: DataFrame) -> DataFrame:
    """Parse the texts in a column ``message_id`` into two longs each, or the reason why they are malformed."""
    return frame.select(_TEXT).mapInArrow(parsed_batches, PARSED_SCHEMA)


def parsed_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Parse the identifiers of Arrow batches, in a task."""
    import pyarrow as pa

    for batch in batches:
        high, low, bad = halves_of_texts(batch.column(0))
        columns = [pa.array(high.view(np.int64), mask=bad), pa.array(low.view(np.int64), mask=bad)]
        reasons: list[str | None] = [None] * len(bad)
        for count, place in enumerate(np.nonzero(bad)[0].tolist()):
            text = batch.column(0)[place].as_py()
            reasons[place] = _reason(text) if count < _DETAILS_MAX else f"{text!r} is no identifier"[:100]
        columns.append(pa.array(reasons, pa.string()))
        yield pa.RecordBatch.from_arrays(columns, names=[*_LONGS, "malformed"])


def halves_of_texts(texts: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Parse an Arrow column of texts into the halves of identifiers, and mark malformed ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(texts.cast(pa.string()), "")
    bad = pc.not_equal(pc.binary_length(filled), MESSAGE_ID_CHARS).to_numpy(zero_copy_only=False)
    placeholder = "0" * MESSAGE_ID_CHARS
    whole = pc.if_else(pa.array(bad), placeholder, filled)
    chars = np.frombuffer("".join(whole.to_pylist()).encode("utf-8", "replace"), dtype=np.uint8)
    if len(chars) != len(bad) * MESSAGE_ID_CHARS:
        # Some contain multi-byte characters.
        is_plain = np.array([text.isascii() for text in whole.to_pylist()])
        bad = bad | ~is_plain
        whole = pc.if_else(pa.array(bad), placeholder, filled)
        chars = np.frombuffer("".join(whole.to_pylist()).encode(), dtype=np.uint8)
    digits = _DIGITS[chars.reshape(-1, MESSAGE_ID_CHARS)]
    bad = bad | (digits == _BAD).any(axis=1) | (digits[:, 0] > 7)
    return (*_joined(np.where(bad[:, None], np.uint8(0), digits)), bad)


def _joined(digits: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Join 26 digits of five bits into two 64-bit halves: the fourteenth digit has one bit in the upper half."""
    columns = digits.T.astype(np.uint64)
    high, low = columns[13] >> np.uint64(4), (columns[13] & np.uint64(15)) << np.uint64(60)
    for place in range(13):
        high |= columns[place] << np.uint64(5 * (12 - place) + 1)
    for place in range(14, MESSAGE_ID_CHARS):
        low |= columns[place] << np.uint64(5 * (25 - place))
    return high, low


def _columns_of(frame: DataFrame, what: str) -> DataFrame:
    if set(_LONGS) <= set(frame.columns):
        longs = frame.selectExpr(*(f"CAST({name} AS long) AS {name}" for name in _LONGS))
        none = "CASE WHEN id_high IS NULL OR id_low IS NULL THEN 'an id without both of its halves' END AS malformed"
        return longs.selectExpr(*_LONGS, none)
    if _TEXT in frame.columns:
        return parsed_ids(frame.selectExpr(f"CAST({_TEXT} AS string) AS {_TEXT}"))
    raise MisuseError(f"{what} has no column message_id, nor id_high and id_low; it has {', '.join(frame.columns)}")


def _reason(text: str | None) -> str:
    try:
        MessageId.parse(text or "")
    except InvalidMessageIdError as error:
        return str(error)
    return f"{text!r} is no identifier"
