"""Counts the packets of an epoch by group and sender, for shells that see them one by one ([Ajil] section 3.1).

The simulator has arrays to begin with; real sockets and brokers bring one packet or one batch at a time. At the end of
the epoch the tally builds the arrays that a node needs, and its report. Bounded: senders of a group beyond the bound
are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from penstock.ajil.amounts import Floats, Indices
from penstock.ajil.messages import TOP_SENDERS_MAX, Entry, Report
from penstock.ajil.node import AjilNode
from penstock.ajil.observation import Observation

__all__ = ["OTHERS", "SENDERS_MAX", "Tally"]

SENDERS_MAX: Final = 1_000
"""Senders of one group that are counted separately."""
OTHERS: Final = "(others)"
"""The sender that counts for all beyond the bound."""


class Tally:
    """The traffic in the groups of one node, in the current epoch."""

    def __init__(self, node: AjilNode, *, shares: bool = False) -> None:
        self._node, self._shares = node, shares
        self._counts: dict[str, dict[str, list[float]]] = {}
        self._wanted: dict[int, list[float]] = {}
        self._quiet: dict[str, int] = {}

    def join(self, group: str) -> None:
        """Starts counting a group, if it is not counted yet."""
        self._counts.setdefault(group, {})
        self._quiet.setdefault(group, 0)

    def leave(self, group: str) -> None:
        """Stops counting a group."""
        self._counts.pop(group, None)
        self._quiet.pop(group, None)

    @property
    def groups(self) -> list[str]:
        """The groups that are counted."""
        return list(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, group: str) -> bool:
        return group in self._counts

    def forget(self, place: int) -> None:
        """Drops what a closed channel wanted to send."""
        self._wanted.pop(place, None)

    def sent(self, group: str, sender: str, size: float, packets: float = 1) -> None:
        """Counts traffic of a sender in a group."""
        senders = self._counts.get(group)
        if senders is None:
            return
        if sender not in senders and len(senders) >= SENDERS_MAX:
            sender = OTHERS
        counts = senders.setdefault(sender, [0.0, 0.0])
        counts[0] += size
        counts[1] += packets

    def wanted(self, place: int, size: int, packets: int = 1) -> None:
        """Counts what a channel of this node wanted to send, whether it may or not."""
        counts = self._wanted.setdefault(place, [0.0, 0.0])
        counts[0] += size
        counts[1] += packets

    def round_off(self, place: int, size: float, packets: float) -> None:
        """Corrects a slowed channel's count to its average: in whole packets it sends now one more, now one less."""
        channel = self._node.channels[place]
        assert channel is not None
        counts = self._counts.get(channel.group, {}).get(channel.sender, [0.0, 0.0])
        if size or packets:
            self.sent(channel.group, channel.sender, max(size, -counts[0]), max(packets, -counts[1]))

    def scale(self, factor: float, *, held: Iterable[int] = (), part: float = 1.0) -> None:
        """Scales all counts to the nominal length of an epoch, as this one was longer or shorter.

        Channels that are held have a backlog: they have sent what this part of a quota allows, and no more if the epoch
        was longer.
        """
        paced = {(each.group, each.sender) for place in held if (each := self._node.channels[place]) is not None}
        for group, senders in self._counts.items():
            for sender, counts in senders.items():
                by = 1 / part if (group, sender) in paced else factor
                counts[0] *= by
                counts[1] *= by
        for counts in self._wanted.values():
            counts[0] *= factor
            counts[1] *= factor

    def quiet_epochs(self, group: str) -> int:
        """For how many epochs nobody has sent anything in a group."""
        return self._quiet[group]

    def observation(self, waiting: Iterable[int] | None = None) -> Observation:
        """The epoch as arrays; ``waiting``: the channels with a backlog, None if traffic over a quota is dropped."""
        node, groups = self._node, self.groups
        monitor = node.monitor
        rows = np.array([monitor.row(each, node.name) for each in groups], dtype=np.int64)
        amounts = np.array([self._total(each) for each in groups]).reshape(len(groups), 2).T
        members = np.array([1 if self._shares else max(len(self._counts[each]), 1) for each in groups], dtype=float)
        channels = len(node.channels)
        sent, ranks, sizes = np.zeros((2, channels)), np.full((2, channels), np.inf), np.ones(channels)
        by_group: dict[str, list[int]] = {}
        for place, channel in enumerate(node.channels):
            if channel is not None:
                by_group.setdefault(channel.group, []).append(place)
        for group, places in by_group.items():
            self._rank(group, places, sent, ranks, sizes)
        wanted = np.zeros((2, channels))
        for place, counts in self._wanted.items():
            wanted[:, place] = counts
        marked = None
        if waiting is not None:
            marked = np.zeros(channels, dtype=bool)
            marked[list(waiting)] = True
        return Observation(rows, amounts, members, sent, ranks, sizes, np.maximum(wanted, sent), marked)

    def _rank(self, group: str, places: list[int], sent: Floats, ranks: Floats, sizes: Floats) -> None:
        """Ranks this node's channels in a group among all its known senders."""
        node, counts = self._node, self._counts.get(group, {})
        known = [(name, amounts[0], amounts[1]) for name, amounts in counts.items()]
        size = len(counts)
        if self._shares:
            senders, top = node.monitor.others(group, node.name)
            known += top
            size += senders
        for unit in (0, 1):
            # Equal rates are ranked by name, so that nodes agree.
            order = sorted(known, key=lambda each: (-(each[2] if unit else each[1]), each[0]))
            rank_of = {name: rank for rank, (name, *_) in enumerate(order, start=1)}
            for place in places:
                channel = node.channels[place]
                assert channel is not None
                ranks[unit, place] = rank_of.get(channel.sender, len(order) + 1)
                sent[unit, place] = counts.get(channel.sender, (0.0, 0.0))[unit]
        sizes[places] = max(size, 1)

    def report(self, reported: Indices) -> Report | None:
        """The report on the chosen groups; None if there are none."""
        groups = self.groups
        entries = tuple(self._entry(groups[place]) for place in reported.tolist())
        return Report(self._node.name, self._node.aup.version, entries) if entries else None

    def _entry(self, group: str) -> Entry:
        counts = self._counts[group]
        top = sorted(counts.items(), key=lambda each: (-each[1][0], each[0]))[:TOP_SENDERS_MAX]
        total = self._total(group)
        return Entry(group, total[0], total[1], len(counts), tuple((name, each[0], each[1]) for name, each in top))

    def clear(self) -> None:
        """Starts the next epoch."""
        for group, senders in self._counts.items():
            self._quiet[group] = 0 if senders else self._quiet[group] + 1
            self._counts[group] = {}
        self._wanted = {}

    def _total(self, group: str) -> tuple[float, float]:
        counts = self._counts[group].values()
        return sum(each[0] for each in counts), sum(each[1] for each in counts)

    def check_invariants(self) -> None:
        """Fails if the counts are not sound."""
        assert list(self._counts) == list(self._quiet), "counts and silences are of different groups"
