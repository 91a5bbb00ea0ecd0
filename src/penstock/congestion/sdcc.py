"""SDCC, subscriber-driven congestion control: the NACK window of one edge stream ([Gryphon] section 3.2).

The recovery rate is r = nwnd / RTT (eq. 9); an RTT lasts from first sending a NACK until all its ticks are known, and
is averaged over one RTT. If r is higher than at the last change by at least ``nack_increase``, the window opens by one
NACK; if it is lower by at least ``nack_decrease``, it narrows by one (eq. 10). The first measurement opens it.

What the paper leaves open: only NACKs sent under the present window count; otherwise the window would be judged by its
predecessor. A window that several measurements left at its smallest starts over (``nack_stuck_max``): otherwise one of
the streams that share a link could keep all of it for good, and leave the others next to nothing. A window unused for
``nack_idle_ms`` starts over too, as the next recovery meets different conditions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.congestion.settings import CongestionSettings
from penstock.model.tick import TickRange

__all__ = ["NackControl"]

_TICKS_PER_MS: Final = 1 << 16
_MEASURED_MAX: Final = 1000
"""NACKs that are measured at the same time."""


@dataclass(slots=True, frozen=True)
class _Sent:
    """A NACK whose answer is awaited."""

    first: int
    last: int
    sent_ms: int


class NackGroup:
    """The windows of streams that recover over the same link (beyond the paper).

    On their own, streams settle by chance on very different sizes, and the slowest decides when recovery ends. In a
    group, each stream that is in doubt uses the mean of their windows.
    """

    def __init__(self) -> None:
        self._members: dict[NackControl, None] = {}

    def add(self, member: NackControl) -> None:
        """Adds a stream that is in doubt."""
        self._members[member] = None

    def remove(self, member: NackControl) -> None:
        """Removes a stream that is no longer in doubt."""
        self._members.pop(member, None)

    def mean_ms(self, member: NackControl) -> int:
        """The window for this member: its own if it is alone, or not in doubt."""
        if member not in self._members:
            return member.own_window_ms
        return sum(each.own_window_ms for each in self._members) // len(self._members)


class NackControl:
    """The size of one NACK window."""

    def __init__(self, settings: CongestionSettings, *, receive_window_ms: int, group: NackGroup | None = None) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self.floor_ms = 0
        """Least size of the window, while a token allows bulk recovery."""
        self._group = group or NackGroup()
        self._limit_ms = receive_window_ms
        self._window_ms = min(settings.nack_window_ms, receive_window_ms)
        self._rate: float | None = None
        """r at the last change of the window."""
        self._stuck = 0
        """Consecutive measurements that left the window at its smallest."""
        self._sent: list[_Sent] = []
        self._rtts_ms: list[int] = []
        self._measured_ms = 0
        """When the first of these round trips was measured."""
        self._doubted_ms: int | None = None

    @property
    def window_ms(self) -> int:
        """The NACK window; without SDCC, the receive window."""
        if not self.settings.sdcc:
            return self._limit_ms
        window_ms = self._group.mean_ms(self) if self.settings.nack_group else self._window_ms
        return min(max(window_ms, self.floor_ms), self._limit_ms)

    @property
    def own_window_ms(self) -> int:
        """The NACK window that this stream would have on its own."""
        return self._window_ms

    @property
    def rate(self) -> float | None:
        """The recovery rate at the last change, in tick-seconds per second; None before the first measurement."""
        return self._rate

    def until(self, horizon: int) -> int:
        """The last tick that may be asked for with this doubt horizon.

        It is rounded up to whole NACKs, so that the window does not creep forward tick by tick, with a NACK for each.
        """
        step = self.settings.nack_size_ms * _TICKS_PER_MS
        end = -(-(horizon + self.window_ms * _TICKS_PER_MS) // step) * step
        return min(end, horizon + self._limit_ms * _TICKS_PER_MS) - 1

    def on_asked(self, ranges: Sequence[TickRange], *, now_ms: int) -> None:
        """Notes NACKs that were sent; a repeated one is measured from the first time."""
        if not self.settings.sdcc:
            return
        for first, last in ranges:
            if len(self._sent) < _MEASURED_MAX and not any(_overlap(each, first, last) for each in self._sent):
                self._sent.append(_Sent(first, last, now_ms))

    def on_gaps(self, gaps: Sequence[TickRange], *, now_ms: int) -> bool:
        """Takes the ticks still unknown, of all that may be asked for; returns whether that changed the window."""
        self._notice_idleness(bool(gaps), now_ms)
        # Gaps ascend and do not touch, so only the first one that does not end before a NACK can overlap it.
        ends = [last for _, last in gaps] if self._sent else []
        waiting = []
        for each in self._sent:
            place = bisect_left(ends, each.first)
            if place < len(gaps) and gaps[place].first <= each.last:
                waiting.append(each)
            else:
                if not self._rtts_ms:
                    self._measured_ms = now_ms
                self._rtts_ms.append(max(now_ms - each.sent_ms, 1))
        self._sent = waiting
        if not self._rtts_ms:
            return False
        rtt_ms = sum(self._rtts_ms) / len(self._rtts_ms)
        if len(self._rtts_ms) < _MEASURED_MAX and now_ms - self._measured_ms < rtt_ms:
            return False
        self._rtts_ms = []
        return self._judge(self.window_ms / rtt_ms)

    def clear(self) -> None:
        """Forgets pending NACKs: they will not be answered after a change of parent, or at the end of the stream."""
        self._sent, self._rtts_ms = [], []
        self._group.remove(self)

    def check_invariants(self) -> None:
        """Fails if the window is out of bounds."""
        assert self._least_ms <= self._window_ms <= self._limit_ms
        assert len(self._sent) <= _MEASURED_MAX
        assert len(self._rtts_ms) <= 2 * _MEASURED_MAX

    def _judge(self, rate: float) -> bool:
        settings = self.settings
        if self._rate is None or rate >= (1 + settings.nack_increase) * self._rate:
            window_ms = min(self._window_ms + settings.nack_size_ms, self._limit_ms)
        elif rate <= (1 - settings.nack_decrease) * self._rate:
            window_ms = max(self._window_ms - settings.nack_size_ms, self._least_ms)
        else:
            return self._stay()
        self._rate = rate
        self._stuck = 0
        if window_ms == self._window_ms:
            return False
        self._window_ms = window_ms
        self._sent = []
        return True

    def _stay(self) -> bool:
        """Keeps the window; if it has been the smallest for several measurements, the next one opens it."""
        if self._window_ms == self._least_ms:
            self._stuck += 1
            if self._stuck >= self.settings.nack_stuck_max:
                self._rate, self._stuck = None, 0
        return False

    @property
    def _least_ms(self) -> int:
        return min(self.settings.nack_size_ms, self._limit_ms)

    def _notice_idleness(self, has_gaps: bool, now_ms: int) -> None:
        settings = self.settings
        idle = self._doubted_ms is not None and now_ms - self._doubted_ms >= settings.nack_idle_ms
        if has_gaps or self._sent:
            self._doubted_ms = now_ms
        if has_gaps:
            self._group.add(self)
        else:
            self._group.remove(self)
        if idle and self._doubted_ms == now_ms:
            self._window_ms = min(settings.nack_window_ms, self._limit_ms)
            self._rate = None
            self.clear()


def _overlap(sent: _Sent, first: int, last: int) -> bool:
    return sent.first <= last and first <= sent.last
