"""Moves candidates in a fixed order, least traffic first, until enough have moved ([PADRES] section 5.2).

The order is by output bandwidth and then by what an interest would add to the partner's input. As it does not change,
the loads after one move, two moves and so on are computed at once, and only where to stop is left to decide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.balancing.cards import ReportCard
from penstock.balancing.estimators import Figures
from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Offload, is_above, relieved_with
from penstock.model.metrics import DELAY, UTILISATIONS, Metric

__all__ = ["move_in_order"]


@dataclass(slots=True, frozen=True)
class _Prefixes:
    """Both brokers after none, one, two ... of the candidates have moved with all their subscribers."""

    order: npt.NDArray[np.int64]
    host: Figures
    partner: Figures
    reduced: npt.NDArray[np.float64]


def move_in_order(work: Offload, coverage: Coverage, metric: Metric, candidates: npt.NDArray[np.int64]) -> None:
    """Move some of the candidates, until the metric is balanced or the guard forbids the next one."""
    prefixes = _prefixes(work, candidates)
    count = _where_to_stop(work, prefixes, metric)
    _take_all(work, coverage, prefixes, metric, max(count - 1, 0))
    # The last one may have to move in part.
    for place in prefixes.order[max(count - 1, 0) :].tolist():
        if work.is_done(metric):
            return
        counts, differences = work.counts(metric)
        number, difference = int(counts[place]), float(differences[place])
        if not number and work.needs_relief(metric):
            number, difference = work.relief(place)
        if not number:
            return
        work.take(place, number, difference, is_covered=bool(coverage.covered[place]))


def _prefixes(work: Offload, candidates: npt.NDArray[np.int64]) -> _Prefixes:
    press, added = work.profile.press, work.added()
    movable = candidates[work.left[candidates] > 0]
    order = movable[np.lexsort((added[movable], work.outputs[movable]))]
    bits = press.bits[:, order]
    empty = np.zeros((len(press.css), 1), np.uint64)
    arrived = np.bitwise_or.accumulate(np.concatenate((work.css[:, None], bits), axis=1), axis=1)
    # Publications wanted here by interests that are no candidates, and by those behind each place in the order.
    is_candidate = np.zeros(len(work.left), np.bool_)
    is_candidate[order] = True
    staying = press.wanted(work.stays | (work.present & ~is_candidate))
    behind = np.bitwise_or.accumulate(np.concatenate((empty, bits[:, ::-1]), axis=1), axis=1)[:, ::-1]
    wanted = behind | staying[:, None]
    scale = work.input_msg_s / max(press.taken, 1)
    gained = _counts(arrived) * scale
    lost = (_counts(wanted)[0] - _counts(wanted)) * scale if len(order) else np.zeros(1)
    sizes = _cumulated(work.sizes[order] * work.left[order])
    outputs = _cumulated(work.outputs[order] * work.left[order])
    host = work.host.changed(rate=-np.minimum(lost, work.host.rate_msg_s), subscriptions=-sizes, bytes_out=-outputs)
    partner = work.partner.changed(rate=gained - gained[0], subscriptions=sizes, bytes_out=outputs)
    return _Prefixes(order, host, partner, lost)


def _where_to_stop(work: Offload, prefixes: _Prefixes, metric: Metric) -> int:
    """How many candidates move, the last of them perhaps in part."""
    partner, host, low = prefixes.partner, prefixes.host, work.settings.lower_overload
    is_allowed = ~is_above(partner, UTILISATIONS, low)
    apart = work.apart(host, partner)
    is_done = apart[metric] <= work.settings.balance_threshold
    is_exempt = np.zeros(len(is_allowed), np.bool_)
    if work.is_overload:
        is_exempt = is_above(host, relieved_with(DELAY), low)
        is_done &= ~is_exempt
    before = {each: values[:-1] for each, values in apart.items()}
    after = {each: values[1:] for each, values in apart.items()}
    is_allowed[1:] &= is_exempt[1:] | work.guard.allows(metric, before, after)
    moved = _cumulated(work.left[prefixes.order])
    is_allowed &= moved <= work.settings.moves_max - work.moved
    is_allowed[0] = True
    refused = np.flatnonzero(~is_allowed)
    last = int(refused[0]) if len(refused) else len(is_allowed) - 1
    done = np.flatnonzero(is_done[: last + 1])
    return int(done[0]) if len(done) else last


def _take_all(work: Offload, coverage: Coverage, prefixes: _Prefixes, metric: Metric, count: int) -> None:
    places = prefixes.order[:count]
    if not count:
        return
    differences = work.apart(prefixes.host, prefixes.partner)[metric]
    work.host, work.partner = _at(prefixes.host, count), _at(prefixes.partner, count)
    work.css |= np.bitwise_or.reduce(work.profile.press.bits[:, places], axis=1)
    for turn, place in enumerate(places.tolist()):
        number = int(work.left[place])
        work.moves[place] = work.moves.get(place, 0) + number
        name = work.profile.interests[place].name
        reduced = float(prefixes.reduced[turn + 1] - prefixes.reduced[turn])
        difference = float(differences[turn + 1])
        is_covered = bool(coverage.covered[place])
        work.cards.append(ReportCard(name, number, difference, is_covered, reduced, float(work.outputs[place])))
    work.left[places] = 0


def _at(figures: Figures, place: int) -> Figures:
    return Figures(
        float(figures.rate_msg_s[place]),
        int(figures.subscriptions[place]),
        float(figures.bytes_out_s[place]),
        figures.bandwidth,
        figures.delay_base_s,
        figures.delay_slope_s,
        float(figures.cpu[place]),
        float(figures.memory[place]),
        figures.memory_per_subscription,
    )


def _counts(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    counts: npt.NDArray[np.float64] = np.bitwise_count(words).sum(axis=0, dtype=np.int64).astype(np.float64)
    return counts


def _cumulated(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
