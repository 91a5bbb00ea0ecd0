"""Reads stock quotes from CSV files, as publications of the quote workload (load balancing paper, experiments).

The header names the columns: ``date,symbol,open,high,low,close,volume`` in any order; further columns become further
attributes. Each row is given ``class='STOCK'`` unless the file has a column ``class`` of its own.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from penstock.model.limits import ATTRIBUTES_MAX, INTEGER_MAX, INTEGER_MIN, NAME_CHARS_MAX, STRING_CHARS_MAX
from penstock.model.values import RESERVED_PREFIX, AttributeValue
from penstock.sim.workloads.lines import InputFileError, open_binary, text_lines

__all__ = ["COLUMNS", "QuoteTable", "csv_records", "load_quotes", "looks_like_quotes"]

COLUMNS: Final = ("date", "symbol", "open", "high", "low", "close", "volume")
"""The columns every file of quotes has."""
_RECORD_LINES_MAX: Final = 1_000


def load_quotes(path: str | Path) -> list[dict[str, AttributeValue]]:
    """All quotes of a CSV file, plain or gzipped, in the order of the file."""
    name = str(path)
    with open_binary(path) as stream:
        records = csv_records(text_lines(stream, name), name)
        _, header = next(records, (1, ""))
        quotes = list(QuoteTable(header, name).read(records))
    if not quotes:
        raise InputFileError(f"{name}: no quotes in it, only a header")
    return quotes


def looks_like_quotes(line: str) -> bool:
    """Whether a line can only be the header of a file of quotes."""
    names = [name.strip().strip('"') for name in line.split(",")]
    return all(column in names for column in COLUMNS)


def csv_records(lines: Iterable[str], name: str) -> Iterator[tuple[int, str]]:
    """The records of a CSV file, unparsed, each with the number of its first line; blank lines are skipped.

    A quoted field may span lines; an odd number of quotation marks so far means that the record continues.
    """
    pending: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not pending and line.count('"') % 2 == 0:
            if line.strip():
                yield number, line
            continue
        pending.append(line)
        if len(pending) > 1 and line.count('"') % 2 == 1:
            yield number - len(pending) + 1, "".join(pending)
            pending = []
        elif len(pending) > _RECORD_LINES_MAX:
            break
    if pending:
        raise InputFileError(f"{name}, line {number - len(pending) + 1}: a quoted field that does not end")


class QuoteTable:
    """The columns of one file, and how each becomes an attribute."""

    def __init__(self, header: str, name: str) -> None:
        self._name = name
        self._columns = [column.strip() for column in _cells(header, name)]
        self._check_columns()
        self._converters = [_CONVERTERS.get(column, _guess) for column in self._columns]
        self._defaults: dict[str, AttributeValue] = {} if "class" in self._columns else {"class": "STOCK"}

    def read(self, records: Iterable[tuple[int, str]]) -> Iterator[dict[str, AttributeValue]]:
        """The attributes of each record."""
        line_number = 1

        def texts() -> Iterator[str]:
            nonlocal line_number
            for number, text in records:
                line_number = number
                yield text

        rows = csv.reader(texts())
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                raise InputFileError(f"{self._name}, line {line_number}: not CSV: {error}") from None
            yield self._attributes(cells, line_number)

    def _attributes(self, cells: list[str], line_number: int) -> dict[str, AttributeValue]:
        try:
            values = [convert(cell) for convert, cell in zip(self._converters, cells, strict=True)]
        except ValueError:
            raise self._explained(cells, line_number) from None
        return {**self._defaults, **dict(zip(self._columns, values, strict=True))}

    def _explained(self, cells: list[str], line_number: int) -> InputFileError:
        """The error of a row that failed; finds the bad cell only now, so that good rows are read fast."""
        where = f"{self._name}, line {line_number}"
        if len(cells) != len(self._columns):
            return InputFileError(f"{where}: {len(cells)} columns, but the header has {len(self._columns)}")
        for column, convert, cell in zip(self._columns, self._converters, cells, strict=True):
            try:
                convert(cell)
            except ValueError as error:
                return InputFileError(f"{where}, column {column}: {_shown(cell)} is {error.args[0]}")
        raise AssertionError("a row failed, but none of its cells")

    def _check_columns(self) -> None:
        if not any(self._columns):
            raise InputFileError(f"{self._name}: empty; expected a header with {','.join(COLUMNS)}")
        missing = [column for column in COLUMNS if column not in self._columns]
        if missing:
            raise InputFileError(f"{self._name}, line 1: no column {', '.join(missing)} in the header")
        if len(self._columns) >= ATTRIBUTES_MAX:
            raise InputFileError(f"{self._name}, line 1: more than {ATTRIBUTES_MAX - 1} columns")
        for column in self._columns:
            if not 0 < len(column) <= NAME_CHARS_MAX or column.startswith(RESERVED_PREFIX):
                raise InputFileError(f"{self._name}, line 1: {_shown(column)} cannot be the name of an attribute")
            if self._columns.count(column) > 1:
                raise InputFileError(f"{self._name}, line 1: column {column} occurs twice")


def _cells(header: str, name: str) -> list[str]:
    try:
        return next(csv.reader([header]), [])
    except csv.Error as error:
        raise InputFileError(f"{name}, line 1: not CSV: {error}") from None


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _price(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError("not a number") from None
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _volume(cell: str) -> int:
    try:
        value = int(cell)
    except ValueError:
        raise ValueError("not an integer") from None
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise ValueError("beyond 64 bits")
    return value


def _text(cell: str) -> str:
    if not cell:
        raise ValueError("empty")
    return _bounded(cell)


def _guess(cell: str) -> AttributeValue:
    """The value in a further column: nothing, an integer, a number, or else text."""
    if not cell:
        return None
    for convert in (_volume, _price):
        try:
            return convert(cell)
        except ValueError:
            continue
    return _bounded(cell)


def _bounded(cell: str) -> str:
    if len(cell) > STRING_CHARS_MAX:
        raise ValueError(f"longer than {STRING_CHARS_MAX:,} characters")
    return cell


_CONVERTERS: Final[dict[str, Callable[[str], AttributeValue]]] = {
    **dict.fromkeys(("open", "high", "low", "close"), _price),
    **dict.fromkeys(("date", "symbol"), _text),
    "volume": _volume,
}
