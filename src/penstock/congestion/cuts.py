"""By how much a pubend's rate is increased and decreased ([Gryphon] eqs. 1 to 3), as functions of numbers.

Beyond the paper: ``horizon_cut`` uses the horizon rate that was alerted, as the paper's conclusion proposes. A broker
whose horizon moves at h tick-seconds per second gets h times what was published in a second back then: so much it can
take. The cut goes there, and somewhat lower, so that what has queued up meanwhile drains. As it does not depend on the
present rate, a second alert of the same congestion does not cut again. For brokers in recovery, the rate is cut by the
share that they lack of their target; some of it is spared, so that publishers need not stand still for minutes, and no
pubend falls far behind the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from penstock.congestion.messages import Uca
from penstock.congestion.settings import CongestionSettings

__all__ = ["Rates", "factor_cut", "horizon_cut", "increased"]


@dataclass(slots=True, frozen=True)
class Rates:
    """The rates of a pubend when it has to change, in messages per second."""

    allowed: float
    """r."""
    decreased: float
    """r_decr: the rate after the last decrease."""
    then: float = 0.0
    """What was published when the ticks that the slowest broker receives now got their time."""
    spared: float = 0.0
    """What a recovery leaves to new messages, however slow it is; 0 without one."""


def increased(rates: Rates, settings: CongestionSettings) -> float:
    """Eq. 1."""
    gained = rates.allowed - rates.decreased
    return max(rates.allowed + settings.increase_min_msg_s, rates.allowed + settings.increase_factor * gained)


def factor_cut(rates: Rates, uca: Uca, settings: CongestionSettings) -> float:
    """Eqs. 2 and 3; in a recovery no lower than what it spares, unless others fall far behind."""
    cut = settings.decrease_factor * rates.allowed
    # Below it the rate can be where another limit has bound meanwhile; eq. 2 would raise it then.
    if rates.allowed > rates.decreased:
        gained = rates.allowed - rates.decreased
        cut = max(cut, rates.decreased + settings.decrease_back_factor * gained)
    return cut if uca.lag_ms > settings.lag_ms_max else max(cut, min(rates.spared, rates.allowed))


def horizon_cut(rates: Rates, uca: Uca, settings: CongestionSettings) -> float:
    """The rate that the slowest broker can take, by what it alerted."""
    least, most = settings.decrease_factor * rates.allowed, settings.cut_factor_max * rates.allowed
    cuts = []
    spared = min(rates.spared, rates.allowed)
    if uca.min_nonrec < inf:
        drained = 1 - min(uca.lag_ms / settings.drain_ms, 1.0)
        cut = max(least, min(uca.min_nonrec * (rates.then or rates.allowed) * drained, most))
        # In a recovery, what makes others lag a little is the recovery, which no cut makes smaller.
        cuts.append(cut if uca.lag_ms > settings.lag_ms_max else max(cut, spared))
    if uca.min_rec < inf:
        cut = max(least, min(rates.allowed * uca.min_rec / (1 + settings.recovering_margin), most))
        cuts.append(max(cut, spared))
    return min(cuts)
