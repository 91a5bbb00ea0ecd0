"""The edge stream: one per pubend at a subscriber-hosting broker; turns knowledge into deliveries in order.

[Gryphon] section 2. The *doubt horizon* is the first tick that is unknown: everything before it can be delivered, in
order and complete. Knowledge may come in any order, in pieces and repeatedly. What lies beyond the *receive window*, or
does not fit it in bytes, is ignored, and asked for later; so a broker in recovery needs bounded memory.

A subscription that begins at a tick demands knowledge of its version of the filter from there on: the silence of an
older version is not known to be silence, only its data is believed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from penstock.model.errors import MisuseError
from penstock.model.tick import TickRange
from penstock.model.tick_ranges import TickRanges
from penstock.streams.knowledge import Knowledge

__all__ = ["EdgeSettings", "EdgeStream"]


@dataclass(slots=True, frozen=True)
class EdgeSettings:
    """Bounds of an edge stream."""

    window_ticks: int = 10_000 << 16
    """The receive window: ticks beyond the doubt horizon that are kept; 10 seconds by default."""
    window_bytes: int = 16 * 1024 * 1024
    """Data beyond the doubt horizon that is kept."""

    def __post_init__(self) -> None:
        if self.window_ticks <= 0 or self.window_bytes <= 0:
            raise MisuseError(f"a window of {self.window_ticks} ticks and {self.window_bytes} bytes is not positive")


class EdgeStream:
    """What a subscriber-hosting broker knows of one pubend, from its doubt horizon on."""

    def __init__(self, start_tick: int, settings: EdgeSettings | None = None) -> None:
        self._settings = settings or EdgeSettings()
        self._known = TickRanges()
        self._data: dict[int, bytes] = {}
        self._demands: list[tuple[int, int]] = []
        """From which tick on which version of the filter is demanded; both ascend."""
        self.horizon = start_tick
        """The doubt horizon: the first tick that is not known."""
        self.heard = start_tick - 1
        """The last tick that any knowledge spoke of, believed or not."""
        self.pending_bytes = 0
        """Data that waits beyond the doubt horizon."""
        self.ignored_ticks = 0
        """Ticks with data that were ignored for lack of a window, so far; recovering brokers have some lately."""

    def demand(self, version: int, from_tick: int) -> None:
        """A subscription of this version of the filter begins at a tick."""
        assert not self._demands or version >= self._demands[-1][1], f"version {version} is older than the last"
        from_tick = max(from_tick, self._demands[-1][0] if self._demands else from_tick)
        self._demands.append((from_tick, version))
        # What was taken for silence before, by an older version, is in doubt again.
        if self._known.last is not None and self._known.last >= from_tick:
            silent = self._known.copy()
            for tick in self._data:
                silent.remove(tick, tick)
            for each in list(silent.within(max(from_tick, self.horizon), self._known.last)):
                self._known.remove(each.first, each.last)

    def learn(self, knowledge: Knowledge) -> None:
        """Takes in what is believed, fits the window, and is not behind the doubt horizon."""
        self.heard = max(self.heard, knowledge.last)
        window_end = self.horizon + self._settings.window_ticks - 1
        part = knowledge.clipped(self.horizon, window_end)
        self.ignored_ticks += sum(tick > window_end for tick, _ in knowledge.data)
        if part is None:
            return
        last = self._keep(part)
        for low, high in self._believed(part.first, last, part.version):
            self._known.add(low, high)

    def take(self) -> list[tuple[int, bytes]]:
        """The messages that can be delivered now, in order; the doubt horizon moves behind them."""
        horizon = self._known.first_missing(self.horizon)
        ready = sorted(tick for tick in self._data if tick < horizon)
        taken = [(tick, self._data.pop(tick)) for tick in ready]
        self.pending_bytes -= sum(len(body) for _, body in taken)
        self.horizon = horizon
        self._known.remove_below(horizon)
        return taken

    def gaps(self, until_tick: int) -> list[TickRange]:
        """What is unknown from the doubt horizon up to a tick, but no further than anything was heard of."""
        last = min(until_tick, self.heard, self.horizon + self._settings.window_ticks - 1)
        return list(self._known.gaps(self.horizon, last)) if last >= self.horizon else []

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other or exceed their bounds."""
        assert self.pending_bytes == sum(map(len, self._data.values()))
        # What the doubt horizon waits for, and a first message of any size, may exceed the window.
        ahead = [body for tick, body in self._data.items() if tick != self.horizon]
        assert sum(map(len, ahead)) <= self._settings.window_bytes or len(ahead) == 1
        assert all(self._known.contains(tick) and tick >= self.horizon for tick in self._data)
        self._known.check_invariants()

    def _keep(self, part: Knowledge) -> int:
        """Keeps the data that fits; answers with the last tick up to which nothing had to be left out."""
        for tick, body in part.data:
            if tick in self._data or self._known.contains(tick):
                continue
            # What the doubt horizon waits for always fits: else nothing would ever move.
            if self._data and self.pending_bytes + len(body) > self._settings.window_bytes and tick != self.horizon:
                self.ignored_ticks += sum(each >= tick for each, _ in part.data)
                return tick - 1
            self._data[tick] = body
            self._known.add(tick, tick)
            self.pending_bytes += len(body)
        return part.last

    def _believed(self, first: int, last: int, version: int) -> list[tuple[int, int]]:
        """The parts of a range in which this version's silence is believed."""
        believed = []
        starts = [start for start, _ in self._demands]
        place = bisect_right(starts, first)
        while first <= last:
            end = min(last, starts[place] - 1) if place < len(starts) else last
            demanded = self._demands[place - 1][1] if place else 0
            if version >= demanded and first <= end:
                believed.append((first, end))
            first, place = max(first, end + 1), place + 1
        return believed
