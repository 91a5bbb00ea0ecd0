"""PDCC, publisher-driven congestion control: the rate of one pubend ([Gryphon] section 3.1).

Every interval, a DCQ goes downstream. While UCAs come up, the rate is cut; once none has come for ``nouca_ms``, it is
increased, as long as it is the limit that binds.

What the paper leaves open:

- A pubend that was never alerted has no limit. The first UCA makes its actual rate the limit, and cuts that.
- A limit that was neither needed nor alerted for ``release_ms`` is lifted; otherwise a pubend that fell idle would
  start from next to nothing. Until then, where another limit binds, it is at most twice the actual rate, so that no
  burst follows.
- A pubend that publishes less than the floor is not limited: the congestion has another cause.
- A UCA older than the first DCQ after the last decrease does not change the rate, but it still signals congestion and
  so delays the increase. It does not become the "previous" UCA that the next one is compared with.
- A class that alerts for the first time has not improved.
- The rate never falls below ``rate_floor_msg_s``, and in a recovery not below a share of the rate before it
  (``recovering_share``): a recovery that cannot get what it demands would otherwise stop publishers altogether. The
  paper's own took 160 s, at a third of the usual rate. The share halves over time, so that every recovery ends.

How far the rate rises or falls ([Gryphon] eqs. 1 to 3) is computed by pure functions. Beyond the paper: ``horizon_cut``
uses the horizon rate in the alert, as the paper's conclusion proposes. A broker whose horizon moves at h tick-seconds
per second receives h times the rate published back then: that is what it can take. The rate is cut to that and somewhat
lower, so that the backlog drains. As the result does not depend on the present rate, a second alert of the same
congestion does not cut again. For recovering brokers, the rate is cut in proportion to how far they miss their target;
some of it is spared, so that publishers need not stop for minutes and no pubend falls far behind the others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.settings import CongestionSettings

__all__ = ["Pdcc", "RateMeter", "Rates", "factor_cut", "horizon_cut", "increased"]

_METER_MS: Final = 1000
"""The actual rate is that of the last second."""
_RECOVERY_MS: Final = 10_000
"""Recovery alerts no further apart than this belong to one recovery."""
_BEFORE_MS: Final = 10_000
"""The rate before a recovery is the mean over this time: by its first alert, it may have made others alert."""
_BUCKET_MS: Final = 100
_BUCKETS_MAX: Final = 300
"""Buckets kept: half a minute."""


class Pdcc:
    """The rate of one pubend."""

    def __init__(self, settings: CongestionSettings, *, now_ms: int) -> None:
        self.settings = settings
        """May be replaced at any time; a pubend without PDCC has no limit."""
        self.last_uca: Uca | None = None
        """The last alert, whether it changed anything or not."""
        self.decreases = 0
        self.increases = 0
        self.ignored_ucas = 0
        """Alerts that changed nothing."""
        self._meter = RateMeter(now_ms=now_ms)
        self._rate: float | None = None
        self._decreased = 0.0
        self._previous: Uca | None = None
        self._fence: int | None = 0
        """The first query after the last decrease; None until it is sent."""
        self._seq = 0
        self._dcq_ms = now_ms
        self._uca_ms = self._increased_ms = self._needed_ms = now_ms
        self._is_held_back = False
        self._recovery_ms: int | None = None
        self._recovery_began_ms = now_ms
        self._before_recovery = 0.0

    @property
    def rate_msg_s(self) -> float | None:
        """The rate that is allowed, in messages per second; None without limit."""
        return self._rate if self.settings.pdcc else None

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.rate_msg_s is not None

    def actual_msg_s(self, *, now_ms: int) -> float:
        """The rate published in the last second."""
        return self._meter.rate(until_ms=now_ms, window_ms=_METER_MS)

    def on_published(self, messages: int, *, now_ms: int) -> None:
        """Counts messages that get their ticks now."""
        self._meter.count(messages, now_ms=now_ms)

    def on_held_back(self) -> None:
        """Notes that a publisher has to wait because of the rate: it is throttled."""
        self._is_held_back = True

    def next_deadline(self) -> int | None:
        """When to send the next DCQ."""
        return self._dcq_ms if self.settings.pdcc else None

    def on_deadline(self, position: int, *, now_ms: int) -> Dcq | None:
        """Returns a DCQ if one is due, and adapts the rate to the absence of alerts."""
        if not self.settings.pdcc or now_ms < self._dcq_ms:
            return None
        self._adapt(now_ms)
        settings = self.settings
        self._dcq_ms = now_ms + (settings.dcq_interval_limited_ms if self.is_limited else settings.dcq_interval_ms)
        # Derived from the time, as ticks are, so that it still grows after a restart: intermediate brokers drop alerts
        # for older queries, and hosts see how late a query is. Odd if the clock is behind, so as to be no valid time.
        after = max(self._seq + 1, position)
        self._seq = now_ms << 16 if now_ms << 16 >= after else after | 1
        if self._fence is None:
            self._fence = self._seq
        return Dcq(self._seq, position)

    def on_uca(self, uca: Uca, *, now_ms: int) -> bool:
        """Handles an alert; returns whether it cut the rate."""
        if not self.settings.pdcc or not uca.is_alert or uca.seq > self._seq:
            return False
        self.last_uca, self._uca_ms = uca, now_ms
        if uca.min_rec < inf:
            self._note_recovery(now_ms)
        if self._fence is None or uca.seq < self._fence or self._is_improved(uca):
            self.ignored_ucas += 1
            return False
        if self._rate is None:
            actual = self.actual_msg_s(now_ms=now_ms)
            if actual < self.settings.rate_floor_msg_s:
                # Whatever causes the congestion, it is not this pubend.
                self.ignored_ucas += 1
                return False
            self._rate = self._decreased = actual
            self._needed_ms = now_ms
        return self._decrease(uca, now_ms)

    def check_invariants(self) -> None:
        """Fails if the rate is below the floor, or the fence is a query that was never sent."""
        assert self._rate is None or self._rate >= self.settings.rate_floor_msg_s, f"rate {self._rate} is too low"
        assert self._fence is None or self._fence <= self._seq, "no query is awaited that was not sent"

    def _is_improved(self, uca: Uca) -> bool:
        """Whether every alerting class does better than in the previous alert; this alert becomes the previous one."""
        previous, self._previous = self._previous, uca
        if previous is None:
            return False
        pairs = [(uca.min_nonrec, previous.min_nonrec), (uca.min_rec, previous.min_rec)]
        return all(before < rate for rate, before in pairs if rate < inf)

    def _note_recovery(self, now_ms: int) -> None:
        """Remembers the rate published before a recovery, which begins with its first alert for a while."""
        if not self._is_recovery(now_ms):
            self._recovery_began_ms = now_ms
            self._before_recovery = self._meter.rate(until_ms=now_ms, window_ms=_BEFORE_MS)
        self._recovery_ms = now_ms

    def _is_recovery(self, now_ms: int) -> bool:
        return self._recovery_ms is not None and now_ms - self._recovery_ms <= _RECOVERY_MS

    def _spared(self, now_ms: int) -> float:
        """The rate that a recovery now leaves to new messages; 0 without a recovery."""
        if not self._is_recovery(now_ms):
            return 0.0
        halvings = (now_ms - self._recovery_began_ms) / self.settings.recovering_halving_ms
        return self.settings.recovering_share * self._before_recovery * 2 ** -max(halvings, 0.0)

    def _decrease(self, uca: Uca, now_ms: int) -> bool:
        assert self._rate is not None
        settings = self.settings
        rates = Rates(self._rate, self._decreased, spared=self._spared(now_ms))
        if settings.cut == "horizon":
            then = self._meter.rate(until_ms=now_ms - uca.lag_ms, window_ms=_METER_MS)
            rate = horizon_cut(replace(rates, then=then), uca, settings)
        else:
            rate = factor_cut(rates, uca, settings)
        self._rate = self._decreased = max(rate, settings.rate_floor_msg_s)
        self._fence = None
        self.decreases += 1
        return True

    def _adapt(self, now_ms: int) -> None:
        """Once per interval: raises the rate if nobody alerts, bounds or lifts it if nobody needs it."""
        held_back, self._is_held_back = self._is_held_back, False
        if held_back:
            self._needed_ms = now_ms
        if self._rate is None:
            return
        settings = self.settings
        if not held_back:
            quiet_ms = min(now_ms - self._uca_ms, now_ms - self._needed_ms)
            if quiet_ms >= settings.release_ms:
                self._lift()
            else:
                bound = settings.headroom_factor * self.actual_msg_s(now_ms=now_ms)
                self._rate = max(min(self._rate, bound), settings.rate_floor_msg_s)
                # Later gains count from here.
                self._decreased = min(self._decreased, self._rate)
        elif now_ms - self._uca_ms >= settings.nouca_ms and now_ms - self._increased_ms >= settings.increase_step_ms:
            self._rate = increased(Rates(self._rate, self._decreased), settings)
            self._increased_ms, self._previous = now_ms, None
            self.increases += 1

    def _lift(self) -> None:
        self._rate, self._decreased = None, 0.0
        self._previous = None


@dataclass(slots=True, frozen=True)
class Rates:
    """The rates of a pubend when it has to change, in messages per second."""

    allowed: float
    """r: the rate allowed now."""
    decreased: float
    """r_decr: the rate after the last decrease."""
    then: float = 0.0
    """The rate published when the ticks that the slowest broker receives now were assigned."""
    spared: float = 0.0
    """The rate that a recovery leaves to new messages, however slow it is; 0 without a recovery."""


def increased(rates: Rates, settings: CongestionSettings) -> float:
    """The rate after an increase (eq. 1)."""
    gained = rates.allowed - rates.decreased
    return max(rates.allowed + settings.increase_min_msg_s, rates.allowed + settings.increase_factor * gained)


def factor_cut(rates: Rates, uca: Uca, settings: CongestionSettings) -> float:
    """The rate after a cut (eqs. 2 and 3); in a recovery not below the spared rate, unless others fall far behind."""
    cut = settings.decrease_factor * rates.allowed
    # The rate may be below r_decr if another limit has bound since; eq. 2 would then raise it.
    if rates.allowed > rates.decreased:
        gained = rates.allowed - rates.decreased
        cut = max(cut, rates.decreased + settings.decrease_back_factor * gained)
    return cut if uca.lag_ms > settings.lag_ms_max else max(cut, min(rates.spared, rates.allowed))


def horizon_cut(rates: Rates, uca: Uca, settings: CongestionSettings) -> float:
    """The rate that the slowest broker can take, according to its alert."""
    least, most = settings.decrease_factor * rates.allowed, settings.cut_factor_max * rates.allowed
    cuts = []
    spared = min(rates.spared, rates.allowed)
    if uca.min_nonrec < inf:
        drained = 1 - min(uca.lag_ms / settings.drain_ms, 1.0)
        cut = max(least, min(uca.min_nonrec * (rates.then or rates.allowed) * drained, most))
        # During a recovery, others lag a little because of the recovery itself, which no cut makes smaller.
        cuts.append(cut if uca.lag_ms > settings.lag_ms_max else max(cut, spared))
    if uca.min_rec < inf:
        cut = max(least, min(rates.allowed * uca.min_rec / (1 + settings.recovering_margin), most))
        cuts.append(max(cut, spared))
    return min(cuts)


class RateMeter:
    """Measures a pubend's actual rate, now or earlier, by counting messages in time buckets as they get their ticks."""

    def __init__(self, *, now_ms: int) -> None:
        self._began_ms = now_ms
        self._buckets: deque[tuple[int, int]] = deque(maxlen=_BUCKETS_MAX)
        """Bucket number and messages in it; ascending, without empty buckets."""

    def count(self, messages: int, *, now_ms: int) -> None:
        """Counts messages that are published now."""
        bucket = now_ms // _BUCKET_MS
        if self._buckets and self._buckets[-1][0] >= bucket:
            # The clock may have been set back: the messages then count in the latest bucket.
            bucket, before = self._buckets.pop()
            messages += before
        self._buckets.append((bucket, messages))

    def rate(self, *, until_ms: int, window_ms: int) -> float:
        """Messages per second in a window that ends at ``until_ms``; a shorter one if counting began within it."""
        last = until_ms // _BUCKET_MS
        first = max(last - max(window_ms // _BUCKET_MS, 1), self._began_ms // _BUCKET_MS)
        # The bucket of ``until_ms`` is not full yet, so the window ends before it.
        messages = sum(count for bucket, count in reversed(self._buckets) if first <= bucket < last)
        return messages * 1000 / ((last - first) * _BUCKET_MS) if first < last else 0.0
