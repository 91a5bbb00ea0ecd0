"""Keeps the last values of what is trimmed: reads it, puts the newest of each key into the view, and only then trims.

A pubend with a view pays for its trims with reads: piece by piece, what is to go is read back from the log and folded
into the view. The named values that changed are in the same commit as the trim of that piece. So a crash leaves each
last value in the log, in the view or in both. When there is no space, trims and named values go ahead of waiting
commits, but always those of the same commits and in one write (``commit_queue``): the pair stays together then, too.

One piece is on its way at a time, for all pubends of the broker, until its values are durable: that bounds what is in
memory, what goes ahead on a full disk, and how much of the disk's time trims take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.durable import SetValue
from penstock.broker.effects import ReadLog
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.last_values import LastView, stale_values
from penstock.broker.pubend.log import PubendLog
from penstock.broker.settings import BrokerSettings
from penstock.broker.share import SHARE_EFFORT_MAX
from penstock.model.tick import TickRange
from penstock.protocol.status import LastValuesStatus

__all__ = ["FOLD_EFFORT", "Compaction"]

FOLD_EFFORT: Final = 20
"""The effort of folding a message, in the unit of ``selectors.effort``: decoding it, and replacing another one."""
_FIRST_NUMBER: Final = 1 << 60
"""Numbers of reads: far from those for subscribers, groups, and clients that read logs."""
_PIECE_BYTES_MAX: Final = 128 * 1024
_PIECE_BYTES_MIN: Final = 16 * 1024
_PIECE_EFFORT_MAX: Final = 2 * SHARE_EFFORT_MAX
"""With smaller pieces trims would mostly wait for syncs."""
_NOTE_MS: Final = 60_000
"""How often the log is told of messages that were dropped."""


class Compaction:
    """The views of one broker's pubends, and the trims that wait for them."""

    def __init__(
        self,
        settings: BrokerSettings,
        connections: Connections,
        logs: Mapping[str, PubendLog],
        finality: Finality,
        commits: Commits,
        values: Mapping[str, bytes],
    ) -> None:
        self._settings, self._connections, self._logs = settings, connections, logs
        self._finality, self._commits = finality, commits
        attributes = dict(settings.last_values)
        bounds = {"keys_max": settings.last_values_max, "bytes_max": settings.last_bytes_max}
        self.views: Final = {
            pubend: LastView(pubend, attribute, values, **bounds) for pubend, attribute in attributes.items()
        }
        """The views, by pubend."""
        self._stale = stale_values(values, settings.pubends, attributes)
        self._under_way: ReadLog | None = None
        self._last_read = _FIRST_NUMBER
        self._last_commit = self._durable = 0
        """The commit of the last piece, and the last one whose values are durable."""
        self._noted = dict.fromkeys(self.views, 0)
        self._note_ms = 0
        self.counts = {"last_values_kept": 0, "last_values_dropped": 0, "last_values_damaged": 0}

    def begin(self) -> None:
        """Continues with the views of the former life, and drops those that nobody wants any more.

        All at once, and before anything is trimmed: if part of a view stayed without being kept up to date, it would
        give old values should its setting come back.
        """
        for name in self._stale:
            self._commits.add(SetValue(name, None))
        if self._stale:
            self._connections.record("last-values-forgotten", count=len(self._stale))
        self._stale = []
        for view in self.views.values():
            if view.damaged:
                self.counts["last_values_damaged"] += view.damaged
                self._connections.record("last-values-damaged", pubend=view.pubend, count=view.damaged)
            self._keep_changes(view)

    def look(self, *, now_ms: int) -> None:
        """Drops what has expired, and says what was dropped for lack of room."""
        keys_max, bytes_max = self._settings.last_values_max, self._settings.last_bytes_max
        for view in self.views.values():
            view.expire(now_ms=now_ms)
            view.bound(keys_max=keys_max, bytes_max=bytes_max)
            self._keep_changes(view)
        if now_ms >= self._note_ms:
            for pubend, view in self.views.items():
                count = view.dropped - self._noted[pubend]
                if count:
                    self._note_ms = now_ms + _NOTE_MS
                    self._noted[pubend] = view.dropped
                    self._connections.record(
                        "last-values-dropped", pubend=pubend, key=view.attribute, count=count, kept=len(view)
                    )
        self.counts["last_values_dropped"] = sum(view.dropped for view in self.views.values())

    # --- pieces

    def on_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None, *, now_ms: int
    ) -> int | None:
        """Folds a piece that was read, and trims it; returns the effort, or None if the read was not ours."""
        read = self._under_way
        if read is None or number != read.number:
            return None
        self._under_way = None
        log, view = self._logs[read.pubend], self.views[read.pubend]
        assert read.first == log.trimmed_below, f"somebody else trimmed pubend {read.pubend}"
        end = min(last, read.last)
        if damaged is not None and damaged.first <= read.last:
            # It can never be read, so it is not worth keeping.
            end = min(damaged.last, read.last)
            self._connections.record("damaged-record", pubend=read.pubend, first=damaged.first, last=damaged.last)
        # A subscriber that is further behind may have come since the read began.
        below = min(end + 1, self._finality.wanted_below(read.pubend, now_ms=now_ms))
        if below <= log.trimmed_below:
            self._finality.put_off(read.pubend)
            return 0
        view.keep((each for each in messages if each[0] < below), now_ms=now_ms)
        self._keep_changes(view)
        for change in self._finality.trim(read.pubend, below, now_ms=now_ms):
            self._last_commit = self._commits.add(change)
        return FOLD_EFFORT * len(messages)

    def on_committed(self, number: int) -> None:
        """Commits up to this number are durable, or the values in them, with the trims that belong to them."""
        self._durable = max(number, self._durable)

    def take_effects(self) -> list[ReadLog]:
        """Returns the next read for the shell, if there is something to trim and nothing on its way."""
        if self._under_way is not None or self._last_commit > self._durable:
            return []
        waiting = self._finality.next_waiting()
        if waiting is None:
            return []
        pubend, below = waiting
        log = self._logs[pubend]
        self._last_read += 1
        size = min(_PIECE_BYTES_MAX, max(_PIECE_BYTES_MIN, int(log.mean_bytes) * _PIECE_EFFORT_MAX // FOLD_EFFORT))
        self._under_way = ReadLog(self._last_read, pubend, log.trimmed_below, below - 1, size)
        return [self._under_way]

    def _keep_changes(self, view: LastView) -> None:
        for change in view.take_changes():
            self.counts["last_values_kept"] += change.value is not None
            self._last_commit = self._commits.add(change)

    # --- figures

    def status(self, pubend: str) -> LastValuesStatus | None:
        """The figures of a pubend's view; None if it has none."""
        view = self.views.get(pubend)
        if view is None:
            return None
        return LastValuesStatus(view.attribute, len(view), view.size_bytes, view.dropped, view.damaged)

    def check_invariants(self) -> None:
        """Fails if a view contradicts itself."""
        for view in self.views.values():
            view.check_invariants()
