"""Compares the archive of ``archive-kill9`` with what should be in it, without using brokers or Spark.

It reads the files as anyone would: all Parquet files that are not hidden. Once the archive has ended normally, every
row counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import PUBLICATIONS

__all__ = ["ArchiveVerdict", "Publication", "archived_rows", "judge_archive", "read_archive"]

Publication = tuple[str, str]
"""A message identifier and its pubend."""

_MISSING: Final = "pyarrow is not installed; install it with: pip install 'penstock[spark]'"


@dataclass(slots=True, frozen=True)
class ArchiveVerdict:
    """How the archive differs from what was published."""

    archived: int
    lost: int
    """Acknowledged but not archived."""
    duplicated: int
    strange: int
    """Archived but never published to that pubend."""


def judge_archive(
    published: Mapping[str, Sequence[str]], acked: Mapping[str, int], rows: Sequence[Publication]
) -> ArchiveVerdict:
    """Compare rows with the messages published to each pubend; the first ``acked`` of each were acknowledged.

    >>> judge_archive({"q": ["a", "b", "c"]}, {"q": 2}, [("a", "q"), ("a", "q"), ("x", "q")])
    ArchiveVerdict(archived=3, lost=1, duplicated=1, strange=1)
    """
    found = Counter(rows)
    known = {(each, pubend) for pubend, messages in published.items() for each in messages}
    wanted = [(each, pubend) for pubend, messages in published.items() for each in messages[: acked[pubend]]]
    return ArchiveVerdict(
        archived=len(rows),
        lost=sum(each not in found for each in wanted),
        duplicated=len(rows) - len(found),
        strange=sum(count for each, count in found.items() if each not in known),
    )


def read_archive(lake: Path) -> list[Publication]:
    """Read every row of the archive."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MisuseError(_MISSING) from None
    rows: list[Publication] = []
    for path in _files(lake):
        pubend = path.parent.name.partition("=")[2]
        rows += [(each, pubend) for each in pq.ParquetFile(path).read(["message_id"]).column(0).to_pylist()]
    return rows


def archived_rows(lake: Path, known: dict[Path, int]) -> int:
    """Estimate the current number of rows while files come and go; ``known`` caches the counts per file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    for path in _files(lake):
        if path not in known:
            try:
                known[path] = pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowInvalid):
                continue
        total += known[path]
    return total


def _files(lake: Path) -> list[Path]:
    return sorted((lake / PUBLICATIONS.name).glob("date=*/pubend=*/[!._]*.parquet"))
