"""The shell of a simulated broker: brings it stimuli, carries out its effects, wakes it at its deadlines.

It is as thin as the live one, and makes no protocol decision. Crashes come from outside; its disk outlives them. Its
wall clock may be wrong by an offset, which changes only from one life to the next, as a live broker reads the wall
clock only when it starts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Final

from penstock.balancing.metrics import HostFigures
from penstock.broker.durable import Recovered
from penstock.broker.effects import (
    Close,
    Commit,
    Effect,
    EndLife,
    Hold,
    Operate,
    ReadKept,
    ReadLog,
    Record,
    Resume,
    Wake,
)
from penstock.broker.mechanisms.operating import Operation
from penstock.broker.outbox import Outbox
from penstock.broker.ports import BrokerPort
from penstock.broker.settings import BrokerSettings
from penstock.model.errors import MisuseError
from penstock.model.tick import TickRange
from penstock.protocol.frames import Frame
from penstock.sim.clock import Clock
from penstock.sim.device import Device, DeviceUser
from penstock.sim.disk import Disk
from penstock.sim.host import Host
from penstock.sim.link import End
from penstock.sim.ports import MakeBroker
from penstock.sim.process import Gate
from penstock.sim.trace import Trace

__all__ = ["SimBroker"]

_NEVER_US: Final = 2**63
_OPERATIONS_MAX: Final = 10_000


class SimBroker:
    """A broker in the virtual world, in one life after the other."""

    def __init__(
        self,
        settings: BrokerSettings,
        make: MakeBroker,
        *,
        seed: str,
        clock: Clock,
        trace: Trace,
        host: Host,
        checks: bool = False,
        gate: Gate | None = None,
    ) -> None:
        """Start the first life; with ``checks``, invariants are checked after every step.

        A broker that runs in the process of another one has its gate, and starts when it is told to.
        """
        self.name = settings.name
        self.settings = settings
        self.host = host
        self.incarnation = 0
        """Lives so far."""
        self.steps = 0
        """Steps so far: inputs and deadlines handled."""
        self.clock_offset_ms = 0
        """By how much the wall clock of the next life will be ahead of virtual time."""
        self.watch: Callable[[SimBroker], None] | None = None
        """Called after every step of the broker, for an observer."""
        self._owns_gate = gate is None
        self.gate = gate or Gate()
        """Shut while the process is stopped, as by SIGSTOP."""
        self.may_act: Callable[[], bool] | None = None
        """Asked before every step; when it says no, the broker falls silent."""
        self.is_silent = False
        """Whether this life handles and sends nothing any more."""
        self.on_life: Callable[[str], None] | None = None
        """Called when a life has begun, with an empty text, or has ended, with how."""
        self.closed: Counter[str] = Counter()
        """How many connections it has closed, by the code."""
        self.silences = 0
        """How often it has fallen silent."""
        self.wall_clocks: list[tuple[int, int]] = []
        """By how much the wall clock of each life was ahead of virtual time, with the time when the life began."""
        self.counts_of_lives: Counter[str] = Counter()
        """Event counters of the brokers of former lives."""
        self.device_user = DeviceUser(
            self._on_committed, self._on_values_kept, self._on_log_full, self._on_log_read, self._on_kept_read
        )
        """Whom a device tells what it has done."""
        self.device = Device(
            clock,
            Random(f"{seed}/{settings.name}/device"),
            self.device_user,
        )
        """Makes its log durable; faults may slow it down or fill it."""
        self.operations: deque[tuple[int, str]] = deque(maxlen=_OPERATIONS_MAX)
        """When a token enabled it, in virtual milliseconds, and the fencing number."""
        self._make, self._seed = make, seed
        self._clock, self._trace, self._checks = clock, trace, checks
        self._core: BrokerPort | None = None
        self._ends: dict[int, End] = {}
        self._arriving: dict[End, None] = {}
        """Connections that this life has not noticed yet, as its process is stopped."""
        self._outboxes: dict[int, Outbox] = {}
        self._connections = 0
        self._armed_us = _NEVER_US
        self._offset_ms = 0
        if self._owns_gate:
            self.start()

    @property
    def is_up(self) -> bool:
        """Whether the broker runs."""
        return self._core is not None

    @property
    def core(self) -> BrokerPort:
        """The broker of the present life."""
        if self._core is None:
            raise MisuseError(f"broker {self.name} is down")
        return self._core

    @property
    def now_ms(self) -> int:
        """The time as the broker of this life sees it."""
        return self._now_ms()

    @property
    def offset_ms(self) -> int:
        """By how much the wall clock of this life is ahead of virtual time."""
        return self._offset_ms

    @property
    def connections(self) -> int:
        """Connections it holds now."""
        return len(self._ends)

    @property
    def disk(self) -> Disk:
        """The disk, which it keeps over all its lives."""
        return self.device.disk

    def wall_ms(self, at_us: int) -> int:
        """What the wall clock showed at a time, in the last life that had begun by then."""
        begun = [offset_ms for began_us, offset_ms in self.wall_clocks if began_us <= at_us]
        return at_us // 1_000 + begun[-1]

    def wall_ms_max(self) -> int:
        """The latest time that the wall clock has shown in any life so far."""
        ends_us = [began_us for began_us, _ in self.wall_clocks[1:]] + [self._clock.now_us]
        return max(end // 1_000 + offset for end, (_, offset) in zip(ends_us, self.wall_clocks, strict=True))

    def counts(self) -> Counter[str]:
        """Event counters over all lives, including the present one."""
        return self.counts_of_lives + self._present_counts()

    @property
    def memory_bytes(self) -> int:
        """The memory it needs: for itself, its subscriptions, and everything that waits."""
        cost, status = self.host.cost, self.core.status()
        waiting = status.outbox_bytes + self.host.queued_bytes
        return int(cost.broker_bytes + cost.subscription_bytes * status.subscriptions + waiting)

    def start(self, *, incarnation: int | None = None, recovered: Recovered | None = None) -> None:
        """Begin a new life, which knows only what earlier ones left on the disk, or what it is given."""
        if self._core is not None:
            raise MisuseError(f"broker {self.name} is up already")
        self.incarnation = self.incarnation + 1 if incarnation is None else incarnation
        self.is_silent = False
        rng = Random(f"{self._seed}/{self.name}/{self.incarnation}")
        self._offset_ms = self.clock_offset_ms
        self.wall_clocks.append((self._clock.now_us, self._offset_ms))
        self._core = self._make(
            self.settings, incarnation=self.incarnation, rng=rng, recovered=recovered or self.device.disk.recovered()
        )
        self._note(f"starts, incarnation {self.incarnation}")
        self._arm(self._core, self._clock.now_us)
        if self.on_life is not None:
            self.on_life("")

    def crash(self, *, loud: bool) -> None:
        """Lose everything that is not on disk at once; if loud, the network tells the peers, as after a kill."""
        if self._owns_gate:
            self.gate.clear()
        self._end_life("crashes" if loud else "crashes silently")
        self.device.crash()
        self.host.crash()
        for end in self._forget_all():
            end.abort(loud=loud)

    def fall_silent(self) -> None:
        """Handle and send nothing from now on, and drop all connections: what it knows may be out of date."""
        if self.is_silent:
            return
        self.is_silent = True
        self.silences += 1
        self._note("falls silent")
        for end in self._forget_all():
            end.abort(loud=True)

    def stop(self) -> None:
        """Say goodbye, send what is queued, and end; a process that is stopped goes on first."""
        if self.gate.is_shut:
            self.gate.open()
            if self._core is None:
                # It has ended by what it noticed when it went on.
                return
        effects = self.core.shutdown(now_ms=self._now_ms())
        self._end_life("stops")
        self._carry_out(effects)
        self.device.stop()
        for end in self._forget_all():
            end.close()

    def apply(self, settings: BrokerSettings) -> None:
        """Change the settings: at once if it is up, and for all lives to come."""
        self.settings = settings
        core = self._core
        if core is not None:
            self._note("has new settings")
            self._after_step(core, core.apply(settings, now_ms=self._now_ms()))

    def operate(self, operation: Operation) -> None:
        """Have the broker do what an operator wants, if it is up."""
        core = self._core
        if core is not None:
            self._after_step(core, core.operate(operation, now_ms=self._now_ms()))

    def measure(self, figures: HostFigures) -> None:
        """Give the broker its host's figures, if it is up."""
        core = self._core
        if core is not None:
            self._after_step(core, core.measured(figures, now_ms=self._now_ms()))

    def on_connected(self, end: End, *, dialled: str) -> None:
        """Tell the broker of a new connection."""
        self._arriving[end] = None
        self.gate.through(partial(self._on_connected, end, dialled))

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Hand arrived frames to the broker."""
        if self.gate.is_shut:
            self.gate.through(partial(self.on_frames, end, frames))
            return
        core = self._may_step()
        if core is not None and self._ends.get(end.number) is end:
            self._note(f"< {end.number} {len(frames)} {type(frames[0]).__name__}")
            self._after_step(core, core.receive(end.number, frames, now_ms=self._now_ms()))

    def on_lost(self, end: End) -> None:
        """Tell the broker of a lost connection."""
        self.gate.through(partial(self._on_lost, end))

    def _on_connected(self, end: End, dialled: str) -> None:
        if end not in self._arriving:
            # The life to which it came is over.
            return
        del self._arriving[end]
        core = self._may_step()
        if core is None:
            end.abort(loud=True)
            return
        self._connections += 1
        number = end.number = self._connections
        self._note(f"connects to {end.peer.node.name} as {number}")
        self._ends[number] = end
        effects = core.connect(number, now_ms=self._now_ms(), dialled=dialled)
        self._outboxes[number] = outbox = core.outbox(number)
        end.attach(outbox)
        self._after_step(core, effects)

    def _on_lost(self, end: End) -> None:
        if self._ends.get(end.number) is not end:
            # The life that had it is over.
            return
        self._note(f"loses {end.peer.node.name} as {end.number}")
        self._forget(end.number)
        core = self._may_step()
        if core is not None:
            self._after_step(core, core.disconnect(end.number, now_ms=self._now_ms()))

    def check_invariants(self) -> None:
        """Fails if an outbox, a wire or the broker itself breaks an invariant."""
        for number, outbox in self._outboxes.items():
            outbox.check_invariants()
            self._ends[number].outward.check_invariants()
        check = getattr(self._core, "check_invariants", None)
        if check is not None:
            check()

    # The device drops its work when a life ends, so these always find the broker that asked, unless it is silent.

    def _on_committed(self, number: int) -> None:
        self._hear(f"commits up to {number}", lambda core: core.committed(number, now_ms=self._now_ms()))

    def _on_values_kept(self, number: int) -> None:
        self._hear(
            f"keeps values up to {number}",
            lambda core: core.committed(number, now_ms=self._now_ms(), values_only=True),
        )

    def _on_log_full(self, reason: str) -> None:
        self._hear(f"cannot commit: {reason}", lambda core: core.log_full(reason, now_ms=self._now_ms()))

    def _on_log_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None
    ) -> None:
        self._hear(
            f"reads {number}, {len(messages)} up to {last}{', damage' if damaged else ''}",
            lambda core: core.log_read(number, messages, last, now_ms=self._now_ms(), damaged=damaged),
        )

    def _on_kept_read(self, number: int, values: dict[str, bytes | None]) -> None:
        found = sum(value is not None for value in values.values())
        self._hear(
            f"reads {number}, {found} of {len(values)} records",
            lambda core: core.kept_read(number, values, now_ms=self._now_ms()),
        )

    def _hear(self, what: str, step: Callable[[BrokerPort], Sequence[Effect]]) -> None:
        """Hear of the device, now or when the process goes on."""
        if self.gate.is_shut:
            self.gate.through(partial(self._hear, what, step))
            return
        core = self._may_step()
        if core is not None:
            self._note(what)
            self._after_step(core, step(core))

    def _may_step(self) -> BrokerPort | None:
        """The broker, if it may handle anything; if it may not any more, it falls silent."""
        if self.may_act is not None and self._core is not None and not self.may_act():
            self.fall_silent()
        return None if self.is_silent else self._core

    def _after_step(self, core: BrokerPort, effects: Sequence[Effect]) -> None:
        self.steps += 1
        self._carry_out(effects)
        if self._checks:
            self.check_invariants()
        if self.watch is not None:
            self.watch(self)
        if self.host.memory_bytes is not None and self.memory_bytes > self.host.memory_bytes:
            # At once, but not in the middle of this step.
            self._clock.after(0, self._run_out_of_memory)
        self._arm(core, self._clock.now_us)

    def _run_out_of_memory(self) -> None:
        if self._core is not None:
            self._note("is killed: out of memory")
            self.crash(loud=True)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            # Identity of types instead of isinstance: nearly all effects are these.
            if type(effect) is Wake:
                # A broker may wake a connection and close it in one step.
                end = self._ends.get(effect.connection)
                if end is not None:
                    end.outward.wake()
            elif isinstance(effect, Close):
                self._note(f"closes {effect.connection}: {effect.code} {effect.reason}")
                self.closed[effect.code] += 1
                end = self._forget(effect.connection)
                if end is not None:
                    end.close()
            elif isinstance(effect, Hold | Resume):
                # Input that arrives meanwhile waits inside the broker: nobody sends without end here.
                continue
            elif isinstance(effect, Commit):
                self.device.commit(effect)
            elif isinstance(effect, ReadLog | ReadKept):
                self.device.read(effect)
            elif isinstance(effect, Operate):
                self._operate(effect)
            elif isinstance(effect, EndLife):
                self._note(f"ends: {effect.reason}")
                self._clock.after(0, partial(self._end_at_once, self._core))
            else:
                assert isinstance(effect, Record)
                fields = " ".join(f"{name}={value}" for name, value in effect.fields)
                self._note(f"{effect.event} {fields}".rstrip())

    def _end_at_once(self, core: BrokerPort | None) -> None:
        """End a life that is not the last one, after the step in which it learnt that."""
        if self._core is not None and self._core is core:
            self.closed["superseded"] += 1
            self.crash(loud=True)

    def _operate(self, effect: Operate) -> None:
        """Do heavy work that takes all the time it may have."""
        core, began_ms = self._core, self._now_ms()
        self._note(f"operates as {effect.fence}")
        self.operations.append((self._clock.now_us // 1_000, effect.fence))

        def end() -> None:
            if core is not None and core is self._core:
                self._note(f"has operated as {effect.fence}")
                self._after_step(core, core.operated(effect.fence, now_ms=self._now_ms()))

        self._clock.after(max(effect.until_ms - began_ms, 0) * 1_000, end)

    def _forget_all(self) -> list[End]:
        """Forget all connections, and return them."""
        ends = [*self._ends.values(), *self._arriving]
        self._ends.clear()
        self._outboxes.clear()
        self._arriving.clear()
        return ends

    def _forget(self, number: int) -> End | None:
        self._outboxes.pop(number, None)
        return self._ends.pop(number, None)

    def _arm(self, core: BrokerPort, earliest_us: int) -> None:
        # Rounded up: a deadline in the same millisecond may be earlier than the timer.
        armed_ms = -(-self._armed_us // 1_000) + self._offset_ms
        if not core.may_be_due_before(armed_ms):
            return
        due_ms = core.next_deadline()
        if due_ms is None:
            return
        due_us = max((due_ms - self._offset_ms) * 1_000, earliest_us)
        # A later deadline needs no timer of its own: the earlier one looks again when it rings.
        if due_us < self._armed_us:
            self._armed_us = due_us
            self._clock.at(due_us, self._ring)

    def _ring(self) -> None:
        now_us = self._clock.now_us
        if now_us != self._armed_us:
            return
        if self.gate.is_shut:
            self.gate.ring(self._ring_late)
            return
        core = self._may_step()
        if core is None:
            return
        self._armed_us = _NEVER_US
        due_ms, now_ms = core.next_deadline(), self._now_ms()
        if due_ms is None or due_ms > now_ms:
            self._arm(core, now_us)
            return
        self.steps += 1
        self._carry_out(core.on_deadline(now_ms=now_ms))
        if self._checks:
            self.check_invariants()
        if self.watch is not None:
            self.watch(self)
        # A deadline that stays in the past must not stop time.
        self._arm(core, now_us + 1_000)

    def _ring_late(self) -> None:
        """The process goes on after a time in which it did not hear its timer."""
        core = self._may_step()
        if core is not None:
            self._armed_us = _NEVER_US
            self._arm(core, self._clock.now_us)

    def _end_life(self, how: str) -> None:
        if self._core is None:
            raise MisuseError(f"broker {self.name} is down already")
        self.counts_of_lives += self._present_counts()
        self._core = None
        self._armed_us = _NEVER_US
        self._note(how)
        if self.on_life is not None:
            self.on_life(how)

    def _present_counts(self) -> Counter[str]:
        return Counter(self._core.status().counts if self._core is not None else {})

    def _now_ms(self) -> int:
        """The time as the broker of this life sees it."""
        return self._clock.now_us // 1_000 + self._offset_ms

    def _note(self, what: str) -> None:
        self._trace.note(self._clock.now_us, self.name, what)
