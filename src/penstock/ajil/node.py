"""A node: a monitor and a reactor under an acceptable-use policy ([Ajil] section 3, pseudocode 1).

The same object runs in the simulator, between hosts over UDP multicast, and in brokers of the overlay. Its shell
counts traffic, delivers messages of the control channel, says when an epoch ends, and carries out what the node
answers: reports and announcements to broadcast, and quotas to enforce.

The node counts epochs itself: a clock step or a late shell makes one epoch shorter or longer, and nothing else. Beyond
the paper: priorities, the hard limit, and how a node that joins late learns the policy: every message carries the
version of its sender's policy, and a node that hears of an older one announces the newer. Which groups a node reports
on in an epoch (section 3.1) is drawn with few random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats, Indices, Unit
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.domain import top_channels, top_groups
from penstock.ajil.groups import GroupIndex
from penstock.ajil.hard import HardShares
from penstock.ajil.messages import ControlMessage, Demand, Policy, Report
from penstock.ajil.monitor import Monitor
from penstock.ajil.observation import Observation
from penstock.ajil.reactor import Reactor
from penstock.model.ports import Rng

__all__ = ["AjilNode", "Channel", "EpochEnd", "Slowed", "drawn"]

_UNITS: Final = tuple(Unit)
_EXEMPT_SCALE: Final = 0.25
"""The share of a cut that exempt groups suffer when together they are too large to be exempt."""
_EAGER: Final = 3.0
"""How many of the nodes that hear of an older policy announce theirs at the end of the epoch, on average."""
_NODES_EPOCHS: Final = 20
"""A node that said nothing for this many epochs no longer counts."""


@dataclass(slots=True, frozen=True)
class Channel:
    """One sender in one group."""

    sender: str
    group: str


@dataclass(slots=True, frozen=True)
class Slowed:
    """A channel that is slowed down, for display."""

    channel: Channel
    unit: Unit
    quota_s: float
    """Per second."""
    multiplier: float


@dataclass(slots=True, frozen=True)
class EpochEnd:
    """What a node does at the end of an epoch."""

    reported: Indices
    """The groups to report on, as places in the observation."""
    demand: Demand | None = None
    """To be broadcast, under a hard limit."""
    policy: Policy | None = None
    """To be broadcast, so that others learn the policy."""


class AjilNode:
    """Decides for one node what it may send, and what it tells others."""

    def __init__(
        self,
        name: str,
        aup: Aup = UNLIMITED,
        *,
        rng: Rng,
        groups: GroupIndex | None = None,
        nodes: GroupIndex | None = None,
        shares: bool = False,
    ) -> None:
        self.name, self._rng = name, rng
        self.aup = aup
        self.epoch = 0
        self.monitor = Monitor(groups or GroupIndex(), shares=shares, smoothing=aup.smoothing)
        self.hard = HardShares(nodes or GroupIndex(), name)
        self.channels: list[Channel | None] = []
        """By place; None where a channel was closed."""
        self._free: list[int] = []
        self._channel_group: Indices = np.zeros(0, dtype=np.int64)
        self.reactors = (Reactor(), Reactor())
        """By unit."""
        self.budgets = self._first_budgets()
        """By unit: how much all channels of the node together may send in this epoch."""
        self.estimates = np.zeros(2)
        """By unit: E at the end of the last epoch."""
        self._heard_nodes: dict[str, int] = {}
        self._owes_policy = False
        self._scale_cache: Floats | None = None
        self._least = [0.0, 0.0]
        """By unit: the lowest rate among the top groups, when last computed."""

    # --- channels

    def open_channel(self, channel: Channel) -> int:
        """Opens a channel; returns its place in all arrays."""
        number = self.monitor.groups.number(channel.group)
        if self._free:
            place = self._free.pop()
            self.channels[place] = channel
        else:
            place = len(self.channels)
            self.channels.append(channel)
            for reactor in self.reactors:
                reactor.resize(len(self.channels))
            self._channel_group = np.append(self._channel_group, 0)
        self._channel_group[place] = number
        return place

    def close_channel(self, place: int) -> None:
        """Closes a channel; its place may be reused."""
        assert self.channels[place] is not None
        self.channels[place] = None
        self._free.append(place)
        for reactor in self.reactors:
            reactor.release(place)

    def quota(self, place: int, unit: Unit) -> float:
        """How much a channel may send in an epoch; infinite if it is not slowed down."""
        return float(self.reactors[unit].quota[place])

    # --- the control channel

    def hear(self, message: ControlMessage) -> bool:
        """Handles a message of the control channel; returns whether the policy has changed."""
        if message.node == self.name:
            return False
        self._heard_nodes[message.node] = self.epoch
        if isinstance(message, Policy):
            return self.adopt(message.aup)
        if message.version < self.aup.version:
            self._owes_policy = True
        if isinstance(message, Report):
            for entry in message.entries:
                self.monitor.hear(message.node, entry, epoch=self.epoch)
        else:
            demand = np.array([message.bytes, message.packets])
            self.hard.hear(message.node, message.serial, demand, epoch=self.epoch)
        return False

    def adopt(self, aup: Aup) -> bool:
        """Puts a policy into force if it is newer than the present one; returns whether it was."""
        if aup.order <= self.aup.order:
            if aup.order == self.aup.order:
                # Somebody else has just announced it.
                self._owes_policy = False
            else:
                self._owes_policy = True
            return False
        old, self.aup = self.aup, aup
        self.monitor.smoothing = aup.smoothing
        self._scale_cache = None
        # A node that has just learned a policy passes it on: few may have heard its announcer.
        self._owes_policy = True
        for unit in _UNITS:
            if aup.limit(unit) is None or aup.mode != old.mode:
                self.reactors[unit].clear()
        if aup.epoch_ms != old.epoch_ms:
            for reactor in self.reactors:
                reactor.clear()
        if aup.mode != "hard" or old.mode != "hard":
            self.budgets = self._first_budgets()
        return True

    def _first_budgets(self) -> Floats:
        """The budgets at the start: under a hard limit, a node sends nothing until others know its demand."""
        is_shared = [self.aup.mode == "hard" and self.aup.limit(unit) is not None for unit in _UNITS]
        return np.where(is_shared, 0.0, np.inf)

    # --- the end of an epoch

    def end_epoch(self, seen: Observation) -> EpochEnd:
        """Ends an epoch: stores what was seen in it, and decides what to tell others."""
        self.epoch += 1
        self.monitor.observe(seen.rows, seen.amounts, epoch=self.epoch)
        demand = self._announce(seen) if self.aup.mode == "hard" else None
        chosen = self._chosen(seen)
        if len(chosen):
            self.monitor.tell(seen.rows[chosen], seen.amounts[Unit.PACKETS, chosen])
        return EpochEnd(chosen, demand, self._policy_to_announce())

    def react(self, seen: Observation) -> None:
        """Adapts the quotas, once others' reports on the same epoch have had time to arrive."""
        self.monitor.expire(self.epoch, self.aup.timeout_epochs)
        if self.aup.mode == "hard":
            self._share_out()
            return
        # Channels that were opened since then have sent nothing in that epoch.
        seen.fit(len(self.channels))
        for unit in _UNITS:
            self._react(unit, seen)

    def _react(self, unit: Unit, seen: Observation) -> None:
        limit = self.aup.limit(unit)
        if limit is None:
            return
        estimate = self.monitor.estimate(unit)
        self.estimates[unit] = estimate
        reactor = self.reactors[unit]
        if estimate <= limit:
            reactor.rise(estimate=estimate, limit=limit, waiting=seen.waiting)
        elif len(self.channels):
            hit, scale = self._domain(unit, seen, limit)
            policy = self.aup.slowdown_policy(unit)
            sent, waiting = seen.sent[unit], seen.waiting
            reactor.cut(hit, sent, scale, policy, estimate=estimate, limit=limit, waiting=waiting)

    def _domain(self, unit: Unit, seen: Observation, limit: float) -> tuple[NDArray[np.bool_], Floats | None]:
        """Which channels are in the reaction domain, and the share of a cut that each suffers; None for all of it."""
        rates, groups = self.monitor.rates(unit), self._channel_group
        hit = top_channels(seen.ranks[unit], seen.sizes, self.aup.beta)
        scale: Floats | None = None
        if self.aup.priorities:
            scales = self._scales()
            exempt = scales == 0
            if rates[exempt].sum() > self.aup.exempt_max * limit:
                scales = np.where(exempt, _EXEMPT_SCALE, scales)
            else:
                # Exempt groups take nobody's place in the domain.
                rates = np.where(exempt, 0.0, rates)
            scale = scales[groups]
        names = self.monitor.groups.names
        top, self._least[unit] = top_groups(rates, groups, self.aup.alpha, names, near=self._least[unit])
        return hit & top, scale

    def _scales(self) -> Floats:
        """The share of a cut that each group suffers, by group number."""
        names = self.monitor.groups.names
        if self._scale_cache is None or len(self._scale_cache) != len(names):
            self._scale_cache = np.array([self.aup.priorities.get(each, 1.0) for each in names])
        return self._scale_cache

    def _announce(self, seen: Observation) -> Demand:
        serial, demand = self.hard.announce(seen.wanted.sum(axis=1), epoch=self.epoch)
        return Demand(self.name, self.aup.version, serial, float(demand[0]), float(demand[1]))

    def _share_out(self) -> None:
        for unit in _UNITS:
            limit = self.aup.limit(unit)
            if limit is not None:
                self.budgets[unit] = self.hard.budget(unit, self.aup.hard_share * limit, epoch=self.epoch)

    # --- reports and announcements

    def _chosen(self, seen: Observation) -> Indices:
        """The groups to report on in this epoch, drawn at random."""
        chances = self.monitor.chances(seen.rows, seen.amounts[1], seen.members, self.aup.report_fraction)
        return drawn(chances, self._rng)

    def _policy_to_announce(self) -> Policy | None:
        """The policy to announce, if any: about one node per epoch repeats it for latecomers, more if one was heard."""
        if self.aup.version == 0:
            return None
        nodes = self.nodes_heard + 1
        chance = (_EAGER if self._owes_policy else 1.0) / nodes
        self._owes_policy = False
        return Policy.of(self.name, self.aup) if self._rng.random() < chance else None

    @property
    def nodes_heard(self) -> int:
        """How many other nodes were heard lately."""
        if len(self._heard_nodes) > 64 or self.epoch % 8 == 0:
            oldest = self.epoch - _NODES_EPOCHS
            self._heard_nodes = {name: heard for name, heard in self._heard_nodes.items() if heard >= oldest}
        return len(self._heard_nodes)

    # --- for people

    def slowed(self) -> list[Slowed]:
        """The channels that are slowed down, those with the smallest quota first."""
        seconds = self.aup.epoch_ms / 1000
        found = [
            Slowed(channel, unit, float(reactor.quota[place]) / seconds, float(reactor.multiplier[place]))
            for unit, reactor in zip(Unit, self.reactors, strict=True)
            for place, channel in enumerate(self.channels)
            if channel is not None and np.isfinite(reactor.quota[place])
        ]
        return sorted(found, key=lambda each: (each.quota_s, each.channel.group, each.channel.sender))

    def check_invariants(self) -> None:
        """Fails if the quotas are not sound."""
        for reactor in self.reactors:
            reactor.check_invariants()
        assert (self.budgets >= 0).all(), "a budget is negative"


def drawn(chances: Floats, rng: Rng) -> Indices:
    """The places drawn, each with its own probability, independently of the others.

    Most probabilities are small. Instead of one number per place, we draw the distance to the next place that would
    come up at the highest probability, and keep that place with the ratio of its own probability to the highest.
    """
    highest = float(chances.max()) if len(chances) else 0.0
    if highest <= 0:
        return np.zeros(0, dtype=np.int64)
    # At 1 every place is a candidate: there are no distances to draw.
    step = log1p(-highest) if highest < 1 else None
    found: list[int] = []
    place = -1
    while True:
        place += 1 if step is None else 1 + int(min(log(1.0 - rng.random()) / step, len(chances)))
        if place >= len(chances):
            return np.array(found, dtype=np.int64)
        if rng.random() * highest < chances[place]:
            found.append(place)
