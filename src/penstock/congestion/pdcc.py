"""PDCC, publisher-driven congestion control: the rate of one pubend ([Gryphon] section 3.1).

Every interval a DCQ goes down. While UCAs come up, the rate is cut; when none has come for ``nouca_ms``, it is
increased as long as it is what binds.

What the paper leaves open:

- A pubend that was never alerted has no limit. The first UCA makes its actual rate the limit, and cuts that.
- A limit that has not been needed for ``release_ms``, and was not alerted meanwhile, is lifted: else a pubend that fell
  idle would start from next to nothing. Until then it is at most twice the actual rate where another limit binds, so
  that no burst follows.
- Nor is a pubend limited that publishes less than the floor: congestion has another cause then.
- A UCA that is older than the first DCQ after the last decrease changes nothing, but still says that there is
  congestion: so it puts off the increase. It is not the "previous" one that the next is compared with.
- A class that alerts for the first time has not improved.
- The rate never falls below ``rate_floor_msg_s``, and in a recovery not below a share of what it was before
  (``recovering_share``): a recovery that cannot have what it demands would stop publishers altogether. The paper's own
  took 160 s, in which a third of the usual rate was published. The share halves with time, so that every recovery ends.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from penstock.congestion.cuts import Rates, factor_cut, horizon_cut, increased
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.meter import RateMeter
from penstock.congestion.settings import CongestionSettings

__all__ = ["Pdcc"]

_METER_MS: Final = 1000
"""The actual rate is that of the last second."""
_RECOVERY_MS: Final = 10_000
"""Recoveries that alert again within such a time are one."""


_BEFORE_MS: Final = 10_000
"""The rate before a recovery is the mean of so much time: by its first alert, others may have alerted because of it."""


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
        """The first query after the last decrease; none until it has been sent."""
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
        """What was published in the last second."""
        return self._meter.rate(until_ms=now_ms, window_ms=_METER_MS)

    def on_published(self, messages: int, *, now_ms: int) -> None:
        """So many messages get their ticks now."""
        self._meter.count(messages, now_ms=now_ms)

    def on_held_back(self) -> None:
        """A publisher has to wait because of the rate: it is throttled."""
        self._is_held_back = True

    def next_deadline(self) -> int | None:
        """When to send the next DCQ."""
        return self._dcq_ms if self.settings.pdcc else None

    def on_deadline(self, position: int, *, now_ms: int) -> Dcq | None:
        """Sends a DCQ if it is time, and adapts the rate to the silence of all the others."""
        if not self.settings.pdcc or now_ms < self._dcq_ms:
            return None
        self._adapt(now_ms)
        settings = self.settings
        self._dcq_ms = now_ms + (settings.dcq_interval_limited_ms if self.is_limited else settings.dcq_interval_ms)
        # From the time, as ticks are, so that a restart goes on above: intermediate brokers pass no alert of an older
        # query, and hosts see how late one comes. Odd if the clock is behind, so that nobody takes it for the time.
        after = max(self._seq + 1, position)
        self._seq = now_ms << 16 if now_ms << 16 >= after else after | 1
        if self._fence is None:
            self._fence = self._seq
        return Dcq(self._seq, position)

    def on_uca(self, uca: Uca, *, now_ms: int) -> bool:
        """An alert has come up; whether the rate was cut."""
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
                # Whatever the congestion comes from, it is not this pubend.
                self.ignored_ucas += 1
                return False
            self._rate = self._decreased = actual
            self._needed_ms = now_ms
        return self._decrease(uca, now_ms)

    def check_invariants(self) -> None:
        """Fails if the rate is not one."""
        assert self._rate is None or self._rate >= self.settings.rate_floor_msg_s, f"rate {self._rate} is too low"
        assert self._fence is None or self._fence <= self._seq, "no query is awaited that was not sent"

    def _is_improved(self, uca: Uca) -> bool:
        """Whether every class that alerts does better than at the previous alert; the next is compared with this."""
        previous, self._previous = self._previous, uca
        if previous is None:
            return False
        pairs = [(uca.min_nonrec, previous.min_nonrec), (uca.min_rec, previous.min_rec)]
        return all(before < rate for rate, before in pairs if rate < inf)

    def _note_recovery(self, now_ms: int) -> None:
        """Remembers what was published when a recovery began, which is the first alert of one for a while."""
        if not self._is_recovery(now_ms):
            self._recovery_began_ms = now_ms
            self._before_recovery = self._meter.rate(until_ms=now_ms, window_ms=_BEFORE_MS)
        self._recovery_ms = now_ms

    def _is_recovery(self, now_ms: int) -> bool:
        return self._recovery_ms is not None and now_ms - self._recovery_ms <= _RECOVERY_MS

    def _spared(self, now_ms: int) -> float:
        """What a recovery leaves to new messages by now."""
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
        """What every interval does to the rate if nobody alerts, or nobody needs it."""
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
                # What is gained from here on is gained anew.
                self._decreased = min(self._decreased, self._rate)
        elif now_ms - self._uca_ms >= settings.nouca_ms and now_ms - self._increased_ms >= settings.increase_step_ms:
            self._rate = increased(Rates(self._rate, self._decreased), settings)
            self._increased_ms, self._previous = now_ms, None
            self.increases += 1

    def _lift(self) -> None:
        self._rate, self._decreased = None, 0.0
        self._previous = None
