"""Writes and reads a job's results for people: a folder of Parquet files and a summary, replaced as a whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.model.errors import MisuseError
from penstock.pipeline.lake.errors import LakeError

__all__ = ["read_folder_json", "read_folder_table", "write_folder"]


def write_folder(folder: Path, tables: Mapping[str, Mapping[str, Sequence[Any]]], texts: Mapping[str, str]) -> Path:
    """Write tables as ``NAME.parquet`` and texts under their names; replaces an earlier folder only when complete."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    try:
        fresh.mkdir(parents=True)
        for name, columns in tables.items():
            pq.write_table(pa.table(dict(columns)), fresh / f"{name}.parquet", compression="zstd")
        for name, text in texts.items():
            (fresh / name).write_text(text + "\n", encoding="utf-8")
        _replace(fresh, folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise MisuseError(f"cannot write {folder}: {error.strerror or error}") from None
    return folder


def read_folder_table(folder: Path, name: str) -> dict[str, list[Any]]:
    """Read a table's columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    try:
        columns: dict[str, list[Any]] = pq.read_table(path).to_pydict()
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    return columns


def read_folder_json(folder: Path, name: str, what: str) -> dict[str, Any]:
    """Read a summary as it was written."""
    path = folder / name
    try:
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict)
    except FileNotFoundError:
        raise MisuseError(f"there is no {what} in {folder}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise LakeError(f"cannot read {path}: {error}") from None
    return found


def _replace(fresh: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.replace(old)
    fresh.replace(folder)
    shutil.rmtree(old, ignore_errors=True)
