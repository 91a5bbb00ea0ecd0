"""Opening stores, and reading them to the end."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.live.store import Append, LogStore
from penstock.live.store.database import FILE_NAME
from penstock.model.tick import TICK_MAX, Tick

Messages = list[tuple[Tick, bytes]]


@contextmanager
def opened(path: Path, *, bytes_max: int | None = None, reserve_bytes: int = 0) -> Iterator[LogStore]:
    with closing(
        LogStore.open(path, overlay="o", broker="b1", bytes_max=bytes_max, reserve_bytes=reserve_bytes)
    ) as store:
        yield store


def numbered(first: int, last: int, *, size: int = 10) -> Messages:
    return [(Tick(tick), bytes([tick % 256]) * size) for tick in range(first, last + 1)]


def append(store: LogStore, first: int, last: int, *, pubend: str = "p", size: int = 10) -> Messages:
    messages = numbered(first, last, size=size)
    store.commit([Append(pubend, messages)])
    return messages


def everything(store: LogStore, pubend: str = "p", *, bytes_max: int = 1_000) -> Messages:
    messages: Messages = []
    first = Tick(0)
    while part := store.read(pubend, first, TICK_MAX, bytes_max=bytes_max):
        messages += part
        first = Tick(part[-1][0] + 1)
    return messages


def sequences(store: LogStore, pubend: str = "p") -> dict[bytes, int]:
    """The remembered sequence numbers of a pubend's publishers."""
    found = store.recovered().pubends.get(pubend)
    return dict(found.sequences) if found is not None else {}


def ticks_of(messages: Messages) -> list[int]:
    return [tick for tick, _ in messages]


def contents(path: Path) -> dict[str, bytes]:
    """The files in a folder."""
    return {each.name: each.read_bytes() for each in sorted(path.iterdir())}


DAMAGED_VALUES = "UPDATE named SET stored=CAST(substr(stored, 1, 4) || x'00' AS BLOB)"
"""A statement that leaves the seals of all named values, but none of the values."""


def break_table(path: Path, table: str) -> None:
    """Overwrite the page at the top of a table of a closed store."""
    with closing(sqlite3.connect(path / FILE_NAME)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name=?", (table,)).fetchone()
    with (path / FILE_NAME).open("r+b") as file:
        file.seek((page - 1) * 4_096)
        file.write(b"\xff" * 4_096)


def tamper(path: Path, statement: str, *parameters: object) -> None:
    """Change a closed store behind its back."""
    with closing(sqlite3.connect(path / FILE_NAME, isolation_level=None)) as database:
        database.execute(statement, parameters)
