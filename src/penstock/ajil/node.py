"""A node: a monitor and a reactor under an acceptable-use policy ([Ajil] section 3, pseudocode 1).

The same object runs in the simulator, between hosts over UDP multicast, and in brokers of the overlay. Its shell
counts what was sent, brings what arrives on the control channel, says when an epoch ends, and carries out what the node
answers: reports and announcements to broadcast, and quotas to keep.

Epochs are counted by the node itself: a step of some clock, or a shell that was late, makes one epoch shorter or
longer, and nothing else. Beyond the paper: priorities, the hard limit, and how a node that comes late learns the
policy: every message carries the version of its sender's policy, and who hears of an older one announces the newer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.ajil.amounts import Floats, Indices, Unit
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.chance import drawn
from penstock.ajil.domain import top_channels, top_groups
from penstock.ajil.groups import GroupIndex
from penstock.ajil.hard import HardShares
from penstock.ajil.messages import ControlMessage, Demand, Policy, Report
from penstock.ajil.monitor import Monitor
from penstock.ajil.observation import Observation
from penstock.ajil.reactor import Reactor
from penstock.model.ports import Rng

__all__ = ["AjilNode", "Channel", "EpochEnd", "Slowed"]

_UNITS: Final = tuple(Unit)
_EXEMPT_SCALE: Final = 0.25
"""The share of a cut that exempt groups suffer when together they are too large to be exempt."""
_EAGER: Final = 3.0
"""So many of the nodes that hear of an older policy announce theirs at the end of the epoch, on average."""
_NODES_EPOCHS: Final = 20
"""A node that said nothing for so many epochs is not counted any more."""


@dataclass(slots=True, frozen=True)
class Channel:
    """One sender in one group."""

    sender: str
    group: str


@dataclass(slots=True, frozen=True)
class Slowed:
    """A channel that is slowed down, for people."""

    channel: Channel
    unit: Unit
    quota_s: float
    """Per second."""
    multiplier: float


@dataclass(slots=True, frozen=True)
class EpochEnd:
    """What a node does at the end of an epoch."""

    reported: Indices
    """Places in the observation of the groups to report on."""
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
        """By place; None where a channel is no more."""
        self._free: list[int] = []
        self._channel_group: Indices = np.zeros(0, dtype=np.int64)
        self.reactors = (Reactor(), Reactor())
        """By unit."""
        self.budgets = self._first_budgets()
        """By unit: what the node may send in this epoch in all its channels together."""
        self.estimates = np.zeros(2)
        """By unit: E, when the last epoch ended."""
        self._heard_nodes: dict[str, int] = {}
        self._owes_policy = False
        self._scale_cache: Floats | None = None
        self._least = [0.0, 0.0]
        """By unit: the rate of the last of the top groups, when it was last asked for."""

    # --- channels

    def open_channel(self, channel: Channel) -> int:
        """The place of a new channel in all arrays."""
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
        """A channel is no more."""
        assert self.channels[place] is not None
        self.channels[place] = None
        self._free.append(place)
        for reactor in self.reactors:
            reactor.release(place)

    def quota(self, place: int, unit: Unit) -> float:
        """What a channel may send in an epoch; infinite if it is not slowed down."""
        return float(self.reactors[unit].quota[place])

    # --- what arrives

    def hear(self, message: ControlMessage) -> bool:
        """Something arrived on the control channel; True if the policy has changed."""
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
        """A policy was heard of: True if it is newer than the one in force, and now is in force."""
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
        # Who has just learned it tells it on: its announcer may have been heard by few.
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
        """Under a hard limit a node sends nothing before others know what it wants."""
        is_shared = [self.aup.mode == "hard" and self.aup.limit(unit) is not None for unit in _UNITS]
        return np.where(is_shared, 0.0, np.inf)

    # --- the end of an epoch

    def end_epoch(self, seen: Observation) -> EpochEnd:
        """An epoch is over: what was seen in it is kept, and some of it is told to others."""
        self.epoch += 1
        self.monitor.observe(seen.rows, seen.amounts, epoch=self.epoch)
        demand = self._announce(seen) if self.aup.mode == "hard" else None
        chosen = self._chosen(seen)
        if len(chosen):
            self.monitor.tell(seen.rows[chosen], seen.amounts[Unit.PACKETS, chosen])
        return EpochEnd(chosen, demand, self._policy_to_announce())

    def react(self, seen: Observation) -> None:
        """Others' reports on the same epoch had time to arrive: quotas follow what is known now."""
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
        """Which channels are in the reaction domain, and which share of a cut each suffers, if not all of it."""
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
        """By number of group: the share of a cut that it suffers."""
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

    # --- what others are told

    def _chosen(self, seen: Observation) -> Indices:
        """The groups to report on in this epoch, by chance."""
        chances = self.monitor.chances(seen.rows, seen.amounts[1], seen.members, self.aup.report_fraction)
        return drawn(chances, self._rng)

    def _policy_to_announce(self) -> Policy | None:
        """About one node in each epoch repeats the policy for those who come late; at once if somebody asked."""
        if self.aup.version == 0:
            return None
        nodes = self.nodes_heard + 1
        chance = (_EAGER if self._owes_policy else 1.0) / nodes
        self._owes_policy = False
        return Policy.of(self.name, self.aup) if self._rng.random() < chance else None

    @property
    def nodes_heard(self) -> int:
        """How many other nodes were heard of late."""
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
