"""Hosts with CPU speed, memory and output bandwidth, and the one cost model of all balancing experiments.

[PADRES] does not give every hardware cost. These were calibrated once, and are used everywhere:

- matching a publication takes 20,000 cycles, and 21,000 more for each subscription in the engine: a 100 MHz broker with
  118 subscribers, its share of 2,000, needs 25 ms, and 20 publications a second keep it half busy; with all 2,000 it
  could match 2.4 a second;
- a delivery takes the bandwidth of its frame (about 200 bytes for a quote); all clients of a broker share its
  bandwidth;
- a broker takes 16 MB of memory, and 8 KB for each subscription.

Control frames, and messages that mechanisms publish, take no time and overtake data, as the paper demands of PIE. Links
between brokers are never the bottleneck; the paper's bandwidths apply to the way to the subscribers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.balancing.metrics import HostFigures
from penstock.broker.broker import Broker
from penstock.model.errors import MisuseError
from penstock.protocol.frames import Carry, Forward, Frame, KnowledgeMessage, Publish
from penstock.sim.clock import Callback, Clock
from penstock.sim.host import CostModel, Host
from penstock.sim.node import SimBroker

__all__ = ["Machine", "PoweredHost", "power", "publications_in"]

CYCLES_PER_PUBLICATION: Final = 20_000
CYCLES_PER_SUBSCRIPTION: Final = 21_000
BROKER_BYTES: Final = 16_000_000
SUBSCRIPTION_BYTES: Final = 8_000


@dataclass(slots=True, frozen=True)
class Machine:
    """The machine that a broker runs on."""

    mhz: float
    memory_mb: float
    mbps: float
    """Output bandwidth, in megabits per second."""

    def __post_init__(self) -> None:
        for name in ("mhz", "memory_mb", "mbps"):
            if getattr(self, name) <= 0:
                raise MisuseError(f"{name} {getattr(self, name)} of a machine is not positive")

    @property
    def bytes_s(self) -> int:
        """Output bandwidth, in bytes per second."""
        return round(self.mbps * 125_000)

    def times(self, factor: float) -> Machine:
        """A machine with this many times the power."""
        return Machine(self.mhz * factor, self.memory_mb * factor, self.mbps * factor)

    def matching_ns(self, subscriptions: float) -> float:
        """Time to match one publication."""
        return (CYCLES_PER_PUBLICATION + CYCLES_PER_SUBSCRIPTION * subscriptions) / self.mhz * 1_000

    def memory_share(self, subscriptions: float, waiting_bytes: int) -> float:
        """The share of its memory in use."""
        return (BROKER_BYTES + SUBSCRIPTION_BYTES * subscriptions + waiting_bytes) / (self.memory_mb * 1e6)


class PoweredHost(Host):
    """A machine on which matching takes time, depending on the number of subscriptions when it begins."""

    def __init__(self, clock: Clock, machine: Machine, subscriptions: Callable[[], int], *, scale: float = 1.0) -> None:
        """Put a broker onto a machine; with a scale, each of its subscriptions costs as much as several."""
        # The cost only means "not free"; the time that work really takes is computed when it begins.
        super().__init__(clock, CostModel(frame_ns=1))
        self.machine, self._count, self._scale = machine, subscriptions, scale
        self._work: deque[tuple[int, int, Callback]] = deque()
        self.arrived = self.handled = self.handled_ns = 0
        """Publications that arrived, publications that were matched, and how long matching took."""
        self._measured_us = self._busy_measured_us = 0
        self._started_us = 0

    def submit(self, frames: Sequence[Frame], size: int, done: Callback) -> None:
        """Work on a batch when its turn comes; at once, if it is control only.

        Silence costs nothing, but must not overtake data: what it says about filters holds from its place on.
        """
        publications = publications_in(frames)
        waits = self._is_busy or bool(self._work)
        if not publications and not (waits and any(_data_in(frame) is not None for frame in frames)):
            done()
            return
        self.arrived += publications
        self.queued_bytes += size
        self._work.append((publications, size, done))
        self.queued_max = max(self.queued_max, len(self._work))
        if not self._is_busy:
            self._next()

    @property
    def queued(self) -> int:
        """Batches that wait, without the one in work."""
        return len(self._work)

    def crash(self) -> None:
        """Drop all waiting batches."""
        self.queued_bytes -= sum(size for _, size, _ in self._work)
        self.arrived -= sum(publications for publications, _, _ in self._work)
        self._work.clear()

    def _subscriptions(self) -> float:
        return self._count() * self._scale

    def figures(self) -> HostFigures:
        """The host's figures: CPU since the last call, the rest as of now."""
        now_us = self._clock.now_us
        busy_us = self.busy_us + (now_us - self._started_us if self._is_busy else 0)
        period_us = now_us - self._measured_us
        cpu = (busy_us - self._busy_measured_us) / period_us if self._measured_us and period_us else 0.0
        self._measured_us, self._busy_measured_us = now_us, busy_us
        memory_bytes = self.machine.memory_mb * 1e6
        return HostFigures(
            min(max(cpu, 0.0), 1.0),
            self.machine.memory_share(self._subscriptions(), self.queued_bytes),
            SUBSCRIPTION_BYTES * self._scale / memory_bytes,
            self.arrived,
            self.handled,
            self.handled_ns,
        )

    def _next(self) -> None:
        publications, size, done = self._work.popleft()
        self._is_busy = True
        self._started_us = self._clock.now_us
        cost_ns = round(self.machine.matching_ns(self._subscriptions()) * publications)
        cost_us, self._carry_ns = divmod(cost_ns + self._carry_ns, 1_000)

        def finish() -> None:
            self._is_busy = False
            self.busy_us += cost_us
            self.queued_bytes -= size
            self.handled += publications
            self.handled_ns += cost_ns
            done()
            if self._work and not self._is_busy:
                self._next()

        self._clock.after(cost_us, finish)


def _data_in(frame: Frame) -> Sequence[bytes] | None:
    """The bodies of a frame that keeps its place among data, silence included; None for a control frame."""
    if isinstance(frame, Publish | Carry | KnowledgeMessage) or (isinstance(frame, Forward) and frame.pubend[0] != "$"):
        return frame.bodies
    return None


def publications_in(frames: Sequence[Frame]) -> int:
    """The number of applications' publications in some frames."""
    return sum(len(bodies) for frame in frames if (bodies := _data_in(frame)))


def power(broker: SimBroker, machine: Machine, clock: Clock, *, scale: float = 1.0) -> PoweredHost:
    """Put a broker onto a machine, before it has any connection; it gets the machine's figures periodically."""

    def subscriptions() -> int:
        core = broker.core if broker.is_up else None
        return core.rooms.subscribers.ordinary if isinstance(core, Broker) else 0

    broker.host = host = PoweredHost(clock, machine, subscriptions, scale=scale)
    period_us = broker.settings.balancing.measure_ms * 1_000

    def measure() -> None:
        broker.measure(host.figures())
        clock.after(period_us, measure)

    clock.after(period_us, measure)
    return host
