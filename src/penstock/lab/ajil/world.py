"""A simulated network of many Ajil nodes in randomly joined groups, under a changing load ([Ajil] section 5.1).

The nodes are the production ones, one object each; everything around them is arrays. An epoch has three parts: nodes
send what they want within their quotas, report on what they saw, and react once the reports have arrived. Reports can
get lost, independently at each receiver. Each channel's demand is its weight times the load, with some noise: real
applications do not send the same amount every second, and without noise nothing oscillates for long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np

from penstock.ajil import AjilNode, Aup, Channel, GroupIndex, Observation, ranks_within
from penstock.ajil.amounts import Floats, Indices

__all__ = ["AjilWorld", "Shape", "Tape"]


@dataclass(slots=True, frozen=True)
class Shape:
    """The size and properties of a network."""

    nodes: int = 100
    groups: int = 100
    members: int = 10
    """Members of a group, on average."""
    packet_bytes: int = 100
    noise: float = 0.1
    """Standard deviation of a channel's demand from epoch to epoch, as a share of its mean."""
    loss: float = 0.0
    """The share of reports that a receiver does not get."""


@dataclass(slots=True)
class Tape:
    """Traffic and reports of each epoch, seen from outside; traffic in bytes."""

    sent: list[float] = field(default_factory=list)
    wanted: list[float] = field(default_factory=list)
    reports: list[int] = field(default_factory=list)


class AjilWorld:
    """One simulated network."""

    def __init__(self, shape: Shape, aup: Aup, *, seed: int) -> None:
        self.shape, self.tape = shape, Tape()
        self._rng = np.random.default_rng(seed)
        groups, names = GroupIndex(), GroupIndex()
        for number in range(shape.groups):
            groups.number(f"group-{number}")
        for number in range(shape.nodes):
            names.number(f"node-{number}")
        self._join_groups()
        weights = self._rng.exponential(size=len(self.channel_group))
        self._weights = weights / weights.sum()
        draws = Random(seed)
        self.nodes = [
            AjilNode(name, aup, rng=Random(draws.getrandbits(64)), groups=groups, nodes=names) for name in names.names
        ]
        bounds = np.searchsorted(self._channel_node, np.arange(shape.nodes + 1))
        self._slices = [slice(int(first), int(last)) for first, last in pairwise(bounds)]
        for node, part in zip(self.nodes, self._slices, strict=True):
            for number in self.channel_group[part].tolist():
                node.open_channel(Channel(node.name, groups.names[number]))
        self.sent_by_channel: Floats = np.zeros(len(weights))
        self.wanted_by_channel: Floats = np.zeros(len(weights))
        self.node_seconds = 0.0
        """Processor time spent in nodes, in seconds."""

    def _join_groups(self) -> None:
        """Every node joins groups uniformly; every group has at least two members."""
        shape, rng = self.shape, self._rng
        sizes = np.maximum(rng.binomial(shape.nodes, shape.members / shape.nodes, size=shape.groups), 2)
        members = [rng.choice(shape.nodes, size=size, replace=False) for size in sizes.tolist()]
        nodes, groups = np.concatenate(members), np.repeat(np.arange(shape.groups), sizes)
        order = np.lexsort((groups, nodes))
        self._channel_node: Indices = nodes[order]
        self.channel_group: Indices = groups[order]
        self._sizes: Floats = sizes.astype(float)

    def forget_channels(self) -> None:
        """Reset the totals of all channels."""
        self.sent_by_channel[:] = 0
        self.wanted_by_channel[:] = 0

    def run(self, load_bytes: float) -> None:
        """Run one epoch, in which applications want to send ``load_bytes``."""
        wanted = self._weights * load_bytes
        if self.shape.noise:
            wanted = wanted * self._rng.gamma(self.shape.noise**-2, self.shape.noise**2, size=len(wanted))
        sent = self._within_quotas(wanted)
        totals = np.bincount(self.channel_group, weights=sent, minlength=self.shape.groups)
        amounts = np.array([totals, totals / self.shape.packet_bytes])
        seen = self._observations(sent, wanted, amounts)
        started = time.process_time()
        ends = [node.end_epoch(each) for node, each in zip(self.nodes, seen, strict=True)]
        self.node_seconds += time.process_time() - started
        reported = [each.rows[end.reported] for each, end in zip(seen, ends, strict=True)]
        demands = [end.demand for end in ends if end.demand is not None]
        if demands:
            self._announce(np.array([[each.bytes for each in demands], [each.packets for each in demands]]))
        self._react(np.unique(np.concatenate(reported)), amounts, seen)
        self.tape.sent.append(float(sent.sum()))
        self.tape.wanted.append(float(wanted.sum()))
        self.tape.reports.append(sum(map(len, reported)))
        self.sent_by_channel += sent
        self.wanted_by_channel += wanted

    def _within_quotas(self, wanted: Floats) -> Floats:
        quotas = np.concatenate([node.reactors[0].quota for node in self.nodes])
        sent: Floats = np.minimum(wanted, quotas)
        budgets = np.array([node.budgets[0] for node in self.nodes])
        if np.isfinite(budgets).any():
            by_node = np.bincount(self._channel_node, weights=sent, minlength=len(self.nodes))
            share = np.minimum(budgets / np.maximum(by_node, 1e-9), 1.0)
            sent = np.multiply(sent, share[self._channel_node])
        return sent

    def _observations(self, sent: Floats, wanted: Floats, amounts: Floats) -> list[Observation]:
        packets = self.shape.packet_bytes
        ranks = ranks_within(self.channel_group, sent)
        both_sent, both_wanted = np.array([sent, sent / packets]), np.array([wanted, wanted / packets])
        both_ranks = np.array([ranks, ranks])
        seen = []
        for part in self._slices:
            rows = self.channel_group[part]
            sizes = self._sizes[rows]
            seen.append(
                Observation(
                    rows, amounts[:, rows], sizes, both_sent[:, part], both_ranks[:, part], sizes, both_wanted[:, part]
                )
            )
        return seen

    def _announce(self, demands: Floats) -> None:
        everybody = np.arange(len(self.nodes))
        for number, node in enumerate(self.nodes):
            heard = everybody != number
            if self.shape.loss:
                heard &= self._rng.random(len(heard)) >= self.shape.loss
            node.hard.hear_many(everybody[heard], demands[:, heard], epoch=node.epoch)

    def _react(self, rows: Indices, amounts: Floats, seen: list[Observation]) -> None:
        heard, values = rows, amounts[:, rows]
        lost = self._rng.random((len(self.nodes), len(rows))) < self.shape.loss if self.shape.loss else None
        started = time.process_time()
        for number, (node, each) in enumerate(zip(self.nodes, seen, strict=True)):
            if lost is not None:
                heard, values = rows[~lost[number]], amounts[:, rows[~lost[number]]]
            if len(heard):
                node.monitor.hear_rows(heard, values, epoch=node.epoch)
            node.react(each)
        self.node_seconds += time.process_time() - started
