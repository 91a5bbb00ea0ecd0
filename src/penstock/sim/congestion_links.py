"""Links whose bandwidth can change while in use, and that remember how long their queues became.

For experiments with congestion: the queue of a link is the outbox from which its wire pulls, bounded by the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeAlias

from penstock.protocol.frames import Frame
from penstock.sim.link import End, Link
from penstock.sim.wire import LinkOptions, Source, Wire
from penstock.sim.world import World

__all__ = ["NarrowLink", "NarrowWire", "Watch", "add_narrow_link"]

Watch: TypeAlias = Callable[[str, list[Frame]], None]
"""Called with a node's name and the frames that arrive there."""


class NarrowWire(Wire):
    """A wire that can be throttled, and looks at the outbox before it pulls."""

    __slots__ = ("_queue", "queued_max_bytes")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._queue: Any = None
        self.queued_max_bytes = 0
        """The most bytes that ever waited for this wire."""
        super().__init__(*arguments, **options)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for this wire."""
        return 0 if self._queue is None or self.is_dead else int(self._queue.data_bytes)

    def attach(self, source: Source) -> None:
        """Pull from this source from now on."""
        self._queue = source
        super().attach(source)

    def wake(self) -> None:
        """Notice that the source has something to send: only now can its queue have grown."""
        self.queued_max_bytes = max(self.queued_max_bytes, self._queue.data_bytes)
        super().wake()

    def throttle(self, options: LinkOptions) -> None:
        """Apply the bandwidth of these options from the next batch on."""
        self._bandwidth, self._batch_bytes = options.bandwidth or 0, options.batch_bytes


class NarrowLink(Link):
    """A link of narrow wires; its figures cover all its connections."""

    _queued_max_bytes = 0
    _carried_bytes = 0
    watch: Watch | None = None
    """Sees the frames that arrive at either end of future connections."""

    def throttle(self, bandwidth: int | None) -> None:
        """Carry at most this many bytes per second in each direction from now on; None for no limit."""
        self.options = replace(self.options, bandwidth=bandwidth)
        for wire in self._narrow_wires():
            wire.throttle(self.options)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the link now, in the fuller direction."""
        return max((wire.queued_bytes for wire in self._narrow_wires()), default=0)

    @property
    def queued_max_bytes(self) -> int:
        """The most bytes that ever waited for the link in one direction."""
        return max([self._queued_max_bytes, *(wire.queued_max_bytes for wire in self._narrow_wires())])

    @property
    def carried_bytes(self) -> int:
        """Bytes carried so far, in both directions."""
        return self._carried_bytes + sum(wire.carried_bytes for wire in self._narrow_wires())

    def _narrow_wires(self) -> list[NarrowWire]:
        return [wire for wire in self.wires() if isinstance(wire, NarrowWire)]

    def _wire(self, to: End) -> Wire:
        deliver = to.deliver if self.watch is None else self._watched(to, self.watch)
        return NarrowWire(self._clock, self.options, self._rng, deliver=deliver, ended=to.lose, host=to.node.host)

    @staticmethod
    def _watched(to: End, watch: Watch) -> Callable[[list[Frame]], None]:
        def deliver(frames: list[Frame]) -> None:
            watch(to.node.name, frames)
            to.deliver(frames)

        return deliver

    def _forget(self, serial: int) -> None:
        ends = self._open.get(serial)
        if ends is not None and not any(end.is_open for end in ends):
            self._queued_max_bytes = self.queued_max_bytes
            self._carried_bytes += sum(end.outward.carried_bytes for end in ends)
        super()._forget(serial)


def add_narrow_link(
    world: World, caller: str, callee: str, *, watch: Watch | None = None, **options: Any
) -> NarrowLink:
    """Connect two brokers of a world by a link that can be throttled; options as in ``LinkOptions``."""
    link = NarrowLink(
        world.clock,
        Random(f"{world.seed}/links/{caller}/{callee}"),
        world.broker(caller),
        world.broker(callee),
        options=LinkOptions(**options),
    )
    link.watch = watch
    world.links[caller, callee] = link
    link.want()
    return link
