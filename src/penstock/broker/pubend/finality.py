"""Collects positions on their way up, and decides at the pubend which messages need not be kept any longer.

Hosts report how far their clients are; each broker forwards the latest report of every host, about once a second. The
pubend keeps that report: an absent host holds what it has not confirmed, until it lapses. The log keeps more than that
for replay, by age or size, and less only at its maximum size, where a policy decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.broker.connections import Connections
from penstock.broker.durable import Change, ForgetPublishers, Trim
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import MaySee, Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import Tick, tick_at
from penstock.protocol.frames import Positions
from penstock.protocol.status import PubendStatus

__all__ = ["Finality"]

_TRIM_MS: Final = 1_000
"""How often logs are checked."""
_BATCHES_MAX: Final = 2_000
"""Stored batches trimmed at a time: more than are added meanwhile, and few enough to delay nobody."""
_FORGET_MS: Final = 24 * 3_600_000
"""A publisher that was silent for this long is not expected to resend messages any more."""
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
            if below > log.trimmed_below:
                log.trim(below)
                self.counts["trims"] += 1
                changes.append(Trim(log.name, Tick(below), _BATCHES_MAX))
                forgotten = tick_at(max(0, log.stream_ms(now_ms) - _FORGET_MS))
                changes.append(ForgetPublishers(log.name, forgotten))
        return changes

    def hold_reason(self, pubend: str = "", *, names: bool = True) -> str:
        """Why publishers must wait, if the log of a pubend, or of any, has reached its maximum.

        With the name of who is behind, if wanted.
        """
        if self._settings.retain_policy != "hold":
            return ""
        for log in self._logs.values() if not pubend else filter(None, [self._logs.get(pubend)]):
            if log.size_bytes >= self._settings.retain_bytes_max:
                whom = self._furthest_behind(log, names=names)
                limit = self._settings.retain_bytes_max
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
        return min(below, log.promised + 1)

    def status(self, may_see: MaySee | None = None) -> dict[str, PubendStatus]:
        """Figures by pubend, with the durable subscriptions that may be seen."""
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
            )
            for log in self._logs.values()
        }
