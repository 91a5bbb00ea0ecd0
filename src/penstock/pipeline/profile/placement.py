"""Places subscriptions on brokers of given capacities so that all are loaded evenly ([PADRES] sections 3.2 and 4).

The paper's offload algorithms move subscribers between two running brokers; here all of them are placed at once, from a
profile. First by size: the next largest goes where it leaves the highest load lowest. Then by moves: from the broker
with most of the worst metric to one with less, whichever subscription reduces the largest difference most, until none
does. Estimates are those of PRESS: a subscription adds to a broker's input those of its sampled bits that nobody there
has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.model.errors import MisuseError
from penstock.pipeline.profile.capacities import Capacity
from penstock.pipeline.profile.model import Profile

__all__ = ["DELAY_NORM_S", "METRICS", "BrokerPlan", "Plan", "max_difference", "plan_placement", "predicted"]

DELAY_NORM_S: Final = 0.1
"""Divisor that makes delays comparable with utilisations (spec, Detection)."""
METRICS: Final = ("input", "output", "delay")
_SAMPLES_MAX: Final = 4_096
"""How many publications estimates use: more would cost time and change little."""
_MOVES_MAX: Final = 20_000
_BETTER: Final = 1e-9


@dataclass(slots=True, frozen=True)
class BrokerPlan:
    """The planned load of a broker."""

    broker: str
    subscriptions: int
    input_msg_s: float
    output_bytes_s: float
    delay_s: float
    input: float
    """Ir, a fraction."""
    output: float
    """Or, a fraction."""

    @property
    def metrics(self) -> tuple[float, float, float]:
        """The values that are compared between brokers."""
        return self.input, self.output, self.delay_s / DELAY_NORM_S


@dataclass(slots=True, frozen=True)
class Plan:
    """Where every subscription should be."""

    brokers: Sequence[BrokerPlan]
    placed: Sequence[str]
    """For each subscription of the profile, its broker."""
    moved: int
    """How many subscriptions have to move."""

    @property
    def max_difference(self) -> float:
        """The largest difference between two brokers in any metric."""
        return max_difference(self.brokers)

    @property
    def overloaded(self) -> list[str]:
        """Brokers planned beyond their capacity."""
        return [each.broker for each in self.brokers if max(each.input, each.output) > 1]


def max_difference(brokers: Sequence[BrokerPlan]) -> float:
    """The largest difference between two brokers in any metric."""
    values = np.array([each.metrics for each in brokers])
    return float((values.max(axis=0) - values.min(axis=0)).max())


def plan_placement(
    profile: Profile, capacities: Mapping[str, Capacity], *, advance: Callable[[int], None] = lambda _: None
) -> Plan:
    """Place all subscriptions of a profile; deterministic for the same profile and capacities."""
    state = _State(profile, capacities)
    state.place_all(advance)
    state.improve()
    names = list(capacities)
    placed = state.assigned(profile, names)
    moved = sum(each.broker != broker for each, broker in zip(profile.subscriptions, placed, strict=True))
    return Plan([state.load(place, name) for place, name in enumerate(names)], placed, moved)


def predicted(profile: Profile, capacities: Mapping[str, Capacity], placed: Sequence[str]) -> list[BrokerPlan]:
    """The loads of a given placement, such as the current one; brokers without a capacity are left out."""
    if not set(placed) & set(capacities):
        raise MisuseError("none of the brokers of the profile has a capacity")
    state = _State(profile, capacities)
    places = {name: place for place, name in enumerate(capacities)}
    for each, broker in zip(profile.subscriptions, placed, strict=True):
        if broker in places:
            state.change(places[broker], each.selector, 1)
    return [state.load(place, name) for name, place in places.items()]


class _State:
    """How many subscriptions of each selector are at each broker, and the resulting loads."""

    def __init__(self, profile: Profile, capacities: Mapping[str, Capacity]) -> None:
        count, brokers = len(profile.selectors), len(capacities)
        bits = np.unpackbits(profile.bits.view(np.uint8), axis=1, bitorder="little")[:, : profile.window.sampled]
        step = max(1, -(-bits.shape[1] // _SAMPLES_MAX))
        self._bits = np.ascontiguousarray(bits[:, ::step], np.float32)
        samples = self._bits.shape[1]
        self._rate_per_bit = profile.window.rate / samples if samples else 0.0
        self._bytes = np.array([profile.bytes_rate(number) for number in range(count)])
        self._total = np.zeros(count, np.int64)
        for each in profile.subscriptions:
            self._total[each.selector] += 1
        self.counts = np.zeros((brokers, count), np.int64)
        self._wanted = np.zeros((brokers, samples), np.int64)
        """For each broker and sampled publication, how many selectors there want it."""
        self._n = np.zeros(brokers)
        self._out = np.zeros(brokers)
        self._base = np.array([each.delay_base_s for each in capacities.values()])
        self._slope = np.array([each.delay_slope_s for each in capacities.values()])
        self._bandwidth = np.array([each.bandwidth for each in capacities.values()])

    def change(self, broker: int, selector: int, by: int) -> None:
        """Add or remove this many subscriptions of a selector at a broker."""
        before = self.counts[broker, selector]
        self.counts[broker, selector] += by
        self._n[broker] += by
        self._out[broker] += by * self._bytes[selector]
        if (before > 0) != (before + by > 0):
            sign = 1 if by > 0 else -1
            self._wanted[broker] += sign * self._bits[selector].astype(np.int64)

    def place_all(self, advance: Callable[[int], None]) -> None:
        """Place all subscriptions, the largest first; reports progress in hundredths."""
        order = sorted(range(len(self._bytes)), key=lambda number: (-self._bytes[number], number))
        todo, done, told = int(self._total.sum()), 0, 0
        for selector in order:
            for _ in range(int(self._total[selector])):
                self.change(self._best(selector), selector, 1)
                done += 1
                if 100 * done // todo > told:
                    advance(100 * done // todo - told)
                    told = 100 * done // todo

    def _best(self, selector: int) -> int:
        """The broker where one more leaves the highest load lowest; ties go by total load, then by added input."""
        fresh = (self._bits[selector] * (self._wanted == 0)).sum(axis=1) * (self.counts[:, selector] == 0)
        after = self._metrics(
            self._inputs() + fresh * self._rate_per_bit, self._n + 1, self._out + self._bytes[selector]
        )
        return int(np.lexsort((fresh, after.sum(axis=1), after.max(axis=1)))[0])

    def improve(self) -> None:
        """Move subscriptions while that reduces the largest difference."""
        for _ in range(_MOVES_MAX):
            now = self._metrics(self._inputs(), self._n, self._out)
            spread = now.max(axis=0) - now.min(axis=0)
            if not any(self._move(int(metric), now, float(spread.max())) for metric in np.argsort(-spread)):
                return

    def _move(self, metric: int, now: npt.NDArray[np.float64], worst: float) -> bool:
        """Make the best move from the broker with most of a metric to any with less, if it is an improvement."""
        high = int(np.argmax(now[:, metric]))
        best: tuple[float, float, int, int] | None = None
        spread = float((now.max(axis=0) - now.min(axis=0)).sum())
        for low in np.argsort(now[:, metric]):
            if low == high:
                continue
            found = self._candidate(high, int(low))
            if found is not None and (best is None or found[:2] < best[:2]):
                best = (*found[:2], found[2], int(low))
        if best is None:
            return False
        # Either the largest difference shrinks, or it stays and the others shrink.
        is_better = best[0] < worst - _BETTER or (best[0] <= worst and best[1] < spread - _BETTER)
        if not is_better:
            return False
        self.change(high, best[2], -1)
        self.change(best[3], best[2], 1)
        return True

    def _candidate(self, high: int, low: int) -> tuple[float, float, int] | None:
        """The best selector to move: the largest difference it leaves, the sum of differences, and its index."""
        there = np.flatnonzero(self.counts[high])
        if not there.size:
            return None
        bits = self._bits[there]
        leaves = (self.counts[high, there] == 1) * (bits @ (self._wanted[high] == 1).astype(np.float32))
        comes = (self.counts[low, there] == 0) * (bits @ (self._wanted[low] == 0).astype(np.float32))
        inputs, size = self._inputs(), self._bytes[there]
        after = np.repeat(self._metrics(inputs, self._n, self._out)[None], there.size, axis=0)
        for broker, fresh, by in ((high, -leaves, -1), (low, comes, 1)):
            rate = inputs[broker] + fresh * self._rate_per_bit
            delay = self._base[broker] + self._slope[broker] * (self._n[broker] + by)
            after[:, broker, 0] = rate * delay
            after[:, broker, 1] = (self._out[broker] + by * size) / self._bandwidth[broker]
            after[:, broker, 2] = delay / DELAY_NORM_S
        spreads = after.max(axis=1) - after.min(axis=1)
        worst, total = spreads.max(axis=1), spreads.sum(axis=1)
        best = int(np.lexsort((total, worst))[0])
        return float(worst[best]), float(total[best]), int(there[best])

    def _inputs(self) -> npt.NDArray[np.float64]:
        return np.asarray((self._wanted > 0).sum(axis=1) * self._rate_per_bit)

    def _metrics(
        self, inputs: npt.NDArray[np.float64], n: npt.NDArray[np.float64], out: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        delay = self._base + self._slope * n
        return np.stack([inputs * delay, out / self._bandwidth, delay / DELAY_NORM_S], axis=1)

    def load(self, broker: int, name: str) -> BrokerPlan:
        """The load of a broker."""
        rate = float(self._inputs()[broker])
        delay = float(self._base[broker] + self._slope[broker] * self._n[broker])
        out = float(self._out[broker])
        output = out / float(self._bandwidth[broker])
        return BrokerPlan(name, int(self._n[broker]), rate, out, delay, rate * delay, output)

    def assigned(self, profile: Profile, names: Sequence[str]) -> list[str]:
        """Assign each subscription to a broker: its current one, if the plan keeps one with its selector there."""
        left = self.counts.copy()
        places = {name: place for place, name in enumerate(names)}
        found: list[str | None] = []
        for each in profile.subscriptions:
            place = places.get(each.broker)
            stays = place is not None and left[place, each.selector] > 0
            if stays:
                left[place, each.selector] -= 1
            found.append(each.broker if stays else None)
        placed: list[str] = []
        for each, broker in zip(profile.subscriptions, found, strict=True):
            if broker is None:
                place = int(np.flatnonzero(left[:, each.selector])[0])
                left[place, each.selector] -= 1
                broker = names[place]  # noqa: PLW2901
            placed.append(broker)
        return placed
