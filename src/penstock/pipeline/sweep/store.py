"""Saves the results of a sweep, so that an interrupted one can resume.

A folder holds one sweep: ``sweep.json`` identifies it, ``parts`` has a Parquet file per batch of finished runs, and
``results.parquet`` is the table of all once the sweep has ended. The table is tidy: a row per run and metric, with the
columns ``experiment``, one for each parameter, ``seed``, ``metric`` and ``value``. Files are written atomically.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from penstock.lab.frame.parameters import ParameterValue
from penstock.model.errors import PeerError
from penstock.pipeline.errors import SweepError
from penstock.pipeline.sweep.plan import Run, SweepPlan
from penstock.pipeline.sweep.tasks import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SweepStore"]

_OWN_COLUMNS: Final = ("experiment", "seed", "metric", "value")
_UNFINISHED: Final = ".tmp"


class SweepStore:
    """The folder of one sweep."""

    def __init__(self, folder: Path, plan: SweepPlan) -> None:
        self.folder, self._plan = folder, plan
        self._parts = folder / "parts"
        self._columns = {name: _column_name(name) for name in plan.cells[0]}
        self._places = {_key(cell): place for place, cell in enumerate(plan.cells)}
        self._found: dict[Run, dict[str, float]] = {}
        self._open()

    @property
    def found(self) -> Mapping[Run, Mapping[str, float]]:
        """Measurements of finished runs, including those of earlier invocations, which may have had other seeds."""
        return self._found

    @property
    def results(self) -> Path:
        """The path of the table of all results."""
        return self.folder / "results.parquet"

    def keep(self, outcomes: Iterable[Outcome]) -> None:
        """Save the finished runs; failed ones are repeated next time."""
        fresh = {
            each.run: dict(each.measured) for each in outcomes if each.failure is None and each.run not in self._found
        }
        if fresh:
            self._write(self._parts / f"{uuid4().hex}.parquet", fresh)
            self._found |= fresh

    def write_results(self) -> Path:
        """Write the table of all runs of the plan, ordered by cell and seed, and merge the parts into one."""
        self._write(self.results, {run: self._found[run] for run in self._plan.runs if run in self._found})
        small = self._part_files()
        if len(small) > 1:
            self._write(self._parts / f"{uuid4().hex}.parquet", self._found)
            for part in small:
                part.unlink()
        return self.results

    def _part_files(self) -> list[Path]:
        return sorted(self._parts.glob("*.parquet"))

    def _open(self) -> None:
        identity = msgspec.json.format(msgspec.json.encode(self._plan.identity()), indent=2) + b"\n"
        try:
            self._parts.mkdir(parents=True, exist_ok=True)
            self._claim(self.folder / "sweep.json", identity)
            for leftover in self._parts.glob(f"*{_UNFINISHED}"):
                leftover.unlink()
        except OSError as error:
            raise SweepError(f"cannot keep the sweep in {self.folder}: {error.strerror}") from None
        for part in self._part_files():
            self._found |= dict(self._read(part))

    def _claim(self, file: Path, identity: bytes) -> None:
        if not file.exists():
            _write_whole(file, identity)
        elif file.read_bytes() != identity:
            raise SweepError(f"{self.folder} holds {_difference(file.read_bytes(), identity)}; choose another folder")

    def _write(self, path: Path, found: Mapping[Run, Mapping[str, float]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [(run, metric, value) for run, measured in found.items() for metric, value in measured.items()]
        cells = [self._plan.cells[run.cell] for run, _, _ in rows]
        arrays = [
            pa.array([self._plan.experiment.name] * len(rows), pa.string()),
            *(
                pa.array([cell[name] for cell in cells], _arrow_type(self._plan.cells[0][name]))
                for name in self._columns
            ),
            pa.array([run.seed for run, _, _ in rows], pa.int64()),
            pa.array([metric for _, metric, _ in rows], pa.string()),
            pa.array([value for _, _, value in rows], pa.float64()),
        ]
        names = ["experiment", *self._columns.values(), "seed", "metric", "value"]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(arrays, names), sink)
        try:
            _write_whole(path, sink.getvalue().to_pybytes())
        except OSError as error:
            raise PeerError(f"cannot write {path}: {error.strerror}") from None

    def _read(self, part: Path) -> Iterator[tuple[Run, dict[str, float]]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            rows = pq.read_table(part).to_pylist()
        except (pa.ArrowException, OSError):
            raise PeerError(f"{part} is no Parquet file; remove it, and its runs are made again") from None
        found: dict[Run, dict[str, float]] = {}
        for row in rows:
            place = self._places[_key({name: row[column] for name, column in self._columns.items()})]
            found.setdefault(Run(place, row["seed"]), {})[row["metric"]] = row["value"]
        yield from found.items()


def _column_name(parameter: str) -> str:
    return f"{parameter}_" if parameter in _OWN_COLUMNS else parameter


def _key(parameters: Mapping[str, ParameterValue]) -> tuple[ParameterValue, ...]:
    return tuple(parameters.values())


def _arrow_type(example: ParameterValue) -> pa.DataType:
    import pyarrow as pa

    return {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}[type(example)]


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: complete or not at all, however the process ends."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _difference(held: bytes, wanted: bytes) -> str:
    try:
        old, new = msgspec.json.decode(held, type=dict), msgspec.json.decode(wanted, type=dict)
    except msgspec.DecodeError:
        return "a sweep.json that cannot be read"
    for name in new:
        if old.get(name) != new[name]:
            before, after = (msgspec.json.encode(each).decode() for each in (old.get(name), new[name]))
            return f"another sweep: its {name} is {before}, not {after}"
    return "another sweep"
