"""The errors of a store that cannot be opened, read or written, or refuses a change.

PenstockError
├── MisuseError
│   ├── StoreRefusedError       the store cannot be opened, or not by this broker
│   │   ├── NotAStoreError      the file is not a store
│   │   ├── StoreDamagedError   acknowledged commits are missing or changed; says what to do
│   │   ├── StoreVersionError   another format version wrote it
│   │   ├── StoreOwnerError     it belongs to another overlay or broker: a copy, or a wrong path
│   │   └── StoreLockedError    a process has it open already
│   └── ChangeRefusedError      a change that breaks a rule; nothing of its commit was written
├── PeerError
│   └── CorruptError            stored bytes are not what was written
│       ├── CorruptRecordError  messages of a pubend; says which, and the rest can be read
│       └── CorruptValueError   a named value
├── BackupError                 a copy could not be made; the store itself is as it was
├── StoreFullError              there is no space: nothing of the commit was written, later ones may work
└── StoreFailedError            the disk failed: reopening the store tells what is durable
    ├── StoreFencedError        somebody else has taken the store over
    └── StoreLostError          acknowledged commits are not there any more
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.model.errors import MisuseError, PeerError, PenstockError
from penstock.model.tick import TickRange

__all__ = [
    "BackupError",
    "ChangeRefusedError",
    "CorruptError",
    "CorruptRecordError",
    "CorruptValueError",
    "NotAStoreError",
    "StoreDamagedError",
    "StoreFailedError",
    "StoreFencedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreLostError",
    "StoreOwnerError",
    "StoreRefusedError",
    "StoreVersionError",
]


class StoreRefusedError(MisuseError):
    """The store cannot be opened, or not by this broker."""


class NotAStoreError(StoreRefusedError):
    """The file is not a store, or too damaged to tell."""


class StoreDamagedError(StoreRefusedError):
    """Acknowledged commits are missing or changed, and the files were left as they are."""

    def __init__(self, folder: Path, problems: Sequence[str], *, can_be_salvaged: bool = True) -> None:
        remedy = "restore a copy"
        if can_be_salvaged:
            remedy += (
                f", or run 'penstock store salvage {folder}', which keeps what is whole and marks the rest as lost"
            )
        super().__init__(f"store {folder} is damaged, and was left as it is ({'; '.join(problems)}): {remedy}")
        self.problems = tuple(problems)


class StoreVersionError(StoreRefusedError):
    """Another format version wrote the store."""


class StoreOwnerError(StoreRefusedError):
    """The store belongs to another overlay or broker."""


class StoreLockedError(StoreRefusedError):
    """A process has the store open already."""


class ChangeRefusedError(MisuseError):
    """A change breaks a rule; nothing of its commit was written."""


class CorruptError(PeerError):
    """Stored bytes are not what was written."""


class CorruptRecordError(CorruptError):
    """Messages of a pubend cannot be read; those before and after them can."""

    def __init__(self, pubend: str, ticks: TickRange, message_count: int) -> None:
        count = f"{message_count:,} messages" if message_count else "an unknown number of messages"
        super().__init__(
            f"pubend {pubend!r}: the stored record of ticks {ticks.first} to {ticks.last} ({count}) is damaged"
        )
        self.pubend = pubend
        self.ticks = ticks
        self.message_count = message_count


class CorruptValueError(CorruptError):
    """A named value cannot be read."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the stored value {name!r} is damaged")
        self.name = name


class BackupError(PenstockError):
    """A copy of a store could not be made; the store itself is as it was."""


class StoreFullError(PenstockError):
    """There is no space for a commit: nothing of it was written."""


class StoreFailedError(PenstockError):
    """The disk failed, and it is unknown whether the last commit is durable: reopen the store."""


class StoreFencedError(StoreFailedError):
    """Somebody else has taken the store over: nothing of the last commit was written."""


class StoreLostError(StoreFailedError):
    """Acknowledged commits are not there any more; opening the store anew tells which messages they had."""
