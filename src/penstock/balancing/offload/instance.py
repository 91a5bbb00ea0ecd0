"""One offload decision under way: the candidates, both brokers' figures, and the choices so far.

[PADRES] section 5. Candidates are unique subscriptions (*interests*) with the subscribers that have them. A step moves
some subscribers of one interest and re-estimates both brokers' figures. The number to move is bounded: the partner must
not become overloaded on any resource, and the metric of interest ends balanced or just below the partner's. All
candidates are computed together, in whole rows.

Ours: a guard limits what a step that balances one metric may do to the others. Differences in other metrics are free up
to the guard, a share of their triggers. Beyond it, a step may widen them only by less than half of what it narrows its
own, never past halfway from the guard to the trigger, and not at all where they are already past that. So the
*potential*, the total excess over the guards, falls with every step that begins beyond its own guard, and never rises:
the three algorithms cannot undo each other in a cycle. The total excess over the triggers, which starts sessions, falls
likewise. Relief from overload is exempt, as in the paper, because an overloaded broker accepts nothing back. The
exemption ends with the overload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.balancing.cards import ReportCard
from penstock.balancing.detection import Triggers
from penstock.balancing.estimators import Figures
from penstock.balancing.press import Press, Words
from penstock.balancing.settings import BalancingSettings
from penstock.model.metrics import BALANCED, DELAY, INPUT, OUTPUT, UTILISATIONS, Metric
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = [
    "Differences",
    "Guard",
    "Interest",
    "Leaver",
    "Offload",
    "Profile",
    "Publishing",
    "is_above",
    "relieved_with",
]

Floats = npt.NDArray[np.float64]
Differences = Mapping[Metric, Any]
"""How far the offloading broker is above the partner; numbers, or arrays for many cases at once."""
_STRANGER: Final = 2.0
"""How many times slower than this broker we assume a broker that has never measured itself."""
_PRICE: Final = 0.5
"""The share of a step's gain that other metrics may lose."""
_ROUNDING: Final = 1e-12


@dataclass(slots=True, frozen=True)
class Interest:
    """A unique subscription, or set of subscriptions of one client, with the subscribers that have it."""

    name: str
    subscribers: tuple[int, ...]
    """Connections of the subscribers that may move."""
    stays: bool = False
    """Whether a subscriber that does not move has it, too."""
    subscriptions: int = 1
    """How many subscriptions each of the subscribers has."""
    selectors: tuple[Selector, ...] = ()

    @property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The conjunctions of all its selectors."""
        return tuple(one for each in self.selectors for one in each.conjunctions)


@dataclass(slots=True, frozen=True)
class Publishing:
    """A client that publishes and has no subscriptions, and its rates during sampling."""

    connection: int
    name: str
    rates_msg_s: Mapping[str, float]
    """What it publishes to the pubends of each broker."""


@dataclass(slots=True, frozen=True)
class Leaver:
    """A publisher that could move to the partner, and what that would change."""

    connection: int
    name: str
    saved_msg_s: float
    """How much this broker's input falls: by all that is for pubends elsewhere, since the rest is carried here."""
    added_msg_s: float
    """How much the partner's input rises: by all that is not carried there anyway."""


@dataclass(slots=True, frozen=True)
class Profile:
    """The result of PRESS: the interests of this broker, their bit vectors, and the message size."""

    interests: Sequence[Interest]
    press: Press
    message_bytes: float
    input_msg_s: float = 0.0
    """Publications per second that came in during sampling; 0 to use the rate measured all along."""
    publishing: Sequence[Publishing] = ()

    def leavers(self, host: str, partner: str) -> list[Leaver]:
        """The publishers whose move from one broker to the other would relieve it."""
        found = []
        for each in self.publishing:
            total = sum(each.rates_msg_s.values())
            saved, added = (total - each.rates_msg_s.get(name, 0.0) for name in (host, partner))
            if saved > 0:
                found.append(Leaver(each.connection, each.name, saved, added))
        return found


@dataclass(slots=True)
class Offload:
    """Decides step by step who moves."""

    profile: Profile
    host: Figures
    partner: Figures
    settings: BalancingSettings
    triggers: Triggers
    is_overload: bool = False
    cards: list[ReportCard] = field(default_factory=list)
    moves: dict[int, int] = field(default_factory=dict)
    """How many subscribers move, by the place of their interest."""
    leavers: list[Leaver] = field(default_factory=list)
    """The publishers that could still move."""
    leaving: list[Leaver] = field(default_factory=list)
    """The publishers chosen so far."""
    css: Words = field(init=False)
    """The publications the partner gets anyway."""
    left: npt.NDArray[np.int64] = field(init=False)
    """Subscribers of each interest that could still move."""
    stays: npt.NDArray[np.bool_] = field(init=False)
    sizes: npt.NDArray[np.int64] = field(init=False)
    rates: Floats = field(init=False)
    outputs: Floats = field(init=False)
    """Output bandwidth of one subscriber of each interest."""
    input_msg_s: float = field(init=False)

    def __post_init__(self) -> None:
        profile = self.profile
        self.input_msg_s = profile.input_msg_s or float(self.host.rate_msg_s)
        self.css = profile.press.css.copy()
        self.left = np.array([len(each.subscribers) for each in profile.interests], np.int64)
        self.stays = np.array([each.stays for each in profile.interests], np.bool_)
        self.sizes = np.array([each.subscriptions for each in profile.interests], np.int64)
        self.rates = profile.press.rates(self.input_msg_s)
        self.outputs = self.rates * profile.message_bytes
        if self.partner.delay_slope_s <= 0:
            # A broker that never had subscribers has no figures of its own. We assume it is slower: given too much, it
            # would give some back, and the load would oscillate; given too little, it is asked again.
            base_s = 0.0 if self.partner.subscriptions else self.partner.delay_base_s
            self.partner = _with_line(self.partner, base_s, self.host.delay_slope_s * _STRANGER)

    # --- as it is now

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """The interests that some subscriber here still has."""
        return self.stays | (self.left > 0)

    @property
    def moved(self) -> int:
        """Subscribers and publishers chosen so far."""
        return sum(self.moves.values()) + len(self.leaving)

    def difference(self, metric: Metric) -> float:
        """How far this broker is above the partner."""
        return float(self._difference(metric, self.host, self.partner))

    def is_host_overloaded(self, metric: Metric) -> bool:
        """Whether this broker is above the lower threshold on a resource the metric stands for."""
        return bool(is_above(self.host, relieved_with(metric), self.settings.lower_overload))

    @property
    def guard(self) -> Guard:
        """The limits on what steps may do to other metrics."""
        return Guard(self.settings.guard_share, self.triggers)

    def differences(self) -> dict[Metric, float]:
        """How far this broker is above the partner, in each metric."""
        return {metric: self.difference(metric) for metric in BALANCED}

    def needs_relief(self, metric: Metric) -> bool:
        """Whether the aim is relief from overload, and the overload persists."""
        return self.is_overload and self.is_host_overloaded(metric)

    def is_done(self, metric: Metric) -> bool:
        """Whether the metric is balanced, or the order has flipped; not while relief from overload is needed."""
        if self.moved >= self.settings.moves_max:
            return True
        if self.needs_relief(metric):
            return False
        return self.difference(metric) <= self.settings.balance_threshold

    def added(self) -> Floats:
        """How much each interest would raise the partner's input."""
        return self.profile.press.added_rates(self.input_msg_s, self.css)

    def reduced(self) -> Floats:
        """How much this broker's input falls if all subscribers of an interest leave."""
        reduced = self.profile.press.reduced_rates(self.input_msg_s, self.present)
        return np.where(self.stays, 0.0, reduced)

    # --- how many of each would move

    def counts(self, metric: Metric) -> tuple[npt.NDArray[np.int64], Floats]:
        """How many subscribers of each interest should move, 0 for none, and the difference that this leaves."""
        added, reduced = self.added(), self.reduced()
        cap = np.minimum(self.left, self._cap(added))
        cap = np.minimum(cap, self.settings.moves_max - self.moved)
        is_guarded = not self.needs_relief(metric)
        ideal = self._ideal(metric, added)
        choices = [np.floor(ideal), np.ceil(ideal), cap]
        if is_guarded:
            # The most that the guard could allow, and the most that cost nothing: the price applies in between.
            choices = [np.floor(ideal), np.ceil(ideal), *self._guarded(metric, added)]
            cap = np.minimum(cap, choices[2].astype(np.int64))
        now = self.differences()
        best = np.zeros(len(self.left), np.int64)
        best_difference = np.full(len(self.left), now[metric])
        best_distance = np.full(len(self.left), abs(now[metric]))
        for choice in choices:
            count = np.clip(choice, 0, cap).astype(np.int64)
            host, partner = self._after(count, added, reduced)
            difference = np.asarray(self._difference(metric, host, partner))
            better = (count > 0) & (np.abs(difference) < best_distance - 1e-12)
            if is_guarded:
                better &= self.guard.allows(metric, now, self.apart(host, partner))
            best = np.where(better, count, best)
            best_difference = np.where(better, difference, best_difference)
            best_distance = np.where(better, np.abs(difference), best_distance)
        return best, best_difference

    def relief(self, place: int) -> tuple[int, float]:
        """How many subscribers of one interest must go until CPU, memory and input are below the lower threshold.

        The resulting difference does not matter, but the partner must not become overloaded.
        """
        added, reduced, low = self.added(), self.reduced(), self.settings.lower_overload
        most = min(int(self.left[place]), int(self._cap(added)[place]), self.settings.moves_max - self.moved)
        if most <= 0:
            return 0, self.difference(DELAY)
        counts = np.arange(1, most + 1)
        leaves = (counts == self.left[place]) & ~self.stays[place]
        size, output = self.sizes[place] * counts, self.outputs[place] * counts
        host = self.host.changed(rate=-np.where(leaves, reduced[place], 0.0), subscriptions=-size, bytes_out=-output)
        enough = np.flatnonzero(~is_above(host, relieved_with(DELAY), low))
        chosen = int(enough[0]) if len(enough) else most - 1
        partner = self.partner.changed(rate=added[place], subscriptions=size, bytes_out=output)
        differences = np.asarray(self._difference(DELAY, host, partner))
        return int(counts[chosen]), float(differences[chosen])

    def take(self, place: int, count: int, difference: float, *, is_covered: bool) -> None:
        """Move some subscribers of an interest, and re-estimate both brokers."""
        assert 0 < count <= self.left[place]
        added, reduced = self.added(), self.reduced()
        leaves = count == self.left[place] and not self.stays[place]
        rate = float(reduced[place]) if leaves else 0.0
        size, output = int(self.sizes[place]) * count, float(self.outputs[place]) * count
        self.host = self.host.changed(rate=-min(rate, self.host.rate_msg_s), subscriptions=-size, bytes_out=-output)
        self.partner = self.partner.changed(rate=float(added[place]), subscriptions=size, bytes_out=output)
        self.css |= self.profile.press.bits[:, place]
        self.left[place] -= count
        self.moves[place] = self.moves.get(place, 0) + count
        name = self.profile.interests[place].name
        self.cards.append(ReportCard(name, count, difference, is_covered, rate, float(self.outputs[place])))

    def after_leaving(self, leaver: Leaver) -> tuple[Figures, Figures]:
        """Both brokers' figures after a publisher has moved."""
        saved = min(leaver.saved_msg_s, float(self.host.rate_msg_s))
        return self.host.changed(rate=-saved), self.partner.changed(rate=leaver.added_msg_s)

    def let_leave(self, leaver: Leaver) -> None:
        """Move a publisher, and re-estimate both brokers."""
        self.host, self.partner = self.after_leaving(leaver)
        self.leavers.remove(leaver)
        self.leaving.append(leaver)
        card = ReportCard(
            f"publisher {leaver.name}", 1, self.difference(INPUT), leaver.added_msg_s <= 0, leaver.saved_msg_s, 0.0
        )
        self.cards.append(card)

    def _after(self, count: npt.NDArray[np.int64], added: Floats, reduced: Floats) -> tuple[Figures, Figures]:
        leaves = (count == self.left) & ~self.stays
        size, output = self.sizes * count, self.outputs * count
        return (
            self.host.changed(
                rate=-np.minimum(np.where(leaves, reduced, 0.0), self.host.rate_msg_s),
                subscriptions=-size,
                bytes_out=-output,
            ),
            self.partner.changed(rate=np.where(count > 0, added, 0.0), subscriptions=size, bytes_out=output),
        )

    def _cap(self, added: Floats) -> npt.NDArray[np.int64]:
        """How many subscribers of each interest the partner can take before a resource is overloaded."""
        partner, low = self.partner, self.settings.lower_overload
        rate = partner.rate_msg_s + added
        with np.errstate(divide="ignore", invalid="ignore"):
            # CPU moves with the input utilisation: whichever has less room decides.
            room = min(low - partner.input, low - partner.cpu) + partner.input
            most = (np.nan_to_num(room / rate, nan=np.inf, posinf=np.inf) - partner.delay_s) / partner.delay_slope_s
            caps = [most / self.sizes, (low * partner.bandwidth - partner.bytes_out_s) / self.outputs]
            if partner.memory_per_subscription > 0:
                caps.append((low - partner.memory) / (partner.memory_per_subscription * self.sizes))
        least: Floats = np.nan_to_num(np.minimum.reduce(caps), nan=0.0, posinf=1e9)
        whole: npt.NDArray[np.int64] = np.clip(np.floor(least + 1e-9), 0, 10**9).astype(np.int64)
        return whole

    def _guarded(self, metric: Metric, added: Floats) -> list[Floats]:
        """How many subscribers of each interest may move before other metrics hit their limits, and how many freely."""
        others = [other for other in BALANCED if other != metric]
        most = [-self.guard.limits(other, self.difference(other))[0] for other in others]
        found = [
            [self._ideal(other, added, beyond=each) for other, each in zip(others, beyond, strict=True)]
            for beyond in (most, [self.guard.free(other) for other in others])
        ]
        return [np.floor(np.minimum.reduce(caps) + 1e-9) for caps in found]

    def _ideal(self, metric: Metric, added: Floats, *, beyond: float = 0.0) -> Floats:
        """The fractional number of subscribers that puts the partner above by ``beyond``, if not all of them leave."""
        # The first subscriber to arrive brings the publications of its interest with it.
        partner = self.partner.changed(rate=added)
        gap = self._difference(metric, self.host, partner)
        effect = _EFFECTS[metric](self, partner)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Interests with no effect on a metric may move in any number, even where its difference is at the limit.
            ideal: Floats = np.where(effect > 0, (gap + beyond) / effect, 1e9)
        return np.clip(ideal, 0.0, 1e9)

    def apart(self, host: Figures, partner: Figures) -> dict[Metric, Any]:
        """How far one broker is above the other, in each metric."""
        return {metric: self._difference(metric, host, partner) for metric in BALANCED}

    def _difference(self, metric: Metric, host: Figures, partner: Figures) -> Floats | float:
        apart: Floats | float = metric.of(host) - metric.of(partner)
        return apart if metric.is_ratio else apart / self.triggers.delay_norm_s


@dataclass(slots=True, frozen=True)
class Guard:
    """Which changes of other metrics are free, which have a price, and which are forbidden."""

    share: float
    """The share of its trigger up to which a difference is free."""
    triggers: Triggers

    def free(self, metric: Metric) -> float:
        """The difference up to which a metric costs nothing."""
        return self.share * self.triggers.of(metric)

    def limits(self, metric: Metric, now: Any) -> tuple[Any, Any]:
        """The bounds on the difference of a metric while another one is balanced."""
        most = (1 + self.share) / 2 * self.triggers.of(metric)
        return np.minimum(now, -most), np.maximum(now, most)

    def potential(self, differences: Differences) -> Any:
        """The total excess of these metrics over their guards."""
        return sum(np.maximum(np.abs(each) - self.free(metric), 0.0) for metric, each in differences.items())

    def allows(self, metric: Metric, before: Differences, after: Differences) -> npt.NDArray[np.bool_]:
        """Whether a step that balances the metric may change the differences like this, case by case."""
        others = [other for other in after if other != metric]
        gain = self.potential({metric: before[metric]}) - self.potential({metric: after[metric]})
        loss = sum(
            np.maximum(self.potential({other: after[other]}) - self.potential({other: before[other]}), 0.0)
            for other in others
        )
        sound = np.asarray(loss <= _PRICE * np.maximum(gain, 0.0) + _ROUNDING)
        for other in others:
            least, most = self.limits(other, before[other])
            sound &= (after[other] >= least - _ROUNDING) & (after[other] <= most + _ROUNDING)
        return sound


def relieved_with(metric: Metric) -> list[Metric]:
    """The utilisations that the same offload algorithm relieves as the metric."""
    return [each for each in UTILISATIONS if each.relief == metric.relief]


def is_above(figures: Figures, metrics: Iterable[Metric], limit: float) -> npt.NDArray[np.bool_]:
    """Whether one of the metrics is above the limit, case by case."""
    found: npt.NDArray[np.bool_] = np.logical_or.reduce([each.of(figures) > limit for each in metrics])
    return found


def _input_effect(work: Offload, partner: Figures) -> Any:
    host = work.host
    return work.sizes * (host.rate_msg_s * host.delay_slope_s + partner.rate_msg_s * partner.delay_slope_s)


def _output_effect(work: Offload, partner: Figures) -> Any:
    return work.outputs * (1 / work.host.bandwidth + 1 / partner.bandwidth)


def _delay_effect(work: Offload, partner: Figures) -> Any:
    return (work.host.delay_slope_s + partner.delay_slope_s) * work.sizes / work.triggers.delay_norm_s


_EFFECTS: Final[dict[Metric, Callable[[Offload, Figures], Any]]] = {
    INPUT: _input_effect,
    OUTPUT: _output_effect,
    DELAY: _delay_effect,
}
"""How far one subscriber of each interest, moved to this partner, narrows the difference of a metric."""


def _with_line(figures: Figures, base_s: float, slope_s: float) -> Figures:
    return Figures(
        figures.rate_msg_s,
        figures.subscriptions,
        figures.bytes_out_s,
        figures.bandwidth,
        base_s,
        max(slope_s, 1e-12),
        figures.cpu,
        figures.memory,
        figures.memory_per_subscription,
    )
