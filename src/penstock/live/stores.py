"""What a broker asks of its durable store, whichever it is: the law for all of them.

Two keep it: SQLite in a folder (``live.store``, the default) and PostgreSQL (``live.postgres``). A store is used by one
thread, the one that opened it (``live.store_worker``).

1. **One commit, one outcome.** All changes of a commit become durable together or not at all, by one sync. ``commit``
   returns when they are durable, as durable as the place promises (disk, or disk and standbys), and not before.
2. **In doubt is not done, and not failed.** If a store cannot know whether a commit happened, it finds out before
   ``commit`` returns or raises. It says why that takes long through the callback that it was opened with.
3. **Full means nothing was written.** ``StoreFullError`` says that the commit left no trace and may be repeated, maybe
   in other pieces. Changes that make room, or are small, succeed even then, as far as possible.
4. **Failed means over.** After any other error the store does nothing any more. Only opening it again, from what is
   durable, can tell what happened. A store that belongs to somebody else now (``StoreFencedError``) has failed.
5. **Order within a commit**: marks of lost ticks, then appends, then trims, then the rest in their order. What a commit
   may contain, and which changes break a rule, is in ``broker.durable``.
6. **No damage is silent.** A message, value or record that cannot be read is reported as damaged, never as absent.
   Ticks between two stored messages are silence only if the store knows that nothing else was there.
7. **A reader sees its own time.** Reads return what is durable now. A store that belongs to somebody else answers no
   read: what it finds may have been trimmed by the other, and must not look like silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from penstock.broker.durable import Change, Recovered
from penstock.live.store.backing_up import Between
from penstock.live.store.database import Recovery
from penstock.live.store.kept import KeptFound, KeptPart
from penstock.live.store.publishers import PublisherMark
from penstock.live.store.reading import LogPart
from penstock.model.tick import Tick

__all__ = ["COPYING", "MOVED", "BackedUp", "MovableStore", "OnWait", "Place", "Store"]

OnWait = Callable[[str], None]
"""Told, again and again, why a commit or a read takes long, maybe for ever; from the thread of the store.

If it raises, nobody waits for the outcome any more: the commit or read raises the same, and the store has failed.
"""


class Store(Protocol):
    """The durable data of one broker."""

    recovery: Recovery
    """What opening the store found and did."""
    kept_found: KeptFound
    """The kept records that the last ``recovered`` found."""

    @property
    def replicas(self) -> int:
        """How many other machines the last commit has reached before it was durable."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, all or none, as the law above says."""

    def recovered(self) -> Recovered:
        """All that a broker must know of its earlier run, without the messages; damaged values are empty."""

    def damaged_values(self) -> list[str]:
        """The names of values that cannot be read."""

    def read_part(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> LogPart:
        """Messages with these ticks in order, up to ``bytes_max`` of bodies but at least one, and how far they go."""

    def read_kept(self, names: Sequence[str], *, bytes_max: int) -> KeptPart:
        """Read kept records by name, up to ``bytes_max`` but at least one; None for a missing or damaged one."""

    def trimmed_below(self, pubend: str) -> Tick:
        """The tick below which messages were dropped."""

    def file_bytes(self) -> int:
        """Bytes that the store takes, as far as it can tell."""

    def close(self) -> None:
        """Close; committed changes stay, and others leave no trace."""


COPYING: Final = "copying"
"""A named value that is there while a copy is being written into a store: no broker may open it."""


MOVED: Final = "moved"
"""Named values that begin so name the pubends that were copied elsewhere, and are served from there."""


class MovableStore(Store, Protocol):
    """A store that can be copied to another place, with what only a copy needs."""

    def publishers(self, pubend: str) -> list[PublisherMark]:
        """All publishers that are remembered, in the order of their ticks."""


@runtime_checkable
class BackedUp(Protocol):
    """A store that can make a copy of itself while it is in use; databases have tools of their own for that."""

    def back_up(self, folder: Path, between: Between) -> None:
        """Copy the store into an empty folder; between slices the caller may commit and read, and the copy has that.

        Raises ``BackupError`` if the copy cannot be made. The copy is not synced.
        """


class Place(Protocol):
    """Where a broker's store is, and how to open it."""

    @property
    def broker(self) -> str:
        """Whose store it is."""

    @property
    def shown(self) -> str:
        """Where it is, for people; without secrets."""

    def open(self, on_wait: OnWait) -> Store:
        """Open or make the store; raises ``StoreRefusedError`` if that may not be, or is not possible."""
