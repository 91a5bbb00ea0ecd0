"""Penstock as a peer of the others: the broker of this tree, driven by its own protocol.

It takes part twice: as it is by default, with a record of where each message went, and with nothing recorded, as the
others do. The difference is what tracking costs.

A publisher's batch is one frame, and the broker acknowledges as it grants credit. A connection gets a message once,
with the numbers of all its subscriptions that match, where the others deliver it once per subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.live_driver import PENSTOCK, Connection, Dialect, DriverError
from bench.live_load import Load
from bench.peers.message import PeerMessage
from bench.peers.peer import Interest, Peer, Service
from bench.peers.server import Server, as_broker
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Handed, Join, Outcomes, Subscribed, Unsubscribe, Unsubscribed, Verdicts
from penstock.protocol.work_frames import Outcome, Verdict

__all__ = ["PenstockPeer", "PenstockWorker", "UntrackedPenstock", "plan_of"]

_NUMBER: Final = 1
_DONE: Final = int(Verdict.DONE)


class PenstockPeer(Peer):
    """A broker of this tree."""

    name = "Penstock"
    package = ""
    program = ""
    is_one_per_connection = True

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a broker of this tree."""
        with ExitStack() as stack:
            with as_broker():
                overlay = stack.enter_context(DemoOverlay(self.plan(service), folder=folder))
            yield Server(overlay.pid("b1"), overlay.port("b1"))

    def plan(self, service: Service) -> OverlayPlan:
        """The overlay that is measured."""
        return plan_of(service)

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """Penstock's own protocol; its log keeps everything."""
        return PENSTOCK

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> Load:
        """Encode messages."""
        return Load([each.attributes for each in messages])

    def wanted(self, interest: Interest, service: Service) -> str:
        """The selector."""
        return interest.selector

    def open_queue(self, port: int, topic: str) -> None:
        """Make a group for all messages: it keeps the log from now on."""
        PenstockWorker(port, "maker", 1).leave()

    def worker(self, port: int, name: str, topic: str, prefetch: int) -> PenstockWorker:
        """Connect a member of the group."""
        return PenstockWorker(port, name, prefetch)

    def missing(self) -> str:
        """Nothing: it is here."""
        return ""


class UntrackedPenstock(PenstockPeer):
    """A broker of this tree that does not record where messages go."""

    name = "Penstock, nothing recorded"

    def plan(self, service: Service) -> OverlayPlan:
        """The same overlay without tracking."""
        return replace(plan_of(service), tracking="null")


class PenstockWorker:
    """A member of a group; a job counts as done when the broker says that this is durable."""

    def __init__(self, port: int, name: str, prefetch: int) -> None:
        self._connection = Connection(port, name)
        self.socket = self._connection.socket
        self.done = 0
        self._ticks: set[int] = set()
        join = Join(_NUMBER, "TRUE", "workers", name.encode(), 1, work_ms=30_000, prefetch=prefetch, start=0)
        self.socket.sendall(encode_frame(join))

    def leave(self) -> None:
        """Wait until the group exists, and leave it."""
        self._connection.wait_for(Subscribed, 1)
        self.socket.sendall(encode_frame(Unsubscribe(_NUMBER)))
        self._connection.wait_for(Unsubscribed, 1)
        self.socket.close()

    def on_readable(self) -> None:
        """Read what is there, and acknowledge each job."""
        for frame in self._connection.read():
            if isinstance(frame, Handed):
                jobs = zip(frame.ticks, frame.attempts, strict=True)
                if any(attempt != 1 for attempt in frame.attempts) or not self._ticks.isdisjoint(frame.ticks):
                    raise DriverError("a broker of Penstock handed out a job again")
                self._ticks.update(frame.ticks)
                verdicts = tuple((tick, attempt, _DONE, 0, "") for tick, attempt in jobs)
                self.socket.sendall(encode_frame(Verdicts(_NUMBER, frame.pubend, verdicts)))
            elif isinstance(frame, Outcomes):
                self.done += len(frame.outcomes)
                if any(outcome != Outcome.KEPT for *_, outcome in frame.outcomes):
                    raise DriverError("a broker of Penstock did not take an acknowledgement")

    def finish(self) -> None:
        """Nothing is left to wait for: the broker has answered every acknowledgement."""


def plan_of(service: Service) -> OverlayPlan:
    """One broker of the service class; without heartbeats, which would disturb the measurement."""
    return OverlayPlan(
        {"b1": ("b1.a",)},
        defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000},
        service="guaranteed" if service.is_durable else "best-effort",
    )
