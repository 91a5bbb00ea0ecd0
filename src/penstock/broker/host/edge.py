"""One pubend at a subscriber-hosting broker: the shared edge stream, and catch-ups for those that start behind it.

[Gryphon] section 2. All subscriptions share one stream. One that begins later than the stream's doubt horizon waits for
its tick; one that begins before it is served by a catch-up stream, which gathers all that come at about the same time
and ends where it meets the shared one. A stream in doubt sends NACKs, within the NACK window, and repeats them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.access import NOBODY, Claimant
from penstock.broker.narrowing import is_wanted
from penstock.broker.settings import BrokerSettings
from penstock.congestion.edge_control import EdgeControl
from penstock.congestion.sdcc import NackControl, NackGroup
from penstock.congestion.settings import CongestionSettings
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.protocol.stream_frames import LATEST, Missing
from penstock.selectors.ast import Condition
from penstock.selectors.effort import effort_of
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.text import parse
from penstock.streams.edge_stream import EdgeSettings, EdgeStream
from penstock.streams.knowledge import Knowledge
from penstock.streams.nacks import NackWindow

__all__ = ["NEVER", "CatchUp", "Edge", "HostSubscription"]

NEVER: Final = 2**63
"""Used in place of a tick: the shared stream does not serve this subscription yet."""
_TESTS_MAX: Final = 8
_GATHER_MS: Final = 50
"""How long the first subscription that needs a catch-up waits for others."""


@dataclass(slots=True)
class HostSubscription:
    """A subscription as its host knows it."""

    key: int
    connection: int
    number: int
    version: int
    """The version of the host's filter that includes it."""
    positions: dict[str, int] = field(default_factory=dict)
    """The first ticks that it asked for, by pubend."""
    starts: dict[str, int] = field(default_factory=dict)
    """The ticks from which on it misses nothing, by pubend."""
    resumes: bool = False
    otherwise: int = LATEST
    """The first tick that it asked for on all other pubends."""
    missing: Missing = "fail"
    durable: str = ""
    claimant: Claimant = NOBODY
    """If it is durable: the client that claims it."""
    ownership: int = 0
    selector: str = ""
    """Its selector, in canonical form."""
    pubends: tuple[str, ...] = ()
    """The only pubends whose messages it wants; none for all."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """If it is durable: the ticks below which its application has everything."""
    early: dict[str, int] = field(default_factory=dict)
    """Positions that its client acknowledged before the pubend had granted it the name."""
    pending: dict[str, deque[int]] = field(default_factory=dict)
    """If it is durable: the ticks of the latest messages that were sent and are not acknowledged, by pubend."""
    opened: dict[str, int] = field(default_factory=dict)
    """The ticks that pubends have answered with, if they were asked."""
    settled: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By pubend, messages that were acknowledged before it begins there, until its client is told."""
    fresh: dict[str, None] = field(default_factory=dict)
    """If it is durable: the pubends at which the name is new."""
    is_denied: bool = False
    """Whether some pubend said that the name belongs to another client."""
    announced: dict[str, None] = field(default_factory=dict)
    """The pubends whose starts were announced to the client, in order with its deliveries."""

    def wants(self, pubend: str) -> bool:
        """Whether it wants messages of a pubend."""
        return is_wanted(pubend, self.pubends)

    def must_ask(self, pubend: str) -> bool:
        """Whether only the pubend can say where the subscription begins."""
        if pubend in self.opened:
            return False
        if self.durable:
            return True
        return not self.resumes if pubend in self.positions else self.otherwise != LATEST

    def wanted(self, pubend: str) -> int | None:
        """The tick where the subscription begins, if that is not simply where it is confirmed."""
        return self.opened.get(pubend, self.positions.get(pubend))


@dataclass(slots=True)
class CatchUp:
    """A stream for subscriptions that start behind the shared one."""

    stream: EdgeStream
    nacks: NackWindow
    control: NackControl
    members: dict[int, int]
    """The first tick for each subscription."""
    meets_at: int
    """The tick from which on the shared stream has what the members want."""
    ready: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Messages that can be delivered as soon as members have read what they were sent before, and it is their turn."""
    ready_bytes: int = 0
    is_paused: bool = False
    """Whether nothing is requested, as some member does not read."""
    tests: tuple[Evaluation, ...] = ()
    """The members' compiled selectors, if they are few: nobody wants most of an old log, and the index is slower."""
    effort: int = 1
    """The effort of all tests together, on a small message."""
    message_effort: int = 0
    """The effort that a message took lately, with its deliveries; 0 before the first."""

    def note_effort(self, effort: int, messages: int) -> None:
        """Notes what some messages took; the estimate rises at once, and falls gradually."""
        mean = effort // messages
        self.message_effort = max(mean, (self.message_effort + mean) // 2, 1)

    def add_ready(self, ticks: list[int], bodies: list[bytes]) -> None:
        """Adds messages that the stream has in order."""
        self.ready.extend(zip(ticks, bodies, strict=True))
        self.ready_bytes += sum(map(len, bodies))

    @property
    def position(self) -> int:
        """The first tick that the catch-up has not delivered."""
        return self.ready[0][0] if self.ready else self.stream.horizon


class Edge:
    """The streams of one pubend at one host."""

    def __init__(
        self,
        pubend: str,
        number: int,
        start_tick: int,
        settings: BrokerSettings,
        rng: Rng,
        *,
        now_ms: int = 0,
        group: NackGroup | None = None,
    ) -> None:
        self.pubend = pubend
        self.number = number
        """This broker's number for the pubend."""
        self._settings, self._rng = settings, rng
        self.stream = self._new_stream(start_tick)
        self.nacks = NackWindow(rng)
        self._floor_ms = 0
        self.control = EdgeControl(
            settings.congestion,
            start_tick,
            receive_window_ms=settings.receive_window_ms,
            now_ms=now_ms,
            group=group,
        )
        """Measures how fast the shared stream moves, and sets how much of it may be requested at a time."""
        self.version = -1
        """The version of the host's filter that the pubend has confirmed."""
        self.confirmed_tick = start_tick
        """The tick from which on the path includes that version."""
        self.awaiting: dict[int, HostSubscription] = {}
        """Subscriptions that have not begun, since the pubend has not confirmed their version or not answered."""
        self.later: dict[int, int] = {}
        """The tick from which the shared stream serves a subscription, if it is not reached yet."""
        self.catch_ups: list[CatchUp] = []
        self.gathering: dict[int, int] = {}
        """Subscriptions that wait for a catch-up, with the ticks where they begin."""
        self._gathered_ms: int | None = None
        self.told = 0
        """The horizon last told to all clients."""

    # --- subscriptions

    def confirm(self, version: int, tick: int) -> list[HostSubscription]:
        """The pubend has confirmed a version, from a tick on; returns the subscriptions that waited for it."""
        if version > self.version:
            self.version, self.confirmed_tick = version, tick
            self.stream.demand(version, tick)
        return [each for each in self.awaiting.values() if each.version <= self.version]

    def expect(self, subscription: HostSubscription) -> None:
        """Adds a subscription that the pubend has to confirm first."""
        self.awaiting[subscription.key] = subscription
        self.later[subscription.key] = NEVER

    def begin(self, subscription: HostSubscription, tick: int, *, now_ms: int) -> bool:
        """Starts a subscription, which misses nothing from this tick on; returns whether it needs a catch-up."""
        key = subscription.key
        self.awaiting.pop(key, None)
        subscription.starts[self.pubend] = tick
        if tick >= self.stream.horizon:
            # The shared stream must ask again for ticks that were narrowed by an older version.
            self.stream.demand(self.version, tick)
            self.later[key] = tick
            return False
        self.later[key] = NEVER
        self.gathering[key] = tick
        if self._gathered_ms is None:
            self._gathered_ms = now_ms + _GATHER_MS
        return True

    def leave(self, key: int) -> None:
        """Removes a subscription."""
        self.awaiting.pop(key, None)
        self.later.pop(key, None)
        self.gathering.pop(key, None)
        for catch_up in self.catch_ups:
            catch_up.members.pop(key, None)
        self.catch_ups = [each for each in self.catch_ups if each.members]

    # --- streams

    def learn(self, knowledge: Knowledge, version: int) -> tuple[list[int], list[bytes]]:
        """Takes knowledge for the shared stream; returns what can be delivered now."""
        self.stream.learn(knowledge, version)
        return self.stream.take()

    def settle(self) -> None:
        """Drops the waits for ticks that the shared stream has reached."""
        if self.later:
            horizon = self.stream.horizon
            self.later = {key: tick for key, tick in self.later.items() if tick > horizon}

    def join(self, catch_up: CatchUp) -> bool:
        """Moves the members of a catch-up to the shared stream, if it has met it."""
        horizon = catch_up.stream.horizon
        if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:
            return False
        for key, start in catch_up.members.items():
            self.later[key] = max(horizon, start)
        self.catch_ups.remove(catch_up)
        # They must be told the horizon, though it may not move for long.
        self.told = 0
        self.settle()
        return True

    def start_catch_up(self, *, now_ms: int, selector_of: Callable[[int], str] = lambda _: "") -> bool:
        """Starts a catch-up for all that wait, if it is time and not too many run."""
        if self._gathered_ms is None or now_ms < self._gathered_ms:
            return False
        if len(self.catch_ups) >= self._settings.catch_ups_max:
            self._gathered_ms = now_ms + _GATHER_MS
            return False
        members = self.gathering
        self.gathering = {}
        self._gathered_ms = None
        if not members:
            return False
        texts = {selector_of(key) for key in members}
        conditions: list[Condition] = []
        if len(texts) <= _TESTS_MAX and "" not in texts:
            conditions = [parse(text) for text in sorted(texts)]
        first = min(members.values())
        stream = self._new_stream(first)
        stream.demand(self.version, first)
        stream.heard = self.stream.heard
        control = NackControl(self._settings.congestion, receive_window_ms=self._settings.receive_window_ms)
        control.floor_ms = self._floor_ms
        self.catch_ups.append(
            CatchUp(
                stream,
                NackWindow(self._rng),
                control,
                members,
                self.confirmed_tick,
                tests=tuple(map(compile_condition, conditions)),
                effort=1 + sum(map(effort_of, conditions)),
            )
        )
        return True

    def tune(self, settings: CongestionSettings) -> None:
        """Applies changed parameters."""
        self.control.tune(settings)
        for catch_up in self.catch_ups:
            catch_up.control.settings = settings

    def lift(self, floor_ms: int) -> None:
        """Sets the least NACK window of catch-ups."""
        self._floor_ms = floor_ms
        for catch_up in self.catch_ups:
            catch_up.control.floor_ms = floor_ms

    def next_deadline(self) -> int | None:
        """When a catch-up may start, or a NACK must be repeated."""
        wishes = [self._gathered_ms, self.nacks.next_deadline()]
        wishes += [each.nacks.next_deadline() for each in self.catch_ups if not each.is_paused]
        return min([each for each in wishes if each is not None], default=None)

    def questions(self, *, now_ms: int, may_ask: Callable[[CatchUp], bool]) -> list[TickRange]:
        """Returns what to request now, for all streams."""
        asking = _ask(self.stream, self.nacks, self.control.nacks, now_ms)
        for catch_up in self.catch_ups:
            catch_up.stream.heard = max(catch_up.stream.heard, self.stream.heard)
            catch_up.is_paused = not may_ask(catch_up)
            if not catch_up.is_paused:
                asking += _ask(catch_up.stream, catch_up.nacks, catch_up.control, now_ms)
        return asking

    def position(self) -> int:
        """The first tick that some stream has not delivered."""
        return min([self.stream.horizon, *self.gathering.values(), *(each.position for each in self.catch_ups)])

    def check_invariants(self) -> None:
        """Fails if the streams are not sound, or a subscription is in two of them."""
        self.stream.check_invariants()
        for catch_up in self.catch_ups:
            catch_up.stream.check_invariants()
            assert catch_up.members
            assert catch_up.ready_bytes == sum(len(body) for _, body in catch_up.ready)
            assert all(self.later.get(key) == NEVER for key in catch_up.members)
        assert all(self.later.get(key) == NEVER for key in (*self.awaiting, *self.gathering))
        assert len(self.catch_ups) <= self._settings.catch_ups_max

    def _new_stream(self, start_tick: int) -> EdgeStream:
        settings = self._settings
        window = EdgeSettings(settings.receive_window_ms << 16, settings.receive_window_bytes)
        return EdgeStream(start_tick, window)


def _ask(stream: EdgeStream, nacks: NackWindow, control: NackControl, now_ms: int) -> list[TickRange]:
    """Returns what to request for one stream, within its NACK window."""
    if stream.heard < stream.horizon and nacks.next_deadline() is None:
        return []
    gaps = stream.gaps(control.until(stream.horizon))
    if control.on_gaps(gaps, now_ms=now_ms):
        gaps = stream.gaps(control.until(stream.horizon))
    asking = nacks.ask(gaps, now_ms=now_ms, full_from=stream.full_from)
    control.on_asked(asking, now_ms=now_ms)
    return asking
