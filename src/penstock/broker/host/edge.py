"""One pubend at a subscriber-hosting broker: the shared edge stream, and catch-ups of those that start behind it.

[Gryphon] section 2. All subscriptions share one stream. One that begins later than the stream's doubt horizon waits for
its tick; one that begins before it is served by a catch-up stream, which gathers all that come at about the same time
and ends where it meets the shared one. Whoever is in doubt asks: within the NACK window, again after a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.access import NOBODY, Claimant
from penstock.broker.settings import BrokerSettings
from penstock.congestion.edge import EdgeControl
from penstock.congestion.sdcc import NackControl, NackGroup
from penstock.congestion.settings import CongestionSettings
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.protocol.stream_frames import LATEST, Missing
from penstock.selectors.ast import Condition
from penstock.selectors.effort import effort_of
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.text import parse
from penstock.streams.edge import EdgeSettings, EdgeStream
from penstock.streams.knowledge import Knowledge
from penstock.streams.nacks import NackWindow

__all__ = ["NEVER", "CatchUp", "Edge", "HostSubscription"]

NEVER: Final = 2**63
"""In place of a tick: the shared stream is not for this subscription yet."""
_TESTS_MAX: Final = 8
_GATHER_MS: Final = 50
"""How long the first that needs a catch-up waits for others."""


@dataclass(slots=True)
class HostSubscription:
    """What a host must know of a subscription to give it what it is owed."""

    key: int
    connection: int
    number: int
    version: int
    """The version of the host's filter that includes it."""
    positions: dict[str, int] = field(default_factory=dict)
    """The first ticks that it asked for."""
    starts: dict[str, int] = field(default_factory=dict)
    """The ticks from which on nothing will be missing."""
    resumes: bool = False
    otherwise: int = LATEST
    """The first tick that it asked for of all other pubends."""
    missing: Missing = "fail"
    durable: str = ""
    claimant: Claimant = NOBODY
    """If it is durable: who wants it."""
    ownership: int = 0
    selector: str = ""
    """What it wants, in canonical form."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """If it is durable: the ticks below which its application has everything."""
    early: dict[str, int] = field(default_factory=dict)
    """The same as its client said before the pubend had given it the name."""
    pending: dict[str, deque[int]] = field(default_factory=dict)
    """If it is durable: the ticks of messages that matched, were sent, and are not acknowledged; the latest of them."""
    opened: dict[str, int] = field(default_factory=dict)
    """The ticks that pubends have answered with, where they were asked."""
    fresh: dict[str, None] = field(default_factory=dict)
    """If it is durable: the pubends at which nobody had the name before."""
    is_denied: bool = False
    """Whether some pubend said that the name belongs to another client."""
    announced: dict[str, None] = field(default_factory=dict)
    """The pubends of whose starts the client was told in order with its deliveries."""

    def must_ask(self, pubend: str) -> bool:
        """Whether only the pubend can say where it begins."""
        if pubend in self.opened:
            return False
        if self.durable:
            return True
        return not self.resumes if pubend in self.positions else self.otherwise != LATEST

    def wanted(self, pubend: str) -> int | None:
        """Where it begins, if it is not just where it is confirmed."""
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
    """What can be delivered, and waits for members that have not read what they were sent before."""
    is_paused: bool = False
    """Whether nothing is asked for, as some member does not read."""
    tests: tuple[Evaluation, ...] = ()
    """What the members want, if they are few: most of an old log nobody wants, and this is quicker than the index."""
    effort: int = 1
    """Of all these tests together, on a small message."""

    @property
    def position(self) -> int:
        """The first tick that it has not delivered."""
        return self.ready[0][0] if self.ready else self.stream.horizon


class Edge:
    """What one host does with one pubend."""

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
        """How fast the shared stream moves, and how much of it may be asked for at a time."""
        self.version = -1
        """The version of the host's filter that the pubend has confirmed."""
        self.confirmed_tick = start_tick
        """The tick from which on the path includes that version."""
        self.awaiting: dict[int, HostSubscription] = {}
        """Subscriptions whose version the pubend has not confirmed."""
        self.later: dict[int, int] = {}
        """From which tick on the shared stream is for a subscription, where that is not reached yet."""
        self.catch_ups: list[CatchUp] = []
        self.gathering: dict[int, int] = {}
        """Subscriptions that wait for a catch-up, with the ticks where they begin."""
        self._gathered_ms: int | None = None
        self.told = 0
        """The horizon that all clients were told last."""

    # --- subscriptions

    def confirm(self, version: int, tick: int) -> list[HostSubscription]:
        """The pubend has confirmed a version, from a tick on; answers with those who waited for it."""
        if version > self.version:
            self.version, self.confirmed_tick = version, tick
            self.stream.demand(version, tick)
        return [each for each in self.awaiting.values() if each.version <= self.version]

    def expect(self, subscription: HostSubscription) -> None:
        """A subscription that the pubend has to confirm first."""
        self.awaiting[subscription.key] = subscription
        self.later[subscription.key] = NEVER

    def begin(self, subscription: HostSubscription, tick: int, *, now_ms: int) -> bool:
        """Nothing from this tick on will be missing; whether a catch-up is needed for that."""
        key = subscription.key
        self.awaiting.pop(key, None)
        subscription.starts[self.pubend] = tick
        if tick >= self.stream.horizon:
            # Where the pubend has not narrowed by its version yet, the shared stream must ask again.
            self.stream.demand(self.version, tick)
            self.later[key] = tick
            return False
        self.later[key] = NEVER
        self.gathering[key] = tick
        if self._gathered_ms is None:
            self._gathered_ms = now_ms + _GATHER_MS
        return True

    def leave(self, key: int) -> None:
        """A subscription is gone."""
        self.awaiting.pop(key, None)
        self.later.pop(key, None)
        self.gathering.pop(key, None)
        for catch_up in self.catch_ups:
            catch_up.members.pop(key, None)
        self.catch_ups = [each for each in self.catch_ups if each.members]

    # --- streams

    def learn(self, knowledge: Knowledge, version: int) -> tuple[list[int], list[bytes]]:
        """Knowledge for the shared stream; answers with what can be delivered by it."""
        self.stream.learn(knowledge, version)
        return self.stream.take()

    def settle(self) -> None:
        """The shared stream has moved: who waited for a tick that is reached need not be told apart any more."""
        if self.later:
            horizon = self.stream.horizon
            self.later = {key: tick for key, tick in self.later.items() if tick > horizon}

    def join(self, catch_up: CatchUp) -> bool:
        """Lets the members of a catch-up take part in the shared stream, if it has met it."""
        horizon = catch_up.stream.horizon
        if catch_up.ready or horizon < self.stream.horizon or self.stream.horizon < catch_up.meets_at:
            return False
        for key, start in catch_up.members.items():
            self.later[key] = max(horizon, start)
        self.catch_ups.remove(catch_up)
        # They must hear how far it is, though it may not move on for long.
        self.told = 0
        self.settle()
        return True

    def start_catch_up(self, *, now_ms: int, selector_of: Callable[[int], str] = lambda _: "") -> bool:
        """Starts a stream for all that wait, if it is time and not too many run."""
        if self._gathered_ms is None or now_ms < self._gathered_ms:
            return False
        if len(self.catch_ups) >= self._settings.catch_ups_max:
            self._gathered_ms = now_ms + _GATHER_MS
            return False
        members, self.gathering, self._gathered_ms = self.gathering, {}, None
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
        """Other parameters from now on."""
        self.control.tune(settings)
        for catch_up in self.catch_ups:
            catch_up.control.settings = settings

    def lift(self, floor_ms: int) -> None:
        """The least NACK window of catch-ups from now on."""
        self._floor_ms = floor_ms
        for catch_up in self.catch_ups:
            catch_up.control.floor_ms = floor_ms

    def next_deadline(self) -> int | None:
        """When a catch-up may start, or something must be asked for again."""
        wishes = [self._gathered_ms, self.nacks.next_deadline()]
        wishes += [each.nacks.next_deadline() for each in self.catch_ups if not each.is_paused]
        return min([each for each in wishes if each is not None], default=None)

    def questions(self, *, now_ms: int, may_ask: Callable[[CatchUp], bool]) -> list[TickRange]:
        """What to ask for now, of all streams."""
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
        """Fails if the streams are not sound, or somebody is in two of them."""
        self.stream.check_invariants()
        for catch_up in self.catch_ups:
            catch_up.stream.check_invariants()
            assert catch_up.members
            assert all(self.later.get(key) == NEVER for key in catch_up.members)
        assert all(self.later.get(key) == NEVER for key in (*self.awaiting, *self.gathering))
        assert len(self.catch_ups) <= self._settings.catch_ups_max

    def _new_stream(self, start_tick: int) -> EdgeStream:
        settings = self._settings
        window = EdgeSettings(settings.receive_window_ms << 16, settings.receive_window_bytes)
        return EdgeStream(start_tick, window)


def _ask(stream: EdgeStream, nacks: NackWindow, control: NackControl, now_ms: int) -> list[TickRange]:
    """What to ask for of one stream, as far as its NACK window goes."""
    if stream.heard < stream.horizon and nacks.next_deadline() is None:
        return []
    gaps = stream.gaps(control.until(stream.horizon))
    if control.on_gaps(gaps, now_ms=now_ms):
        gaps = stream.gaps(control.until(stream.horizon))
    asking = nacks.ask(gaps, now_ms=now_ms, full_from=stream.full_from)
    control.on_asked(asking, now_ms=now_ms)
    return asking
