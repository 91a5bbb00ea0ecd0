"""A small model of PB-IB-{SB1, SB2} in steps of time: the real control objects and edge streams, modelled links.

It is for getting the control laws right in seconds; the experiments of the paper run on the real broker. Links are
first come, first served, and overtaken by DCQ, UCA and NACK, which only take time. The intermediate broker remembers
the last ten seconds of every stream and answers NACKs from that; the pubend answers the rest from its log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from penstock.congestion import CongestionSettings, EdgeControl, NackGroup, PubendControl, UcaConsolidation
from penstock.model.tick import tick_at
from penstock.streams import COMPLETE, EdgeSettings, EdgeStream, Knowledge, NackWindow

STEP_MS = 20
HOP_MS = 5
START_MS = 1_000_000
MESSAGE_BYTES = 360
SILENCE_BYTES = 60
SILENCE_MS = 1000
RECEIVE_WINDOW_MS = 10_000
CACHE_MS = 10_000
QUEUE_BYTES_MAX = 5 * 1024 * 1024
UNLIMITED = 100_000.0
HOSTS = ("SB1", "SB2")


@dataclass(slots=True)
class Parcel:
    """Knowledge on its way, to one host or to all."""

    pubend: int
    knowledge: Knowledge
    size: int
    host: str = ""


@dataclass(slots=True)
class Link:
    """A link with a bandwidth and a queue."""

    kbytes_s: float = UNLIMITED
    up: bool = True
    queue: deque[Parcel] = field(default_factory=deque)
    queued_bytes: int = 0
    queued_bytes_max: int = 0
    carried_bytes: int = 0
    dropped: int = 0
    _credit: float = 0.0

    def push(self, parcel: Parcel) -> None:
        if not self.up:
            return
        if self.queued_bytes >= QUEUE_BYTES_MAX:
            self.dropped += 1
            return
        self.queue.append(parcel)
        self.queued_bytes += parcel.size
        self.queued_bytes_max = max(self.queued_bytes_max, self.queued_bytes)

    def step(self) -> list[Parcel]:
        done: list[Parcel] = []
        if not self.queue:
            return done
        self._credit += self.kbytes_s * 1024 * STEP_MS / 1000
        while self.queue and self._credit >= self.queue[0].size:
            parcel = self.queue.popleft()
            self._credit -= parcel.size
            self.queued_bytes -= parcel.size
            self.carried_bytes += parcel.size
            done.append(parcel)
        if not self.queue:
            # What an idle link could have carried is lost.
            self._credit = 0.0
        return done

    def fail(self) -> None:
        self.up = False
        self.queue.clear()
        self.queued_bytes = 0


@dataclass(slots=True)
class Second:
    """What a second looked like."""

    at_s: float
    published: list[int]
    delivered: dict[str, list[int]]
    carried_bytes: dict[str, int]
    lag_s: dict[str, list[float]]
    queued_bytes: int
    windows_ms: dict[str, list[int]]
    rates: list[float | None]
    horizon_rates: dict[str, list[float]]


class Pubend:
    """A pubend with publishers that would publish at a rate, and wait when they may not."""

    def __init__(self, settings: CongestionSettings, offered_msg_s: float, now_ms: int) -> None:
        self.control = PubendControl(settings, now_ms=now_ms)
        self.offered_msg_s = offered_msg_s
        self.wanting = 0.0
        self.log: list[int] = []
        self.position = tick_at(now_ms) - 1
        self.spoke_ms = now_ms
        self.published = 0

    def step(self, now_ms: int) -> Knowledge | None:
        self.wanting = min(self.wanting + self.offered_msg_s * STEP_MS / 1000, 20.0)
        granted = self.control.admit(int(self.wanting), now_ms=now_ms)
        self.wanting -= granted
        silent = now_ms - self.spoke_ms >= self.control.silence_ms(SILENCE_MS)
        if not granted and not silent:
            return None
        first, start = self.position + 1, max(self.position + 1, tick_at(now_ms))
        ticks = list(range(start, start + granted))
        self.position = ticks[-1] if ticks else start
        self.log += ticks
        self.published += granted
        self.spoke_ms = now_ms
        return Knowledge("p", first, self.position, ticks, [b""] * granted)

    def answers(self, first: int, last: int) -> list[Knowledge]:
        last = min(last, self.position)
        found = []
        while first <= last:
            end = min(last, first + (200 << 16) - 1)
            ticks = self.log[bisect_left(self.log, first) : bisect_right(self.log, end)]
            found.append(Knowledge("p", first, end, ticks, [b""] * len(ticks)))
            first = end + 1
        return found


class Host:
    """One edge stream at a subscriber-hosting broker."""

    def __init__(self, settings: CongestionSettings, start: int, rng: Random, group: NackGroup, now_ms: int) -> None:
        self.stream = EdgeStream(start, EdgeSettings(RECEIVE_WINDOW_MS << 16))
        self.nacks = NackWindow(rng)
        self.control = EdgeControl(settings, start, receive_window_ms=RECEIVE_WINDOW_MS, now_ms=now_ms, group=group)
        self.delivered = 0
        self.last_tick = -1
        self.disorder = 0

    def learn(self, knowledge: Knowledge) -> None:
        self.stream.learn(knowledge, COMPLETE)
        ticks, _ = self.stream.take()
        for tick in ticks:
            self.disorder += tick <= self.last_tick
            self.last_tick = tick
        self.delivered += len(ticks)

    def ask(self, now_ms: int) -> list[tuple[int, int]]:
        stream = self.stream
        due_ms = self.nacks.next_deadline()
        if stream.heard < stream.horizon and due_ms is None:
            self.control.nacks.on_gaps([], now_ms=now_ms)
            return []
        gaps = stream.gaps(self.control.nacks.until(stream.horizon)) if stream.heard >= stream.horizon else []
        if self.control.nacks.on_gaps(gaps, now_ms=now_ms) and gaps:
            gaps = stream.gaps(self.control.nacks.until(stream.horizon))
        asking = self.nacks.ask(gaps, now_ms=now_ms)
        self.control.nacks.on_asked(asking, now_ms=now_ms)
        return [(each.first, each.last) for each in asking]


class Overlay:
    """The overlay of the paper's figure 1."""

    def __init__(
        self, settings: CongestionSettings, *, seed: int = 1, pubends: int = 4, offered: float = 125.0
    ) -> None:
        self.rng = Random(seed)
        self.now_ms = START_MS
        self.trunk = Link()
        self.links = {name: Link() for name in HOSTS}
        self.pubends = [Pubend(settings, offered, START_MS + self.rng.randrange(100)) for _ in range(pubends)]
        self.consolidations = [UcaConsolidation(settings) for _ in self.pubends]
        groups = {name: NackGroup() for name in HOSTS}
        self.hosts = {
            name: [
                Host(
                    settings,
                    each.position + 1,
                    self.rng,
                    groups[name],
                    START_MS + self.rng.randrange(settings.sample_ms),
                )
                for each in self.pubends
            ]
            for name in HOSTS
        }
        self.cached = [each.position for each in self.pubends]
        self.seconds: list[Second] = []
        self.ucas = 0
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0

    # --- time

    def run(self, seconds: float) -> None:
        end_ms = self.now_ms + round(seconds * 1000)
        while self.now_ms < end_ms:
            self._step()
            if self.now_ms % 1000 == 0:
                self._record()

    def _step(self) -> None:
        self.now_ms += STEP_MS
        now_ms = self.now_ms
        while self._later and self._later[0][0] <= now_ms:
            heappop(self._later)[2]()
        for number, pubend in enumerate(self.pubends):
            if (knowledge := pubend.step(now_ms)) is not None:
                self.trunk.push(Parcel(number, knowledge, _size(knowledge)))
            due_ms = pubend.control.next_deadline()
            if due_ms is not None and due_ms <= now_ms:
                self._query(number, pubend)
        for parcel in self.trunk.step():
            self._through(parcel)
        for name, link in self.links.items():
            for parcel in link.step():
                self.hosts[name][parcel.pubend].learn(parcel.knowledge)
            for number, host in enumerate(self.hosts[name]):
                host.control.on_deadline(host.stream.horizon, host.stream.ignored_ticks, now_ms=now_ms)
                if link.up:
                    self._ask(name, number, host)

    def _after(self, delay_ms: int, what: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._later, (self.now_ms + delay_ms, self._serial, what))

    # --- knowledge

    def _through(self, parcel: Parcel) -> None:
        if not parcel.host:
            self.cached[parcel.pubend] = max(self.cached[parcel.pubend], parcel.knowledge.last)
        for name in [parcel.host] if parcel.host else HOSTS:
            self.links[name].push(parcel)

    def _ask(self, name: str, number: int, host: Host) -> None:
        for first, last in host.ask(self.now_ms):
            self._after(HOP_MS, lambda first=first, last=last: self._nacked(name, number, first, last))  # type: ignore[misc]

    def _nacked(self, name: str, number: int, first: int, last: int) -> None:
        """A NACK at the intermediate broker: it answers what it remembers, and passes on the rest."""
        begin = self.cached[number] - (CACHE_MS << 16)
        if last >= begin:
            self._answer(number, max(first, begin), min(last, self.cached[number]), name, self.links[name])
            last = begin - 1
        if first <= last:
            self._after(HOP_MS, lambda: self._answer(number, first, last, name, self.trunk))

    def _answer(self, number: int, first: int, last: int, name: str, link: Link) -> None:
        for knowledge in self.pubends[number].answers(first, last):
            link.push(Parcel(number, knowledge, _size(knowledge), name))

    # --- congestion

    def _query(self, number: int, pubend: Pubend) -> None:
        dcq = pubend.control.on_deadline(pubend.position, now_ms=self.now_ms)
        assert dcq is not None

        def at_host(name: str) -> None:
            host = self.hosts[name][number]
            stream = host.stream
            uca = host.control.on_dcq(dcq, stream.horizon, stream.ignored_ticks, now_ms=self.now_ms)
            if uca is None or not self.links[name].up:
                return
            passed = self.consolidations[number].on_uca(uca)
            if passed is not None:
                self.ucas += 1
                self._after(2 * HOP_MS, lambda: _void(pubend.control.on_uca(passed, now_ms=self.now_ms)))

        for name in HOSTS:
            if self.links[name].up:
                self._after(2 * HOP_MS, lambda name=name: at_host(name))  # type: ignore[misc]

    # --- figures

    def lags_s(self, name: str) -> list[float]:
        pairs = zip(self.pubends, self.hosts[name], strict=True)
        return [max(pubend.position + 1 - host.stream.horizon, 0) / 65536 / 1000 for pubend, host in pairs]

    def _record(self) -> None:
        self.seconds.append(
            Second(
                (self.now_ms - START_MS) / 1000,
                [each.published for each in self.pubends],
                {name: [each.delivered for each in hosts] for name, hosts in self.hosts.items()},
                {name: link.carried_bytes for name, link in self.links.items()},
                {name: self.lags_s(name) for name in HOSTS},
                max(link.queued_bytes for link in [self.trunk, *self.links.values()]),
                {name: [each.control.nacks.window_ms for each in hosts] for name, hosts in self.hosts.items()},
                [each.control.rate_msg_s for each in self.pubends],
                {name: [each.control.horizon_rate.rate for each in hosts] for name, hosts in self.hosts.items()},
            )
        )

    def check(self) -> None:
        for pubend in self.pubends:
            pubend.control.check_invariants()
        for hosts in self.hosts.values():
            for pubend, host in zip(self.pubends, hosts, strict=True):
                host.stream.check_invariants()
                host.control.nacks.check_invariants()
                assert host.disorder == 0
                assert host.delivered == bisect_left(pubend.log, host.stream.horizon), "nothing is lost or repeated"

    @property
    def queue_max_bytes(self) -> int:
        return max(link.queued_bytes_max for link in [self.trunk, *self.links.values()])


def _size(knowledge: Knowledge) -> int:
    return MESSAGE_BYTES * len(knowledge.ticks) or SILENCE_BYTES


def _void(_: object) -> None:
    """For callbacks whose answer nobody wants."""
