"""What a store's thread counts, for status and metrics; the event loop reads it without asking the thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from penstock.broker.durable import Append
from penstock.broker.effects import Commit

__all__ = ["StoreFigures"]


@dataclass(slots=True)
class StoreFigures:
    """Written by one thread, each number by itself: a reader may see one that is newer than its neighbour."""

    commits: int = 0
    syncs: int = 0
    """Groups of commits that became durable together."""
    messages: int = 0
    """Messages in them."""
    reads: int = 0
    last_sync_ms: float = 0.0
    """How long the last group took, from its first write to the end of its sync."""
    full_reason: str = ""
    """Why commits wait for space; empty if they do not."""
    file_bytes: int = 0
    damaged_records: int = 0
    """Records of the logs that a read met and could not read."""
    damaged_kept: int = 0
    """Kept records that a start or a read met and could not read."""
    kept_put_aside: int = 0
    """1 if the kept records of earlier lives had to be put aside when the store was opened, else 0."""

    def count(self, group: Sequence[Commit], *, sync_ms: float) -> None:
        """A group is durable."""
        self.commits += len(group)
        self.syncs += 1
        self.messages += sum(
            len(each.messages) for commit in group for each in commit.changes if isinstance(each, Append)
        )
        self.last_sync_ms = sync_ms

    def as_dict(self) -> dict[str, int | float | str]:
        """All of them by name, and what follows from them."""
        per_sync = self.messages / self.syncs if self.syncs else 0.0
        return asdict(self) | {"full": int(bool(self.full_reason)), "messages_per_sync": round(per_sync, 3)}
