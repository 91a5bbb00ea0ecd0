"""Makes pyarrow schemas from the declared tables of the lake, for brokers that ship and for jobs alike.

pyarrow comes with the extra ``spark``; only a broker that has a lake needs it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from penstock.live.errors import ConfigError
from penstock.model.lake_tables import Kind, LakeTable

__all__ = ["arrow_schema", "require_pyarrow"]


def require_pyarrow(who: str) -> None:
    """Raises ``ConfigError`` if pyarrow, which a lake needs, is missing."""
    if find_spec("pyarrow") is None:
        raise ConfigError(
            f"{who} ships to a lake ([ship] lake), which needs pyarrow; install penstock[spark], or take lake out"
        )


def arrow_schema(table: LakeTable) -> Any:
    """The schema of a table's files, with their metadata."""
    import pyarrow as pa

    fields = [pa.field(column.name, _arrow_type(column.kind)) for column in table.columns]
    return pa.schema(fields, metadata=table.file_metadata())


def _arrow_type(kind: Kind) -> Any:
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "bytes": pa.binary(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "truth": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "texts": pa.map_(pa.string(), pa.string()),
        "integers": pa.map_(pa.string(), pa.int64()),
    }
    return types[kind]
