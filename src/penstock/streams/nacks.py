"""Decides which gaps to NACK now, and when to retry: the NACK window of an edge stream ([Gryphon] sections 2 and 5).

Only gaps within the window beyond the doubt horizon are requested; the caller gives its size each time, because
congestion control (SDCC) drives it. A gap that stays is requested again after clamp(srtt + 4·rttvar), with jitter, so
that brokers that lost the same link do not ask in step.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import MisuseError
from penstock.model.ports import Rng
from penstock.model.tick import Tick, TickRange
from penstock.model.tick_ranges import TickRanges

__all__ = ["NackSettings", "NackWindow"]


@dataclass(slots=True, frozen=True)
class NackSettings:
    """When to retry a NACK."""

    retry_ms_min: int = 1_000
    retry_ms_max: int = 4_000
    jitter_ms: int = 250
    """Upper bound of the random delay added to each wait."""
    asked_max: int = 1_000
    """Ranges that may be requested at the same time; the others wait."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_ms_min <= self.retry_ms_max or self.jitter_ms <= 0 or self.asked_max <= 0:
            raise MisuseError(f"settings for asking again are not positive and ordered: {self}")


@dataclass(slots=True)
class _Asked:
    """The part of a requested range that is still unknown."""

    wanted: TickRanges
    asked_ms: int
    due_ms: int
    again: bool = False


class NackWindow:
    """The requested gaps of one stream."""

    def __init__(self, rng: Rng, settings: NackSettings | None = None) -> None:
        self._rng = rng
        self._settings = settings or NackSettings()
        self._asked: list[_Asked] = []
        self._wanted = TickRanges()
        """All ticks that were requested and are still unknown."""
        self._srtt_ms: float | None = None
        self._rttvar_ms = 0.0

    @property
    def rtt_ms(self) -> float | None:
        """The smoothed time from request to answer; None before the first answer."""
        return self._srtt_ms

    def ask(self, gaps: list[TickRange], *, now_ms: int, full_from: int | None = None) -> list[TickRange]:
        """Given all gaps now within the window, returns what to request, for the first time or again.

        It requests nothing from ``full_from`` on, where there is no room; once there is, those gaps count as new.
        """
        if not gaps and not self._asked:
            return []
        doubtful = TickRanges.of(*((gap.first, gap.last) for gap in gaps))
        self._settle(doubtful, now_ms)
        if full_from is not None and gaps:
            doubtful.remove(full_from, max(full_from, gaps[-1].last))
            self._withdraw(full_from)
        asking: list[TickRange] = []
        for each in self._asked:
            if each.due_ms <= now_ms:
                each.due_ms, each.again = self._due_ms(now_ms), True
                asking.extend(each.wanted)
        doubtful.difference_update(self._wanted)
        for gap in doubtful:
            if len(self._asked) >= self._settings.asked_max:
                break
            self._asked.append(_Asked(TickRanges.of((gap.first, gap.last)), now_ms, self._due_ms(now_ms)))
            self._wanted.add(gap.first, gap.last)
            asking.append(gap)
        return [TickRange(Tick(first), Tick(last)) for first, last in asking]

    def next_deadline(self) -> int | None:
        """When the next retry is due."""
        return min((each.due_ms for each in self._asked), default=None)

    def clear(self) -> None:
        """Forgets all requests, as after a change of parent, but not how long answers take."""
        self._asked.clear()
        self._wanted.clear()

    def _settle(self, doubtful: TickRanges, now_ms: int) -> None:
        """Forgets requests that have been answered, and learns how long they took."""
        known = self._wanted.difference(doubtful)
        if not known:
            return
        assert known.first is not None
        assert known.last is not None
        first, last = known.first, known.last
        self._wanted.difference_update(known)
        waiting = []
        for each in self._asked:
            # Most requests are not affected by what has just arrived.
            if each.wanted.overlaps(first, last):
                each.wanted.difference_update(known)
            if each.wanted:
                waiting.append(each)
            elif not each.again:
                # After a retry there is no telling which request was answered.
                self._measure(now_ms - each.asked_ms)
        self._asked = waiting

    def _withdraw(self, first: int) -> None:
        """Forgets requests from a tick on, without measuring how long they took."""
        last = self._wanted.last
        if last is None or last < first:
            return
        self._wanted.remove(first, last)
        for each in self._asked:
            each.wanted.remove(first, last)
        self._asked = [each for each in self._asked if each.wanted]

    def _measure(self, rtt_ms: int) -> None:
        if self._srtt_ms is None:
            self._srtt_ms, self._rttvar_ms = float(rtt_ms), rtt_ms / 2
            return
        self._rttvar_ms += 0.25 * (abs(self._srtt_ms - rtt_ms) - self._rttvar_ms)
        self._srtt_ms += 0.125 * (rtt_ms - self._srtt_ms)

    def _due_ms(self, now_ms: int) -> int:
        settings = self._settings
        wait_ms = 0 if self._srtt_ms is None else int(self._srtt_ms + 4 * self._rttvar_ms)
        clamped_ms = min(max(wait_ms, settings.retry_ms_min), settings.retry_ms_max)
        return now_ms + clamped_ms + self._rng.randrange(settings.jitter_ms)
