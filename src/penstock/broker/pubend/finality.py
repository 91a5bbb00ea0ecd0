"""Collects positions on their way up, and decides at the pubend which messages need not be kept any longer.

Hosts report how far their clients are; each broker forwards the latest report of every host, about once a second. The
pubend keeps that report: an absent host holds what it has not confirmed, until it lapses. The log keeps more than that
for replay, by age or size, and less only at its maximum size, where a policy decides.

Where the last values of a pubend are kept, what may go waits until it was folded into the view (``compaction``), which
then trims piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from penstock.broker.connections import Connections
from penstock.broker.durable import Change, ForgetPublishers, Trim
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import MaySee, Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import Tick, TickRange, tick_at
from penstock.protocol.frames import Positions
from penstock.protocol.status import LastValuesStatus, PubendStatus

__all__ = ["Finality"]

_TRIM_MS: Final = 1_000
"""How often logs are checked."""
_BATCHES_MAX: Final = 2_000
"""Stored batches trimmed at a time: more than are added meanwhile, and few enough to delay nobody."""
_FORGET_MS: Final = 24 * 3_600_000
"""A publisher that was silent for this long is not expected to resend messages any more."""
_NOTHING: Final[Mapping[str, TickRange]] = MappingProxyType({})
_LAPSE: Final = 8
"""When the oldest is dropped, it is an eighth of the maximum at once, and not a little at every message."""


@dataclass(slots=True)
class _Word:
    """The latest report of a host."""

    tick: int
    heard_ms: int


class Finality:
    """The positions that pass through a broker, or end at its pubends."""

    def __init__(
        self,
        settings: BrokerSettings,
        connections: Connections,
        logs: dict[str, PubendLog],
        registers: Mapping[str, Register],
        work: WorkHome,
    ) -> None:
        self._settings = settings
        self._connections = connections
        self._logs, self._registers, self._work = logs, registers, work
        self._hosts: dict[str, dict[str, _Word]] = {name: {} for name in logs}
        """The latest report of each host, by pubend of this broker."""
        self._passing: dict[str, dict[str, tuple[int, bool]]] = {}
        self._viewed = {pubend for pubend, _ in settings.last_values}
        self._waiting: dict[str, int] = {}
        """By pubend with a view, the tick below which its log is to be trimmed; in the order of their turns."""
        self._lapsing: dict[str, int] = {}
        """By pubend with a view, the tick below which the oldest is being given up."""
        self._forgotten_ms: dict[str, int] = {}
        """By pubend, when publishers were forgotten."""
        self._started_ms: int | None = None
        self._trim_ms = 0
        self.counts = {"trims": 0, "hosts_lapsed": 0, "log_lapsed": 0}

    # --- reports

    def report(self, pubend: str, host: str, tick: int, *, is_settled: bool, now_ms: int) -> None:
        """Takes a host's report that it has everything below a tick; unsettled if some clients may still come back."""
        hosts, log = self._hosts.get(pubend), self._logs.get(pubend)
        if hosts is None or log is None:
            self._passing.setdefault(pubend, {})[host] = (tick, is_settled)
            return
        # The tick may fall: a client that is further behind may have come back.
        tick = min(tick, log.last_tick + 1)
        if not is_settled:
            # Clients of the host's former life may still come back. They are as far as it reported then; if this
            # pubend does not know that, because it was restarted too, they may be anywhere.
            before = hosts.get(host)
            tick = min(tick, log.trimmed_below if before is None else before.tick)
        hosts[host] = _Word(tick, now_ms)

    def on_positions(self, frame: Positions, *, now_ms: int) -> None:
        """Takes positions reported from further down a tree."""
        for host, tick, is_settled in frame.hosts:
            self.report(frame.pubend, host, tick, is_settled=is_settled, now_ms=now_ms)

    def take_passing(self) -> dict[str, dict[str, tuple[int, bool]]]:
        """Returns the positions to be forwarded: by pubend, then by host."""
        passing, self._passing = self._passing, {}
        return passing

    # --- trimming

    def trims(self, *, now_ms: int) -> list[Change]:
        """Returns what must be trimmed from the logs, if it is time to check."""
        if self._started_ms is None:
            self._started_ms = now_ms
        if now_ms < self._trim_ms:
            return []
        self._trim_ms = now_ms + _TRIM_MS
        changes: list[Change] = []
        for log in self._logs.values():
            below = self._final_below(log, now_ms)
            if below <= log.trimmed_below:
                self._waiting.pop(log.name, None)
            elif log.name in self._viewed:
                self._waiting[log.name] = below
            else:
                changes += self.trim(log.name, below, now_ms=now_ms)
        return changes

    def trim(self, pubend: str, below: int, *, now_ms: int) -> list[Change]:
        """Gives up everything below a tick; returns what must become durable."""
        log = self._logs[pubend]
        log.trim(below)
        self.counts["trims"] += 1
        changes: list[Change] = [Trim(pubend, Tick(below), _BATCHES_MAX)]
        # Not with every piece of a long trim: it takes a look at all publishers, and a group of commits ends with it.
        if now_ms >= self._forgotten_ms.get(pubend, 0) + _TRIM_MS:
            self._forgotten_ms[pubend] = now_ms
            forgotten = tick_at(max(0, log.stream_ms(now_ms) - _FORGET_MS))
            changes.append(ForgetPublishers(pubend, forgotten))
        waiting_below = self._waiting.pop(pubend, 0)
        if waiting_below > below:
            self._waiting[pubend] = waiting_below
        return changes

    # --- trims that wait for a view

    def next_waiting(self) -> tuple[str, int] | None:
        """The pubend with a view whose turn it is to be trimmed, and the tick below which; None if none waits."""
        return next(iter(self._waiting.items()), None)

    def wanted_below(self, pubend: str, *, now_ms: int) -> int:
        """The tick below which a waiting pubend may be trimmed now: somebody further behind may have come meanwhile."""
        return min(self._waiting.get(pubend, 0), self._final_below(self._logs[pubend], now_ms))

    def put_off(self, pubend: str) -> None:
        """Lets a pubend wait for the next check."""
        self._waiting.pop(pubend, None)

    # --- publishers that must wait

    def hold_reason(self, pubend: str = "", *, names: bool = True) -> str:
        """Why publishers must wait, if the log of a pubend, or of any, has reached its maximum.

        With the name of who is behind, if wanted.
        """
        limit = self._settings.retain_bytes_max
        is_lapsing = self._settings.retain_policy != "hold"
        for log in self._logs.values() if not pubend else filter(None, [self._logs.get(pubend)]):
            if is_lapsing:
                # The oldest is dropped at once, unless last values must be kept first: that may not keep up. If nothing
                # waits for that, what is left of the log is one part that cannot be trimmed yet.
                if log.name in self._waiting and log.size_bytes >= limit + limit // _LAPSE:
                    return f"pubend {log.name} has to keep last values before it can trim its log to {limit:,} bytes"
            elif log.size_bytes >= limit:
                whom = self._furthest_behind(log, names=names)
                return f"the log of pubend {log.name} has reached its maximum of {limit:,} bytes{whom}"
        return ""

    def _furthest_behind(self, log: PubendLog, *, names: bool) -> str:
        behind = min(self._hosts[log.name].items(), key=lambda each: each[1].tick, default=None)
        durable = self._lowest(log.name)
        if durable is not None and (behind is None or durable[1] <= behind[1].tick):
            what = "durable subscription" if durable[0] in self._registers[log.name] else "group"
            who = f"{what} {durable[0]!r}" if names else f"a {what}"
            return f"; the furthest behind is {who}"
        return f"; the furthest behind is {behind[0]}" if behind else ""

    def _lowest(self, pubend: str) -> tuple[str, int] | None:
        """The durable subscription or group that is furthest behind, and its tick."""
        found = [each for each in (self._registers[pubend].lowest(), self._work.lowest(pubend)) if each is not None]
        return min(found, key=lambda each: each[1], default=None)

    def _final_below(self, log: PubendLog, now_ms: int) -> int:
        settings, hosts = self._settings, self._hosts[log.name]
        assert self._started_ms is not None
        for host, word in list(hosts.items()):
            # Plus one report: a client lost right before the host's next report gets its full grace, too.
            if now_ms - word.heard_ms > settings.grace_ms + settings.report_ms:
                del hosts[host]
                self.counts["hosts_lapsed"] += 1
                self._connections.record("host-lapsed", pubend=log.name, host=host, tick=word.tick)
        # After a start nobody has reported yet: that must not look as if there were no hosts.
        is_heard = now_ms - self._started_ms >= settings.grace_ms
        final = min((word.tick for word in hosts.values()), default=log.promised + 1) if is_heard else 0
        furthest = self._lowest(log.name)
        if furthest is not None:
            # A lapsed subscription still holds what is left for it: it may be on its way back.
            final = min(final, max(furthest[1], log.trimmed_below))
        if log.trimmed_below < self._lapsing.get(log.name, 0):
            # Piece by piece, but all that was decided to be given up.
            return self._lapsing[log.name]
        kept = min(tick_at(max(0, log.stream_ms(now_ms) - settings.retain_ms)), log.tick_keeping(settings.retain_bytes))
        if log.size_bytes >= settings.retain_bytes_max:
            if settings.retain_policy == "lapse":
                return self._lapse(log, final)
            # Replay gives way before publishers have to.
            return min(final, log.promised + 1)
        return min(final, kept, log.promised + 1)

    def _lapse(self, log: PubendLog, final: int) -> int:
        below = log.tick_keeping(self._settings.retain_bytes_max - self._settings.retain_bytes_max // _LAPSE)
        if below > final:
            self.counts["log_lapsed"] += 1
            furthest = self._lowest(log.name)
            durable = furthest[0] if furthest is not None and furthest[1] < below else ""
            self._connections.record("log-lapsed", pubend=log.name, below=below, durable=durable)
            if log.name in self._viewed:
                self._lapsing[log.name] = min(below, log.promised + 1)
        return min(below, log.promised + 1)

    def status(
        self,
        may_see: MaySee | None = None,
        views: Callable[[str], LastValuesStatus | None] = lambda _: None,
        lost: Mapping[str, TickRange] = _NOTHING,
    ) -> dict[str, PubendStatus]:
        """Figures by pubend, with the durable subscriptions that may be seen, its last values, and what it has lost."""
        return {
            log.name: PubendStatus(
                last_tick=log.last_tick,
                promised=log.promised,
                trimmed_below=log.trimmed_below,
                size_bytes=log.size_bytes,
                repeated=log.repeated,
                hosts={host: word.tick for host, word in self._hosts[log.name].items()},
                durables=self._registers[log.name].status(may_see),
                durable_count=len(self._registers[log.name]),
                groups=self._work.status(log.name, may_see),
                last_values=views(log.name),
                lost=lost.get(log.name),
            )
            for log in self._logs.values()
        }
