"""The token between real processes on loopback, with constants in milliseconds; the holder is killed again and again.

Members speak UDP. A member is killed (SIGKILL) in the middle of an operation, and restarted. Stabilisation after a kill
lasts until the first operation from which on only one token operates until the next kill. Stability is judged from
outside, by the times of operations: nobody sees how many tokens there are.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.token.figures import overlap_share, ratio
from penstock.lab.token.live.member import run_member
from penstock.lab.token.walk import VARIANT, constants_of
from penstock.model.errors import PenstockError
from penstock.token.settings import Constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TOKEN_LIVE", "LiveGroup", "Operation", "free_names", "stabilised_ms"]

_NS: Final = 1_000_000
_START_S_MAX: Final = 120.0


@dataclass(slots=True)
class Operation:
    """One operation of a member, in milliseconds."""

    member: str
    generation: str
    begin_ms: float
    end_ms: float = -1.0
    """Negative while the operation lasts."""


@dataclass(slots=True)
class _Process:
    process: Any
    pipe: Connection


@dataclass(slots=True)
class LiveGroup:
    """The member processes of one group, and the events that they report."""

    names: Sequence[str]
    op_ms: int
    min_ms: int
    variant: str
    operations: list[Operation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Events that members logged, by kind."""
    _processes: dict[str, _Process] = field(default_factory=dict)
    _ready: dict[str, None] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a member."""
        # A server that loads everything once and forks for each: twenty interpreters would take a minute.
        context = get_context("forkserver")
        context.set_forkserver_preload(["penstock.lab.token.live.member"])
        pipe, far = context.Pipe(duplex=False)
        process = context.Process(
            target=run_member, args=(name, self.names, far, (self.op_ms, self.min_ms), self.variant), daemon=True
        )
        process.start()
        far.close()
        self._processes[name] = _Process(process, pipe)

    def start_all(self) -> None:
        """Start all members, and wait until they listen."""
        for name in self.names:
            self.start(name)
        give_up_s = time.monotonic() + _START_S_MAX
        while len(self._ready) < len(self.names):
            if time.monotonic() > give_up_s:
                raise PenstockError(f"{len(self.names) - len(self._ready)} members did not start")
            self.listen(0.1)

    def kill(self, name: str) -> float:
        """Kill a member at once, and return when that was, in milliseconds."""
        killed = self._processes.pop(name)
        killed.process.kill()
        killed_ms = time.monotonic_ns() / _NS
        killed.process.join()
        killed.pipe.close()
        for operation in self.operations[-20:]:
            if operation.member == name and operation.end_ms < 0:
                operation.end_ms = killed_ms
        return killed_ms

    def stop(self) -> None:
        """Kill all members."""
        for name in list(self._processes):
            self.kill(name)

    def listen(self, timeout_s: float) -> list[Operation]:
        """Wait for reports, at most for this time, and return the operations that have begun."""
        begun: list[Operation] = []
        pipes = {each.pipe: name for name, each in self._processes.items()}
        for pipe in wait(list(pipes), timeout_s):
            assert isinstance(pipe, Connection)
            self._hear(pipes[pipe], pipe, begun)
        return begun

    def next_operation(self, timeout_s: float) -> Operation | None:
        """Wait for the next operation to begin; None if none does in time."""
        give_up_s = time.monotonic() + timeout_s
        while (left_s := give_up_s - time.monotonic()) > 0:
            begun = self.listen(left_s)
            if begun:
                return begun[-1]
        return None

    def listen_for(self, duration_s: float) -> None:
        """Collect reports for a while."""
        until_s = time.monotonic() + duration_s
        while (left_s := until_s - time.monotonic()) > 0:
            self.listen(left_s)

    def _hear(self, name: str, pipe: Connection, begun: list[Operation]) -> None:
        try:
            what, at_ns, generation = pipe.recv()
        except (EOFError, OSError):
            raise PenstockError(f"member {name} has ended by itself") from None
        at_ms = at_ns / _NS
        if what == "ready":
            self._ready[name] = None
        elif what == "begin":
            self.operations.append(Operation(name, generation, at_ms))
            begun.append(self.operations[-1])
        elif what == "end":
            for operation in reversed(self.operations):
                if operation.member == name:
                    operation.end_ms = at_ms
                    break
        else:
            self.counts[what] = self.counts.get(what, 0) + 1


def stabilised_ms(operations: Sequence[Operation], killed_ms: float, until_ms: float) -> float | None:
    """Time from a kill to the first operation from which on only one token operates; None without operations."""
    after = [each for each in operations if killed_ms < each.begin_ms < until_ms]
    if not after:
        return None
    last = after[-1].generation
    first = next(place for place in range(len(after)) if all(each.generation == last for each in after[place:]))
    return after[first].begin_ms - killed_ms


def free_names(members: int) -> list[str]:
    """Find UDP addresses on loopback that are free at the moment."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(members)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    names = ["{}:{}".format(*each.getsockname()) for each in sockets]
    for each in sockets:
        each.close()
    return names


def _run(context: Context) -> Mapping[str, float]:
    members, kills, op_ms = context.integer("members"), context.integer("kills"), context.integer("op_ms")
    constants = Constants.for_size(members, op_ms=op_ms, load=0.8, variant=constants_of(context).variant)
    group = LiveGroup(free_names(members), op_ms, constants.min_ms, constants.variant)
    context.reporter.stage(f"{members} processes, of which the holder is killed", total=kills)
    killed: list[float] = []
    try:
        group.start_all()
        _expect(group, constants)
        begun_ms = time.monotonic_ns() / _NS
        group.listen_for(2 * constants.min_ms / 1_000)
        for _ in range(kills):
            holder = _expect(group, constants)
            killed.append(group.kill(holder.member))
            group.start(holder.member)
            _expect(group, constants)
            group.listen_for(2 * constants.min_ms / 1_000)
            context.reporter.advance()
        ended_ms = time.monotonic_ns() / _NS
    finally:
        group.stop()
    return _measured(context, group, killed, (begun_ms, ended_ms), constants)


def _expect(group: LiveGroup, constants: Constants) -> Operation:
    # After a kill, a token is made once a member has seen none for Δgen, which may have grown.
    operation = group.next_operation(20 * constants.max_ms / 1_000)
    if operation is None:
        raise PenstockError(f"no member has operated for {20 * constants.max_ms:,} ms")
    return operation


def _measured(
    context: Context, group: LiveGroup, killed: list[float], span: tuple[float, float], constants: Constants
) -> dict[str, float]:
    begun_ms, ended_ms = span
    spans = [(each.begin_ms, each.end_ms if each.end_ms >= 0 else ended_ms) for each in group.operations]
    settled = [
        found
        for at_ms, next_ms in zip(killed, [*killed[1:], ended_ms], strict=True)
        if (found := stabilised_ms(group.operations, at_ms, next_ms)) is not None
    ]
    context.figure(lambda figure: _draw(figure, group, killed, begun_ms, constants))
    return {
        "overlap": round(overlap_share(spans, begun_ms, ended_ms), 6),
        "stabilisation_ms_mean": round(ratio(sum(settled), len(settled)), 1),
        "stabilisation_ms_max": round(max(settled, default=0.0), 1),
        "kills": len(killed),
        "operations": len(group.operations),
        "operating": round(ratio(sum(end - begin for begin, end in spans), ended_ms - begun_ms), 4),
        "generated": group.counts.get("token-generated", 0),
        "discarded": group.counts.get("token-discarded", 0),
        "min_ms": constants.min_ms,
        "max_ms": constants.max_ms,
    }


def _draw(figure: Figure, group: LiveGroup, killed: list[float], begun_ms: float, constants: Constants) -> None:
    axes = figure.add_subplot()
    rows = {name: place for place, name in enumerate(group.names)}
    for operation in group.operations:
        begin_s = (operation.begin_ms - begun_ms) / 1_000
        axes.plot([begin_s], [rows[operation.member]], "|", color="#4477aa", markersize=7)
    for place, at_ms in enumerate(killed):
        label = "the holder is killed" if place == 0 else None
        axes.axvline((at_ms - begun_ms) / 1_000, color="#cc6677", linewidth=1, label=label)
    axes.plot([], [], "|", color="#4477aa", label=f"operation of {constants.op_ms} ms")
    axes.set(xlabel="time (s)", ylabel="member", yticks=range(0, len(group.names), 2))
    axes.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.set_title(
        f"Operations of {len(group.names)} processes, Δmin {constants.min_ms} ms, Δmax {constants.max_ms} ms"
    )


TOKEN_LIVE: Final = Experiment(
    name="token-live",
    summary="real processes on loopback share a token, and its holder is killed again and again",
    source="our own; [Token] section 4 promises that the loss of a token heals by itself",
    parameters=(
        VARIANT,
        Parameter("members", 20, "processes", quick=6, minimum=2, maximum=200),
        Parameter("kills", 15, "how often the holder is killed", quick=2, minimum=0, maximum=10_000),
        Parameter("op_ms", 40, "time of one operation, in ms; the other constants follow", minimum=5, maximum=60_000),
    ),
    published={},
    run=_run,
)
