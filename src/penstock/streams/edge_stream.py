"""The edge stream: one per pubend at a subscriber-hosting broker; turns knowledge into deliveries in order.

[Gryphon] section 2. The *doubt horizon* is the first unknown tick: everything before it can be delivered, in order and
complete. Knowledge may arrive in any order, in pieces and repeatedly. Knowledge contiguous with the horizon is accepted
at once, however much it is. Knowledge beyond the *receive window*, or too large for it, is ignored and requested later,
so a broker in recovery needs bounded memory. What did not fit is not worth requesting until it does.

A subscription that begins at a tick demands knowledge of its version of the filter from there on: silence under an
older version may not be silence for it, so only that version's data is believed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import MisuseError
from penstock.model.tick import TickRange
from penstock.streams.knowledge import Knowledge
from penstock.streams.range_map import RangeMap

__all__ = ["EdgeSettings", "EdgeStream"]

_DATA: Final = -1
"""Stands in for the version of ranges that consist of data only: data needs no version."""
_DEMANDS_MAX: Final = 1_000
"""Demands beyond the doubt horizon that are kept apart; any more are merged, and begin earlier than they need to."""
_MESSAGE_BYTES: Final = 64
"""Cost of a pending message in the window besides its body, so that empty messages are bounded, too."""


@dataclass(slots=True, frozen=True)
class EdgeSettings:
    """Bounds of an edge stream."""

    window_ticks: int = 10_000 << 16
    """The receive window: how many ticks are kept beyond the doubt horizon; 10 seconds by default."""
    window_bytes: int = 16 * 1024 * 1024
    """How much data is kept beyond the doubt horizon, with 64 bytes added for each message."""
    ranges_max: int = 4_096
    """From this many ranges beyond the doubt horizon on, only knowledge contiguous with it is accepted."""

    def __post_init__(self) -> None:
        if self.window_ticks <= 0 or self.window_bytes <= 0 or self.ranges_max <= 0:
            raise MisuseError(
                f"a window of {self.window_ticks} ticks, {self.window_bytes} bytes and {self.ranges_max} ranges "
                "is not positive"
            )


class EdgeStream:
    """What a subscriber-hosting broker knows of one pubend, from its doubt horizon on."""

    def __init__(self, start_tick: int, settings: EdgeSettings | None = None) -> None:
        self._settings = settings or EdgeSettings()
        self._starts: list[int] = [start_tick]
        """Ticks from which a newer version of the filter is demanded; ascending, the first not beyond the horizon."""
        self._versions: list[int] = [0]
        """The versions demanded from those ticks; ascending, too, since a demand never ends."""
        self._known: RangeMap[int] = RangeMap(max)
        """Known ranges beyond the doubt horizon, with the version that narrowed their silence."""
        self._ticks: list[int] = []
        """The ticks of the pending data beyond the doubt horizon, in order; all of them lie in known ranges."""
        self._bodies: dict[int, bytes] = {}
        self._ready_ticks: list[int] = []
        self._ready_bodies: list[bytes] = []
        self.horizon = start_tick
        """The doubt horizon: the first unknown tick. Messages that `take` has not fetched yet lie before it."""
        self.heard = start_tick - 1
        """The last tick that any knowledge mentioned, believed or not; callers may raise it when they hear more."""
        self.pending_bytes = 0
        """Bytes of data waiting beyond the doubt horizon."""
        self.ignored_ticks = 0
        """Ticks with data ignored so far for lack of window; a recent increase means that the broker is recovering."""
        self._ignored: tuple[int, int] | None = None
        """The first ignored tick beyond the doubt horizon, and the room that its data needs."""

    @property
    def full_from(self) -> int | None:
        """The tick from which on nothing should be requested: its data came once, and there is still no room for it."""
        if self._ignored is None:
            return None
        tick, weight = self._ignored
        # The tick at the doubt horizon always fits.
        return tick if tick > self.horizon and not self._fits(weight) else None

    def demand(self, version: int, from_tick: int) -> None:
        """Demands this version of the filter from a tick on, where a subscription begins; in any order of calls."""
        starts, versions = self._starts, self._versions
        # Everything before the doubt horizon has been decided, so all demands there count as one.
        from_tick = max(from_tick, self.horizon)
        at = bisect_right(starts, from_tick)
        if versions[at - 1] >= version:
            return
        previous = max(starts[at - 1], self.horizon)
        if previous == from_tick or len(starts) >= _DEMANDS_MAX:
            at, from_tick = at - 1, previous
        end = bisect_right(versions, version, at)
        starts[at:end] = [from_tick]
        versions[at:end] = [version]
        # Silence under an older version is in doubt again. It can be dropped for good, since the demanded version never
        # goes down.
        for first, last in self._known.drop(from_tick, lambda known_by: _DATA < known_by < version):
            for tick in self._ticks[bisect_left(self._ticks, first) : bisect_right(self._ticks, last)]:
                self._known.put(tick, tick, _DATA)

    def learn(self, knowledge: Knowledge, version: int) -> None:
        """Accepts what is believed, fits the window, and is not before the doubt horizon; call `take` afterwards.

        The version is that of the receiver's filter by which the knowledge was narrowed: messages that only newer
        versions want may be missing. A negative version is older than any demand: only the data is believed then.
        """
        first, last = knowledge.first, knowledge.last
        self.heard = max(self.heard, last)
        if last < self.horizon:
            return
        believed = last
        if version < self._versions[-1]:
            # Demands ascend, so an older version is believed up to where the first newer demand begins.
            believed = min(last, self._starts[bisect_right(self._versions, version)] - 1)
        if first <= self.horizon:
            if believed >= self.horizon:
                self._slide(knowledge, believed)
        elif believed >= first:
            self._keep(knowledge, believed, version)
        if believed < last:
            self._keep_data(knowledge, max(believed + 1, self.horizon))

    def take(self) -> tuple[list[int], list[bytes]]:
        """The messages that can be delivered now, in order: their ticks and their bodies."""
        taken = self._ready_ticks, self._ready_bodies
        self._ready_ticks, self._ready_bodies = [], []
        return taken

    def unknown(self, first: int, last: int) -> list[TickRange]:
        """The unknown parts of a range, at or beyond the doubt horizon."""
        first = max(first, self.horizon)
        return self._known.gaps(first, last) if first <= last else []

    def gaps(self, until_tick: int) -> list[TickRange]:
        """The unknown ranges from the doubt horizon up to a tick, within the window and no further than `heard`."""
        return self.unknown(self.horizon, min(until_tick, self.heard, self._window_end))

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other or exceed their bounds."""
        self._known.check_invariants()
        assert self._ticks == sorted(self._bodies), "pending ticks have bodies"
        assert self.pending_bytes == sum(map(len, self._bodies.values())), "pending bytes add up"
        assert self._pending_weight <= self._settings.window_bytes, "pending data fits the window"
        # A range put over others fills the gaps between them, and data that lost its surrounding silence stands alone.
        assert len(self._known) <= 2 * self._settings.ranges_max + len(self._ticks), "ranges are bounded"
        assert len(self._starts) == len(self._versions) <= _DEMANDS_MAX, "demands are bounded"
        assert self._starts == sorted(set(self._starts)), "demands ascend"
        assert self._versions == sorted(set(self._versions)), "versions ascend"
        assert self._starts[0] <= self.horizon, "something is demanded everywhere"
        assert self._starts[1:2] > [self.horizon] or len(self._starts) == 1, "demands before the horizon are one"
        known = self._known.within(self.horizon, self._window_end)
        assert len(known) == len(self._known), "all that is known is within the window"
        assert self._known.first_missing(self.horizon) == self.horizon, "the horizon is the first unknown tick"
        assert all(not self.unknown(tick, tick) for tick in self._ticks), "data is known"
        for first, last, version in known:
            if version == _DATA:
                assert all(tick in self._bodies for tick in range(first, last + 1)), f"no data in {first} to {last}"
            else:
                demanded = self._versions[bisect_right(self._starts, last) - 1]
                assert version >= demanded, f"silence of {version} is believed up to {last}, {demanded} is demanded"

    @property
    def _window_end(self) -> int:
        return self.horizon + self._settings.window_ticks - 1

    @property
    def _pending_weight(self) -> int:
        return self.pending_bytes + _MESSAGE_BYTES * len(self._ticks)

    def _slide(self, knowledge: Knowledge, believed: int) -> None:
        """Moves the doubt horizon past knowledge that begins at or before it; the hot path of a stream without gaps."""
        ticks, bodies = knowledge.ticks, knowledge.bodies
        if ticks and (ticks[0] < self.horizon or ticks[-1] > believed):
            low, high = bisect_left(ticks, self.horizon), bisect_right(ticks, believed)
            ticks, bodies = ticks[low:high], bodies[low:high]
        if self._ticks and self._ticks[0] <= believed:
            # Each may have data that the other lacks, since they were narrowed by different versions.
            fresh = [each for each in zip(ticks, bodies, strict=True) if each[0] not in self._bodies]
            self._insert([tick for tick, _ in fresh], [body for _, body in fresh])
        else:
            self._ready_ticks += ticks
            self._ready_bodies += bodies
        self._move(believed + 1)

    def _move(self, horizon: int) -> None:
        """Moves the doubt horizon to a tick, and past everything known from there on."""
        if self._known:
            horizon = self._known.first_missing(horizon)
            self._known.remove_below(horizon)
            count = bisect_left(self._ticks, horizon)
            if count:
                bodies = [self._bodies.pop(tick) for tick in self._ticks[:count]]
                self.pending_bytes -= sum(map(len, bodies))
                self._ready_ticks += self._ticks[:count]
                self._ready_bodies += bodies
                del self._ticks[:count]
        self.horizon = horizon
        if len(self._starts) > 1:
            passed = bisect_right(self._starts, horizon) - 1
            del self._starts[:passed], self._versions[:passed]

    def _keep(self, knowledge: Knowledge, believed: int, version: int) -> None:
        """Keeps knowledge that begins beyond the doubt horizon, up to the first data that does not fit."""
        end = min(believed, self._window_end)
        room_bytes = self._settings.window_bytes - self._pending_weight
        if len(self._known) >= self._settings.ranges_max:
            end = knowledge.first - 1
        ticks: list[int] = []
        bodies: list[bytes] = []
        for tick, body in zip(knowledge.ticks, knowledge.bodies, strict=True):
            if tick > believed:
                break
            if tick in self._bodies:
                continue
            room_bytes -= len(body) + _MESSAGE_BYTES
            if tick > end or room_bytes < 0:
                end = min(end, tick - 1)
                self._ignore(tick, len(body) + _MESSAGE_BYTES)
            else:
                ticks.append(tick)
                bodies.append(body)
        self._insert(ticks, bodies)
        if knowledge.first <= end:
            self._known.put(knowledge.first, end, version)

    def _keep_data(self, knowledge: Knowledge, first: int) -> None:
        """Keeps the data from a tick on where the silence around it is not believed."""
        low = bisect_left(knowledge.ticks, first)
        for tick, body in zip(knowledge.ticks[low:], knowledge.bodies[low:], strict=True):
            if tick < self.horizon or tick in self._bodies:
                continue
            if tick == self.horizon:
                # The tick at the doubt horizon always fits; otherwise the stream would be stuck.
                self._ready_ticks.append(tick)
                self._ready_bodies.append(body)
                self._move(tick + 1)
            elif (
                tick <= self._window_end
                and self._fits(len(body) + _MESSAGE_BYTES)
                and len(self._known) < self._settings.ranges_max
            ):
                self._insert([tick], [body])
                self._known.put(tick, tick, _DATA)
            else:
                self._ignore(tick, len(body) + _MESSAGE_BYTES)

    def _fits(self, weight: int) -> bool:
        return self._pending_weight + weight <= self._settings.window_bytes

    def _ignore(self, tick: int, weight: int) -> None:
        self.ignored_ticks += 1
        if self._ignored is None or not self.horizon < self._ignored[0] < tick:
            self._ignored = (tick, weight)

    def _insert(self, ticks: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Adds data to the pending data, which must not contain it yet."""
        if not ticks:
            return
        low, high = bisect_left(self._ticks, ticks[0]), bisect_right(self._ticks, ticks[-1])
        self._ticks[low:high] = sorted([*self._ticks[low:high], *ticks])
        self._bodies.update(zip(ticks, bodies, strict=True))
        self.pending_bytes += sum(map(len, bodies))
