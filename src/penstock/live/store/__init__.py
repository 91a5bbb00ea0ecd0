"""The durable store of a broker: its pubends' logs, publishers' sequence numbers, named values and kept records.

``LogStore.open``, then ``commit`` and ``read``, all in one thread. Why SQLite: docs/decisions/0004-durable-store.md.
"""

from __future__ import annotations

from penstock.broker.durable import Append, Change, ForgetPublishers, KeepRecord, MarkLost, SetValue, Trim
from penstock.live.store.database import Recovery
from penstock.live.store.errors import (
    BackupError,
    ChangeRefusedError,
    CorruptError,
    CorruptRecordError,
    CorruptValueError,
    NotAStoreError,
    StoreDamagedError,
    StoreFailedError,
    StoreFencedError,
    StoreFullError,
    StoreLockedError,
    StoreOwnerError,
    StoreRefusedError,
    StoreVersionError,
)
from penstock.live.store.kept import KeptFound, KeptPart
from penstock.live.store.log import LogStore
from penstock.live.store.reading import LogPart

__all__ = [
    "Append",
    "BackupError",
    "Change",
    "ChangeRefusedError",
    "CorruptError",
    "CorruptRecordError",
    "CorruptValueError",
    "ForgetPublishers",
    "KeepRecord",
    "KeptFound",
    "KeptPart",
    "LogPart",
    "LogStore",
    "MarkLost",
    "NotAStoreError",
    "Recovery",
    "SetValue",
    "StoreDamagedError",
    "StoreFailedError",
    "StoreFencedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreOwnerError",
    "StoreRefusedError",
    "StoreVersionError",
    "Trim",
]
