"""Guaranteed delivery in one broker: its pubends' logs, knowledge that passes, its own clients' streams, positions.

[Gryphon] section 2, as decision record 5 says it. Three roles meet here, and a broker may have all of them: it hosts
pubends (``PubendLog``), it lies between (``Carrier``), it hosts subscribers (``Edges``, ``ClientPositions``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from penstock.broker.commits import Commits
from penstock.broker.deadlines import earliest
from penstock.broker.durable import Append, Recovered
from penstock.broker.effects import Effect
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.edges import Edges
from penstock.broker.host.positions import ClientPositions
from penstock.broker.peers import Peer
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.reader import LogReader
from penstock.broker.pubend.register import MaySee
from penstock.broker.rooms import Rooms
from penstock.broker.stream_desk import StreamDesk
from penstock.broker.transit.carrier import SELF, Carrier
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.model.values import AttributeValue
from penstock.protocol.frames import KnowledgeKind, Nack, Positions, Publish
from penstock.streams.knowledge import Knowledge

__all__ = ["Guaranteed"]

_DURABLES_SHOWN: Final = 100
_HOSTS_PER_FRAME: Final = 1_000
_FRAME_BYTES: Final = 64 * 1024
"""Data in one knowledge message; more is said in several."""


class Guaranteed:
    """Everything about guaranteed delivery that one broker does."""

    def __init__(
        self,
        rooms: Rooms,
        rng: Rng,
        recovered: Recovered,
    ) -> None:
        settings = self._settings = rooms.settings
        self._topology, self._filters = rooms.topology, rooms.filters
        self._connections = rooms.connections
        self._router, self._tracker = rooms.router, rooms.tracker
        self._logs = {
            name: PubendLog(name, settings, recovered.pubends.get(name))
            for name in settings.pubends
            if name not in settings.best_effort
        }
        self._commits = Commits()
        self._reader = LogReader()
        self._now_ms = 0
        self._report_ms: int | None = None
        self._started_ms = 0
        self.full = ""
        """Why commits have to wait for space, if they have to."""
        self.carrier = Carrier(rooms, hear=self._hear, look_up=self._look_up)
        self.desk = StreamDesk(rooms, self._logs, recovered.values, self._commits)
        self.edges = Edges(
            rooms,
            rng,
            ask=lambda nack: self.carrier.on_nack(SELF, nack, now_ms=self._now_ms),
            open_at=self.desk.open,
        )
        self.positions = ClientPositions(rooms, self.edges)
        self._finality = Finality(settings, rooms.connections, self._logs, self.desk.register)
        self.desk.attach(self.edges, self._finality)
        self._damaged = 0
        self._heard: deque[Knowledge] = deque()
        self._is_hearing = False

    # --- publishing

    @property
    def logs(self) -> Mapping[str, PubendLog]:
        """The guaranteed pubends of this broker."""
        return self._logs

    def hosts(self, pubend: str) -> bool:
        """Whether this is a guaranteed pubend of this broker."""
        return pubend in self._logs

    def publish(
        self,
        pubend: str,
        publisher: bytes,
        frame: Publish,
        decoded: list[dict[str, AttributeValue]],
        *,
        now_ms: int,
    ) -> int:
        """Takes messages in; answers with the number of the commit with which they are durable, 0 if they are."""
        log = self._logs[pubend]
        change = log.publish(publisher, frame.first, frame.bodies, decoded, now_ms=now_ms)
        if change is not None:
            self._append(log, change)
            if self._tracker.is_on:
                # Now, and not when they are spoken of: what becomes durable in the last moment must be in a history.
                self._tracker.notes.publish([body for _, body in change.messages])
            self._router.counts["published"] += len(change.messages)
        return log.last_commit if log.last_commit > self._commits.durable else 0

    def hold_reason(self, *, names: bool = True) -> str:
        """Why publishers must wait, if they must; with the name of who is behind, if wanted."""
        return self.full or self._finality.hold_reason(names=names)

    def _append(self, log: PubendLog, change: Append) -> None:
        log.on_appended(change, self._commits.add(change))

    # --- the shell's answers

    def on_committed(self, number: int, *, now_ms: int, values_only: bool = False) -> None:
        """Commits are durable, or the named values in them are: what was in them can be spoken of."""
        self._now_ms = now_ms
        self._tracker.begin_turn(now_ms=now_ms)
        self.desk.begin_turn(now_ms)
        self.desk.on_committed(number)
        if values_only:
            return
        self.full = ""
        self._commits.on_committed(number)
        self._tracker.on_committed(number)
        for log in self._logs.values():
            spoken = log.on_committed(number, now_ms=now_ms)
            if spoken is not None:
                self._speak(spoken)

    def on_full(self, reason: str) -> None:
        """A commit has to wait for space."""
        if not self.full:
            self._connections.record("log-full", reason=reason)
        self.full = reason

    def on_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        damaged: TickRange | None,
        *,
        now_ms: int,
    ) -> None:
        """A read of a log has ended: the answer goes to those who asked."""
        self._now_ms = now_ms
        self._reader.bound(self._filters.effort)
        read = self._reader.on_read(number, last if damaged is None else max(last, damaged.last))
        if read is None:
            return
        # What was trimmed while the read was under way must not look like silence.
        log = self._logs[read.pubend]
        first, last = max(read.first, log.trimmed_below), min(last, log.promised)
        if first > read.first:
            self._lose(read.pubend, read.first, first - 1)
        if last >= first:
            kept = [each for each in messages if each[0] >= first]
            ticks, bodies = [tick for tick, _ in kept], [body for _, body in kept]
            answer = Knowledge(read.pubend, first, last, ticks, bodies, kind=KnowledgeKind.ANSWER)
            self.carrier.tell(answer, now_ms=now_ms)
        if damaged is not None and damaged.last >= log.trimmed_below:
            self._damaged += 1
            self._connections.record("damaged-record", pubend=read.pubend, first=damaged.first, last=damaged.last)
            self._lose(read.pubend, max(read.first, damaged.first), damaged.last)

    # --- time

    def next_deadline(self) -> int | None:
        """When something is to be said, asked or reported."""
        parts = (self.carrier.next_deadline(), self.edges.next_deadline(), self.desk.next_deadline())
        return earliest((self._report_ms, *parts, *[log.next_deadline() for log in self._logs.values()]))

    def on_deadline(self, *, now_ms: int) -> None:
        """Silence, leases, questions, reports."""
        self._now_ms = now_ms
        for log in self._logs.values():
            if now_ms >= log.next_deadline():
                renewal = None if self.full else log.renewal(now_ms=now_ms)
                if renewal is not None:
                    self._append(log, renewal)
                spoken = log.silence(now_ms=now_ms)
                if spoken is not None:
                    self._speak(spoken)
        self.carrier.on_deadline(now_ms=now_ms)
        self.edges.on_deadline(now_ms=now_ms)
        self.desk.on_deadline(now_ms=now_ms)
        if self._report_ms is not None and now_ms >= self._report_ms:
            self._report(now_ms)

    def begin_turn(self, *, now_ms: int) -> None:
        """A stimulus has come: this is its time."""
        self._now_ms = now_ms
        self._tracker.begin_turn(now_ms=now_ms)
        self.desk.begin_turn(now_ms)
        if self._report_ms is None:
            self._started_ms, self._report_ms = now_ms, now_ms + self._settings.report_ms
            for log in self._logs.values():
                if (birth := log.begin(now_ms=now_ms)) is not None:
                    self._commits.add(birth)

    def take_effects(self) -> list[Effect]:
        """What the shell must make durable and read."""
        effects: list[Effect] = []
        self._tracker.finish(self._commits)
        commit = self._commits.take()
        if commit is not None:
            effects.append(commit)
        effects += self._reader.take_effects()
        return effects

    def _report(self, now_ms: int) -> None:
        self._report_ms = now_ms + self._settings.report_ms
        self._forget_gone()
        self.positions.tell()
        # Clients of the former life may come back until then: what was said of them holds.
        is_settled = now_ms >= self._started_ms + self._settings.grace_ms
        for pubend, tick in self.positions.of_host(now_ms=now_ms):
            self._finality.report(pubend, self._settings.name, tick, is_settled=is_settled, now_ms=now_ms)
        self.desk.report(self.positions)
        self._pass_on()
        # In one commit: a log that was trimmed goes with the positions that allowed it.
        self.keep_positions()
        for change in self._finality.trims(now_ms=now_ms):
            self._commits.add(change)

    def before_ways_change(self) -> None:
        """Links are about to change: what was reported to us goes on by the ways on which it will be believed."""
        self.desk.pass_on()
        self._pass_on()

    def _pass_on(self) -> None:
        for pubend, hosts in self._finality.take_passing().items():
            parent = self._connections.links.get(self._router.place_in(pubend).parent or "")
            if parent is not None:
                words = [(host, *word) for host, word in hosts.items()]
                for start in range(0, len(words), _HOSTS_PER_FRAME):
                    part = tuple(words[start : start + _HOSTS_PER_FRAME])
                    self._connections.say(parent, Positions(pubend, part))

    def keep_positions(self) -> None:
        """Makes the positions of durable subscriptions durable that have moved."""
        self.desk.take_changes(self._commits)

    def _forget_gone(self) -> None:
        """Caches of pubends that are no longer in the overlay; streams stay, as a pubend may come back and go on."""
        known = self._topology.guaranteed()
        for pubend in [each for each in self.carrier.pubends() if each not in known]:
            self.carrier.forget_pubend(pubend)

    # --- neighbours

    def on_positions(self, peer: Peer, frame: Positions, *, now_ms: int) -> None:
        """Positions from further down a tree, of hosts that lie there; what is said of others is ignored."""
        if not self._topology.is_guaranteed(frame.pubend):
            return
        behind = self._router.place_in(frame.pubend).below.get(peer.name, frozenset[str]())
        hosts = tuple(each for each in frame.hosts if each[0] in behind)
        durables = tuple(each for each in frame.durables if each[3] in behind)
        self._router.counts["off_path"] += len(frame.hosts) + len(frame.durables) - len(hosts) - len(durables)
        believed = Positions(frame.pubend, hosts, durables)
        self._finality.on_positions(believed, now_ms=now_ms)
        self.desk.on_positions(believed)

    def next_tick(self, pubend: str) -> int | None:
        """The first tick that a guaranteed pubend of this broker has not spoken of.

        What has a tick and is not durable yet has not left, and may never: its tick could be given out again.
        """
        log = self._logs.get(pubend)
        return None if log is None else log.promised + 1

    def expect(self, pubend: str, host: str, tick: int, *, now_ms: int) -> None:
        """A host was told that it will miss nothing from this tick on: it is kept for it until it reports itself."""
        if pubend in self._logs:
            self._finality.report(pubend, host, tick, is_settled=False, now_ms=now_ms)

    def confirm_own(self, version: int, *, now_ms: int) -> None:
        """This broker's own pubends know its own filter at once."""
        for name, log in self._logs.items():
            self.edges.confirm(name, version, log.promised + 1, now_ms=now_ms)

    def known(self) -> list[str]:
        """The guaranteed pubends of the overlay, as far as this broker has heard of it."""
        return list(self._topology.guaranteed())

    def knows(self, pubend: str) -> bool:
        """Whether this is one of them."""
        return self._topology.is_guaranteed(pubend)

    def knows_all(self) -> bool:
        """Whether all brokers can be reached, as far as they are known, so that what is not known does not exist."""
        graph = self._topology.graph()
        is_linked = all(name in self._connections.links for name in self._settings.neighbours)
        return is_linked and all(name in graph for name in self._settings.members)

    def pending(self, subscription: HostSubscription) -> tuple[str, ...]:
        """The guaranteed pubends on which a subscription has not begun."""
        return tuple(pubend for pubend in self._topology.guaranteed() if pubend not in subscription.starts)

    def unopened(self, pubends: list[str]) -> list[str]:
        """Those of the pubends that some subscription wants and that have no stream here yet."""
        if not self.edges.subscriptions:
            return []
        return [each for each in pubends if self.knows(each) and each not in self.edges.edges]

    def forget(self, peer: Peer) -> None:
        """A connection is gone."""
        self.carrier.forget(peer)

    # --- figures

    def status(self, may_see: MaySee | None = None) -> dict[str, object]:
        """Figures, with the durable subscriptions that may be seen: all, for the operator."""
        return {
            "pubends": self._finality.status(may_see),
            "streams": {
                pubend: {
                    "horizon": edge.stream.horizon,
                    "heard": edge.stream.heard,
                    "pending_bytes": edge.stream.pending_bytes,
                    "catch_ups": len(edge.catch_ups),
                    "behind": len(edge.later),
                }
                for pubend, edge in self.edges.edges.items()
            },
            "durables": self._hosted_durables(may_see),
            "cache_bytes": self.carrier.cached_bytes(),
            "commits_waiting": self._commits.waiting,
            "held_back": self.hold_reason(names=may_see is None),
        }

    def _hosted_durables(self, may_see: MaySee | None) -> dict[str, dict[str, int]]:
        """Messages that were sent and not acknowledged, of the durable subscriptions here that have most of them."""
        pending = {
            each.durable: {pubend: len(ticks) for pubend, ticks in each.pending.items()}
            for each in self.edges.durables.values()
            if may_see is None or may_see(each.durable, each.claimant.client)
        }
        most = sorted(pending, key=lambda name: (-sum(pending[name].values()), name))[:_DURABLES_SHOWN]
        return {name: pending[name] for name in most}

    def counts(self) -> dict[str, int]:
        """How often what happened."""
        repeated = sum(log.repeated for log in self._logs.values())
        own = {"publishes_repeated": repeated, "log_reads": self._reader.reads, "damaged_records": self._damaged}
        return {**own, **self.carrier.counts, **self.edges.counts, **self._finality.counts, **self.desk.counts}

    def check_invariants(self) -> None:
        """Fails if a part is not sound."""
        self.carrier.check_invariants()
        self.edges.check_invariants()
        for log in self._logs.values():
            log.check_invariants()

    # --- inside

    def _speak(self, knowledge: Knowledge) -> None:
        for part in knowledge.parts(_FRAME_BYTES):
            self.carrier.tell(part, now_ms=self._now_ms)

    def _hear(self, knowledge: Knowledge) -> None:
        # What is heard may raise questions that the cache answers at once: one after the other, not one in the other.
        self._heard.append(knowledge)
        if self._is_hearing:
            return
        self._is_hearing = True
        try:
            while self._heard:
                self.edges.hear(self._heard.popleft(), now_ms=self._now_ms)
        finally:
            self._is_hearing = False

    def _lose(self, pubend: str, first: int, last: int) -> None:
        """Whoever asked for these ticks is told that nobody will ever know them."""
        self.carrier.tell(Knowledge(pubend, first, last, kind=KnowledgeKind.LOST), now_ms=self._now_ms)

    def _look_up(self, nack: Nack, child: str, gap: TickRange) -> None:
        """Somebody asks a pubend of this broker for what is in no cache."""
        log = self._logs[nack.pubend]
        first, last = int(gap.first), min(gap.last, log.promised)
        if first <= last and first < log.trimmed_below:
            # All of it at once, not only what was asked for: nobody will ever know more of the rest either.
            until = min(log.promised, log.trimmed_below - 1)
            lost = Knowledge(nack.pubend, first, until, kind=KnowledgeKind.LOST)
            if child == SELF:
                self._hear(lost)
            else:
                self.carrier.answer(child, lost, nack.host)
            first = until + 1
        if first <= last:
            self._reader.bound(self._filters.effort)
            # Only what has not been asked for lately is read: the others get the same answer.
            wanted = TickRange._make((first, last))
            for part in self.carrier.asked(nack.pubend, child, wanted, now_ms=self._now_ms):
                self._reader.want(nack.pubend, part.first, part.last)
