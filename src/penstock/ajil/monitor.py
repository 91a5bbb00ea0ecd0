"""The monitor: keeps what a node knows of all groups' traffic, and decides when to report it ([Ajil] section 3.1).

Rates of a node's own groups are exact; those of other groups are the last reported ones, until they are replaced or
time out. There are two ways to report: on a whole group, by any of its members (multicast), or on one's own share of
it, where nobody sees the whole (the overlay); shares are summed.

Deviation: the probability of a report is proportional to a group's rate, so a group that falls silent would never be
reported on again, and all others would count it until it times out. Instead, it keeps the probability of its last
report until somebody has reported that it is silent.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.ajil.amounts import Floats, Indices, Unit
from penstock.ajil.groups import GroupIndex
from penstock.ajil.messages import Entry
from penstock.model.errors import LimitError

__all__ = ["ROWS_MAX", "Monitor"]

ROWS_MAX: Final = 200_000
"""Most rates that a monitor stores."""
_HEARD_MAX: Final = ROWS_MAX // 2
"""Most of these that may be shares reported by others; the rest is for what this node sees itself."""
_NEVER: Final = 2**62
"""The epoch of rows that were never heard of, or have timed out."""


class Monitor:
    """The table of one node: a row for each group, or for each share of one."""

    def __init__(self, groups: GroupIndex, *, shares: bool = False, smoothing: float = 1.0) -> None:
        self.groups = groups
        self.smoothing = smoothing
        self._shares = GroupIndex(ROWS_MAX) if shares else None
        self._amounts: Floats = np.zeros((2, 0))
        self._told: Floats = np.zeros(0)
        """Packets in the last report on each row, by any node."""
        self._heard: Indices = np.zeros(0, dtype=np.int64)
        self._oldest = -_NEVER
        """All rows that have not timed out were heard of in this epoch or later."""
        self._row_group: Indices = np.zeros(0, dtype=np.int64)
        self._senders: Floats = np.zeros(0)
        self._tops: dict[int, tuple[tuple[str, float, float], ...]] = {}
        self.ignored = 0
        """Reports on groups beyond the bound."""
        self._grow(len(groups))

    # --- rows

    def row(self, group: str, reporter: str = "") -> int:
        """The row of a group, or of a reporter's share of it; added if missing."""
        number = self.groups.number(group)
        row = number if self._shares is None else self._shares.number(f"{group}\0{reporter}")
        self._grow(row + 1)
        if self._shares is not None:
            self._row_group[row] = number
        return row

    def _grow(self, rows: int) -> None:
        have = len(self._heard)
        if rows <= have:
            return
        # Half more than needed, so that a growing table is seldom copied; unused rows count for nothing.
        more = rows - have + (rows // 2 if have else 0)
        self._amounts = np.concatenate([self._amounts, np.zeros((2, more))], axis=1)
        self._told = np.concatenate([self._told, np.zeros(more)])
        self._senders = np.concatenate([self._senders, np.zeros(more)])
        self._heard = np.concatenate([self._heard, np.full(more, _NEVER, dtype=np.int64)])
        fresh = np.arange(have, have + more) if self._shares is None else np.zeros(more, dtype=np.int64)
        self._row_group = np.concatenate([self._row_group, fresh])

    # --- observations and reports

    def observe(self, rows: Indices, amounts: Floats, *, epoch: int) -> None:
        """Stores the exact traffic that this node has seen itself in the epoch that ends."""
        self._store(rows, amounts, epoch)

    def hear(self, reporter: str, entry: Entry, *, epoch: int) -> None:
        """Takes another node's report on one group."""
        if self._shares is not None and len(self._shares) >= _HEARD_MAX:
            self.ignored += 1
            return
        try:
            row = self.row(entry.group, reporter)
        except LimitError:
            self.ignored += 1
            return
        self.hear_rows(np.array([row]), np.array([[entry.bytes], [entry.packets]]), epoch=epoch)
        self._senders[row] = entry.senders
        self._tops[row] = entry.top

    def hear_rows(self, rows: Indices, amounts: Floats, *, epoch: int) -> None:
        """Takes reports on several groups, as arrays."""
        self._store(rows, amounts, epoch)
        self._told[rows] = amounts[Unit.PACKETS]

    def tell(self, rows: Indices, packets: Floats) -> None:
        """Notes what this node has reported on some of its groups."""
        self._told[rows] = packets

    def _store(self, rows: Indices, amounts: Floats, epoch: int) -> None:
        if self.smoothing < 1:
            old = self._amounts[:, rows]
            # Silence is reported only once, so it applies at once instead of being smoothed.
            fresh = (self._heard[rows] == _NEVER) | (amounts[Unit.PACKETS] == 0)
            amounts = np.where(fresh, amounts, self.smoothing * amounts + (1 - self.smoothing) * old)
        # One row after the other: numpy is three times as fast as with both at once.
        for unit in (0, 1):
            self._amounts[unit][rows] = amounts[unit]
        self._heard[rows] = epoch

    def expire(self, epoch: int, timeout_epochs: int) -> None:
        """Counts groups as silent that nobody has reported on for this long."""
        if self._oldest >= epoch - timeout_epochs:
            return
        stale = self._heard < epoch - timeout_epochs
        # Whatever is heard from now on is no older than this epoch.
        self._oldest = int(self._heard[~stale].min(initial=epoch))
        if stale.any():
            self._amounts[:, stale] = 0
            self._senders[stale] = 0
            self._heard[stale] = _NEVER
            for row in np.flatnonzero(stale).tolist():
                self._tops.pop(row, None)

    # --- estimates

    def estimate(self, unit: Unit) -> float:
        """E: the traffic of all groups together, per epoch."""
        return float(self._amounts[unit].sum())

    def rates(self, unit: Unit) -> Floats:
        """Traffic per epoch, by group number."""
        if self._shares is None:
            return self._amounts[unit, : len(self.groups)]
        summed = np.bincount(self._row_group, weights=self._amounts[unit], minlength=len(self.groups))
        return summed.astype(np.float64, copy=False)

    def others(self, group: str, reporter: str) -> tuple[int, list[tuple[str, float, float]]]:
        """The senders in other nodes' shares of a group: how many there are, and the top ones."""
        number = self.groups.get(group)
        if number is None:
            return 0, []
        rows = np.flatnonzero((self._row_group == number) & (self._heard != _NEVER)).tolist()
        mine = None if self._shares is None else self._shares.get(f"{group}\0{reporter}")
        others = [row for row in rows if row != mine]
        top = [each for row in others for each in self._tops.get(row, ())]
        return int(sum(self._senders[others])), top

    def chances(self, rows: Indices, packets: Floats, members: Floats, report_fraction: float) -> Floats:
        """The probability with which a member reports on each of its groups."""
        worth = packets if packets.all() else np.where(packets > 0, packets, self._told[rows])
        return np.minimum(report_fraction * worth / members, 1.0)
