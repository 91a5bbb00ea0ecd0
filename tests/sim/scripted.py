"""A broker that says what a test tells it to say, and keeps what it hears."""

from __future__ import annotations

from random import Random

from penstock.broker.outbox import Outbox
from penstock.protocol.frames import PROTOCOL_VERSION, DataFrame, Frame, Hello, Welcome
from penstock.sim.client import SimClient
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import ClientLink, End
from penstock.sim.shell import Surroundings
from penstock.sim.trace import Trace


class ScriptedBroker:
    """Welcomes whoever comes, and does nothing else by itself."""

    is_up = True

    def __init__(self, clock: Clock, name: str = "b1", *, best_effort: tuple[str, ...] = ()) -> None:
        self.name, self.host = name, Host(clock)
        self.heard: list[Frame] = []
        """What it heard on the present connection."""
        self.pubends, self.best_effort = ("p", "q"), best_effort
        self.credit_bytes = 1_000_000
        self.welcomes = 0
        self.now_ms = 5_000
        self._end: End | None = None
        self._outbox = Outbox(control_bytes_max=1 << 30, data_bytes_max=1 << 30)

    def on_connected(self, end: End, *, dialled: str) -> None:
        self._end, self.heard = end, []
        self._outbox = Outbox(control_bytes_max=1 << 30, data_bytes_max=1 << 30)
        end.attach(self._outbox)

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        self.heard += frames
        if any(isinstance(frame, Hello) for frame in frames):
            self.welcomes += 1
            self.say(
                Welcome(
                    PROTOCOL_VERSION,
                    self.name,
                    "o",
                    100 + self.welcomes,
                    1,
                    self.now_ms,
                    1_000,
                    self.credit_bytes,
                    self.pubends,
                    self.best_effort,
                )
            )

    def on_lost(self, end: End) -> None:
        self._end = None

    def say(self, *frames: Frame) -> None:
        """One after the other, so that none overtakes another."""
        assert self._end is not None
        for frame in frames:
            if isinstance(frame, DataFrame):
                self._outbox.push_data(frame)
            else:
                self._outbox.push_control(frame)
            self._end.wake()

    def all(self, kind: type) -> list[Frame]:
        return [frame for frame in self.heard if isinstance(frame, kind)]


def idle_client(name: str, *selectors: str) -> SimClient:
    """A client that never connects, with records to be filled in by a test: its session does not touch them."""
    clock = Clock()

    def nowhere(_client: str, _broker: str) -> ClientLink:
        raise AssertionError("it was not to connect")

    made = SimClient(name, Surroundings(clock, Trace(), Host(clock), nowhere), place="nowhere")
    for selector in selectors:
        made.subscribe(selector)
    made.witness._records, made.witness._inboxes = {}, {}
    return made


class Play:
    """A client, and a broker that follows a script."""

    def __init__(self, *, best_effort: tuple[str, ...] = ()) -> None:
        self.clock = Clock()
        self.broker = ScriptedBroker(self.clock, best_effort=best_effort)
        around = Surroundings(self.clock, Trace(), Host(self.clock), lambda _client, _broker: self.link)
        self.client = SimClient("c", around, place="b1")
        self.link = ClientLink(self.clock, Random(1), self.client, self.broker)
        self.client.open()
        self.run()

    def run(self, ms: int = 500) -> None:
        self.clock.run_for(ms * 1_000)

    def say(self, *frames: Frame) -> None:
        self.broker.say(*frames)
        self.run(10)

    def reconnect(self) -> None:
        self.link.cut(loud=True)
        self.link.heal()
        self.run()
