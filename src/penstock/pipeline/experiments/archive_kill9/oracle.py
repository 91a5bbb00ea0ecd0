"""What should be in the archive of ``archive-kill9``, known without brokers and Spark, and what is in it.

The files are read as anybody would read them: all Parquet files that are not hidden. When the archive has ended in
order, each row counts.
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
"""The identifier of a message, and the pubend it was published to."""

_MISSING: Final = "pyarrow is not installed; install it with: pip install 'penstock[spark]'"


@dataclass(slots=True, frozen=True)
class ArchiveVerdict:
    """How what is archived differs from what was published."""

    archived: int
    lost: int
    """Acknowledged, and not in the archive."""
    duplicated: int
    strange: int
    """In the archive, and never published, or not there."""


def judge_archive(
    published: Mapping[str, Sequence[str]], acked: Mapping[str, int], rows: Sequence[Publication]
) -> ArchiveVerdict:
    """Compare rows with what was published to each pubend, in order, so many of which were acknowledged.

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
    """Every row of the archive."""
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
    """About how many rows there are now, while files come and go; remembers in ``known`` what was looked into."""
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
