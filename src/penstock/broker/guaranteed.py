"""Guaranteed delivery in one broker: its pubends' logs, knowledge in transit, its own clients' streams, positions.

[Gryphon] section 2, as specified in decision record 5. Three roles meet here, and a broker may have all of them: it
hosts pubends (``PubendLog``), lies in between (``Carrier``), or hosts subscribers (``Edges``, ``ClientPositions``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.access import Claimant
from penstock.broker.commits import Commits
from penstock.broker.due import Due
from penstock.broker.durable import Append, Recovered
from penstock.broker.effects import Effect
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.edges import Edges
from penstock.broker.host.positions import ClientPositions
from penstock.broker.host.wishes import Begun, Doubt, OpenAt, Refusal, Settled, Wish
from penstock.broker.peers import Peer
from penstock.broker.pubend.beginnings import Beginnings
from penstock.broker.pubend.compaction import Compaction
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.reader import Found, LogReader
from penstock.broker.pubend.register import MaySee, Register
from penstock.broker.rooms import Rooms
from penstock.broker.share import DELIVERY_EFFORT, MATCH_EFFORT, MESSAGE_EFFORT, SHARE_EFFORT_MAX
from penstock.broker.sources import Source
from penstock.broker.stream_desk import StreamDesk, StreamFrame
from penstock.broker.transit.carrier import SELF, Carrier
from penstock.broker.work_desk import WorkDesk
from penstock.model.body import decode_attributes
from penstock.model.ports import Rng
from penstock.model.tick import TickRange
from penstock.model.values import AttributeValue
from penstock.protocol.frames import (
    KnowledgeKind,
    KnowledgeMessage,
    Nack,
    Positions,
    Settle,
)
from penstock.protocol.status import GuaranteedStatus, StreamStatus
from penstock.streams.knowledge import Knowledge

__all__ = ["Guaranteed", "News"]

_DURABLES_SHOWN: Final = 100
_HOSTS_PER_FRAME: Final = 1_000
_FRAME_BYTES: Final = 64 * 1024
"""Most data in one knowledge message; more is split."""


@dataclass(slots=True)
class News:
    """The outcome of a turn for this broker's own clients, who are told at its end.

    Not returned by each method: nearly every stimulus can cause some, and a client is told once per turn.
    """

    refused: list[Refusal] = field(default_factory=list)
    """Subscriptions that turned out to be impossible; they are to be ended."""
    settled: list[Settled] = field(default_factory=list)
    """Requests to forget durable names that can be answered."""
    begun: dict[int, HostSubscription] = field(default_factory=dict)
    """Subscriptions that have begun on another pubend, by key."""


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
        self.beginnings = Beginnings(rooms, self._logs, self._commits)
        """The pubends that have not begun yet."""
        self._reader = LogReader()
        self._share = rooms.share
        self._is_found_first = False
        """Whether what reads have found is told before catch-ups deliver what they have."""
        self._report_ms: int | None = None
        self._due = Due(self.next_deadline)
        self._started_ms = 0
        self.full = ""
        """Why commits must wait for space; empty if they need not."""
        self.carrier = Carrier(rooms)
        self.edges = Edges(rooms, rng)
        self.positions = ClientPositions(rooms, self.edges)
        registers = {name: Register(name, dict(recovered.values)) for name in self._logs}
        self.work = WorkDesk(
            rooms, self._logs, registers, self._commits, recovered.values, publish_dead=self._publish_dead
        )
        """Work queues: groups that share messages, and their members."""
        home = self.work.home
        self._finality = Finality(settings, rooms.connections, self._logs, registers, home)
        self.compaction = Compaction(
            settings, rooms.connections, self._logs, self._finality, self._commits, recovered.values
        )
        """The last values that pubends keep of what is trimmed from their logs."""
        self._streams = StreamDesk(rooms, self._logs, registers, self._commits, self.edges, self._finality, home)
        self.claims = self._streams.claims
        self._damaged = 0
        self._news: News | None = None
        """What has happened in this turn so far; None for nothing."""

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
        source: Source,
        first: int,
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        *,
        may_jump: bool = False,
        now_ms: int,
    ) -> int:
        """Accepts messages; returns the number of the commit that makes them durable, 0 if they already are."""
        log = self._logs[source.pubend]
        change = log.publish(source.publisher, first, bodies, decoded, may_jump=may_jump, now_ms=now_ms)
        if change is not None:
            self._append(log, change)
            if self._tracker.is_on and not source.host:
                # Now, and not when they are announced: what becomes durable just before the end must be in a history.
                self._tracker.notes.publish([body for _, body in change.messages])
            self._router.counts["published"] += len(change.messages)
        return log.last_commit if log.last_commit > self._commits.durable else 0

    def last_number(self, source: Source) -> int:
        """The number of the last message of a publisher that its pubend has taken; 0 if it knows of none."""
        return self._logs[source.pubend].last_number(source.publisher)

    def _publish_dead(self, pubend: str, publisher: bytes, first: int, bodies: list[bytes], now_ms: int) -> int | None:
        """Publishes dead letters of a group; returns the commit that makes them durable, None if there is no room."""
        if self.hold_reason(pubend):
            return None
        source = Source(pubend, publisher, "")
        decoded = [decode_attributes(body) for body in bodies]
        return self.publish(source, first, bodies, decoded, may_jump=True, now_ms=now_ms)

    def hold_reason(self, pubend: str = "", *, names: bool = True) -> str:
        """Why publishers to a pubend, or to any, must wait, if they must; with the name of the furthest behind."""
        waits = self.beginnings.why_waits(pubend) if pubend else self.beginnings.why_some_wait()
        return self.full or waits or self._finality.hold_reason(pubend, names=names)

    def look(self, *, now_ms: int) -> None:
        """Lets pubends begin that have waited for others long enough."""
        self._on_begun(self.beginnings.look(now_ms=now_ms), now_ms)

    def _on_begun(self, begun: list[PubendLog], now_ms: int) -> None:
        for log in begun:
            self.confirm(log.name, self._filters.version, log.promised + 1, now_ms=now_ms)
            self.work.home.on_begun(log.name)

    def _append(self, log: PubendLog, change: Append) -> None:
        log.on_appended(change, self._commits.add(change))

    # --- the shell's answers

    def on_committed(self, number: int, *, now_ms: int, values_only: bool = False) -> None:
        """Commits up to this number are durable, or only their named values: announces what was in them."""
        self._tracker.begin_turn(now_ms=now_ms)
        self._carry_out(self._streams.on_committed(number, now_ms=now_ms), now_ms)
        self.work.on_committed(number, values_only=values_only, now_ms=now_ms)
        self.compaction.on_committed(number)
        if values_only:
            return
        self.full = ""
        self._commits.on_committed(number)
        self._on_begun(self.beginnings.on_committed(number), now_ms)
        if not self._commits.waiting:
            self._share.resume()
            self.edges.resume()
            if self._reader.has_found:
                self._due.by(self._share.resume_ms)
        self._tracker.on_committed(number)
        for log in self._logs.values():
            spoken = log.on_committed(number, now_ms=now_ms)
            if spoken is not None:
                self._speak(spoken, now_ms)

    def on_full(self, reason: str) -> None:
        """A commit must wait for space."""
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
        """A read of a log has ended: sends the answer to those who asked, now or in later turns."""
        if self.work.on_read(number, messages, last, damaged, now_ms=now_ms):
            return
        effort = self.compaction.on_read(number, messages, last, damaged, now_ms=now_ms)
        if effort is not None:
            self._share.spend(effort)
            return
        self._reader.bound(self._filters.effort)
        self._reader.on_read(number, messages, last, damaged)
        self._tell_found(now_ms)

    def _tell_found(self, now_ms: int) -> None:
        """Tells those who asked what reads have found, as far as this turn's share goes."""
        while self._reader.has_found and not self._share.is_spent:
            self._tell_part(self._reader.take(self._part_messages_max), now_ms)
        if self._reader.has_found:
            # Continues as soon as it may, but lets others have a turn in between.
            self._due.by(self._share.resume_ms)

    @property
    def _part_messages_max(self) -> int:
        """How many old messages a turn's share allows to answer a neighbour with."""
        looking = MESSAGE_EFFORT + MATCH_EFFORT + self._filters.effort
        return max(1, SHARE_EFFORT_MAX // (looking + DELIVERY_EFFORT))

    def _tell_part(self, found: Found, now_ms: int) -> None:
        self._share.spend(1 + len(found.messages))
        # What was trimmed since the read began must not look like silence.
        log = self._logs[found.pubend]
        first, last = max(found.first, log.trimmed_below), min(found.last, log.promised)
        if first > found.first:
            self._lose(found.pubend, found.first, first - 1, now_ms)
        if last >= first:
            kept = [each for each in found.messages if each[0] >= first]
            ticks, bodies = [tick for tick, _ in kept], [body for _, body in kept]
            answer = Knowledge(found.pubend, first, last, ticks, bodies, kind=KnowledgeKind.ANSWER)
            self._tell(answer, now_ms)
        damaged = found.damaged
        if damaged is not None and damaged.last >= log.trimmed_below:
            self._damaged += 1
            self._connections.record("damaged-record", pubend=found.pubend, first=damaged.first, last=damaged.last)
            self._lose(found.pubend, max(found.first, damaged.first), damaged.last, now_ms)

    # --- time

    def next_deadline(self) -> int | None:
        """When positions are to be reported, or log reads to be worked off; the parts know all other deadlines."""
        wishes = [self._report_ms, self.beginnings.end_ms, self._share.resume_ms if self._reader.has_found else None]
        return min([each for each in wishes if each is not None], default=None)

    def dues(self) -> list[Due]:
        """The deadlines of all parts that take part in guaranteed delivery."""
        parts = (self.carrier.due, self.edges.due, self.edges.sampling, self._streams.due)
        return [self._due, *parts, *self.work.dues(), *[log.due for log in self._logs.values()]]

    def on_deadline(self, *, now_ms: int) -> None:
        """Does what is due: silence, leases, questions, reports."""
        self._share.begin(now_ms=now_ms)
        self.look(now_ms=now_ms)
        for log in self._logs.values():
            if now_ms >= log.next_deadline():
                renewal = None if self.full else log.renewal(now_ms=now_ms)
                if renewal is not None:
                    self._append(log, renewal)
                spoken = log.silence(now_ms=now_ms)
                if spoken is not None:
                    self._speak(spoken, now_ms)
        self.carrier.on_deadline(now_ms=now_ms)
        # In turns: those who have much to deliver must not keep others from getting anything.
        self._is_found_first = not self._is_found_first
        if self._is_found_first:
            self._tell_found(now_ms)
        for pubend in self.edges.to_wake(now_ms=now_ms):
            self._carry_out([self.edges.wake(pubend, now_ms=now_ms)], now_ms)
        self._tell_found(now_ms)
        self.edges.rest(now_ms=now_ms)
        self.work.on_deadline(now_ms=now_ms)
        self._carry_out(self._streams.on_deadline(now_ms=now_ms), now_ms)
        if self._report_ms is not None and now_ms >= self._report_ms:
            self._report(now_ms)

    def begin_turn(self, *, now_ms: int) -> None:
        """Tells the tracker the time of a new stimulus; the first one starts the pubends."""
        if self._tracker.now_ms != now_ms:
            self._tracker.begin_turn(now_ms=now_ms)
        if self._report_ms is None:
            self._started_ms, self._report_ms = now_ms, now_ms + self._settings.report_ms
            self._due.by(self._report_ms)
            self.beginnings.start(now_ms=now_ms)
            if self.beginnings.end_ms is not None:
                self._due.by(self.beginnings.end_ms)
            self.work.begin(now_ms=now_ms)
            self.compaction.begin()

    def take_effects(self, *, now_ms: int) -> list[Effect]:
        """Returns what the shell must make durable and read."""
        effects: list[Effect] = []
        reads = self.work.finish(now_ms=now_ms)
        if self._streams.is_settling:
            self._carry_out(self._streams.finish(now_ms=now_ms), now_ms)
        self._tracker.finish(self._commits)
        commit = self._commits.take()
        if commit is not None:
            effects.append(commit)
            self._share.pause(now_ms=self._tracker.now_ms)
        effects += self._reader.take_effects()
        effects += reads
        effects += self.compaction.take_effects()
        return effects

    def _report(self, now_ms: int) -> None:
        self._report_ms = now_ms + self._settings.report_ms
        self._forget_gone()
        self.positions.tell()
        # Until then, clients of the former life may come back: what was reported for them still holds.
        is_settled = now_ms >= self._started_ms + self._settings.grace_ms
        for pubend, tick in self.positions.of_host(now_ms=now_ms):
            self._finality.report(pubend, self._settings.name, tick, is_settled=is_settled, now_ms=now_ms)
        self.report_durables(now_ms=now_ms)
        self._pass_on()
        # In one commit: a trim becomes durable together with the positions that allowed it.
        self.keep_positions()
        for change in self._finality.trims(now_ms=now_ms):
            self._commits.add(change)
        self.compaction.look(now_ms=now_ms)

    def before_ways_change(self) -> None:
        """Forwards pending reports before links change, along the paths on which they will still be believed."""
        self._streams.pass_on()
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
        """Persists the positions of durable subscriptions that have moved."""
        self._streams.take_changes(self._commits)

    def _forget_gone(self) -> None:
        """Drops caches of pubends no longer in the overlay; streams stay, as a pubend may come back and continue."""
        known = self._topology.guaranteed()
        for pubend in [each for each in self.carrier.pubends() if each not in known]:
            self.carrier.forget_pubend(pubend)

    # --- neighbours

    def on_positions(self, peer: Peer, frame: Positions, *, now_ms: int) -> None:
        """Takes positions from further down a tree, of hosts that lie there; ignores those of other hosts."""
        if not self._topology.is_guaranteed(frame.pubend):
            return
        behind = self._router.place_in(frame.pubend).below.get(peer.name, frozenset[str]())
        hosts = tuple(each for each in frame.hosts if each[0] in behind)
        durables = tuple(each for each in frame.durables if each[3] in behind)
        self._router.counts["off_path"] += len(frame.hosts) + len(frame.durables) - len(hosts) - len(durables)
        believed = Positions(frame.pubend, hosts, durables)
        self._finality.on_positions(believed, now_ms=now_ms)
        self._carry_out(self._streams.on_positions(believed, now_ms=now_ms), now_ms)

    def next_tick(self, pubend: str) -> int | None:
        """The first tick that a guaranteed pubend of this broker has not announced; None if it has not begun.

        A message that has a tick but is not durable yet has not left, and may never: its tick could be assigned again.
        """
        log = self._logs.get(pubend)
        return None if log is None else log.promised + 1

    def expect(self, pubend: str, host: str, tick: int, *, now_ms: int) -> None:
        """A host was promised everything from this tick on: keeps it until the host reports its own position."""
        if pubend in self._logs:
            self._finality.report(pubend, host, tick, is_settled=False, now_ms=now_ms)

    def on_nack(self, peer: Peer, nack: Nack, *, now_ms: int) -> None:
        """Answers a neighbour's request for ticks that it does not know."""
        _, gaps = self.carrier.on_nack(peer.name, nack, now_ms=now_ms)
        for gap in gaps:
            for lost in self._look_up(nack, peer.name, gap, now_ms):
                self.carrier.answer(peer.name, lost, nack.host)

    def on_knowledge(self, peer: Peer, frame: KnowledgeMessage, *, now_ms: int) -> None:
        """Handles knowledge from a neighbour."""
        knowledge = self.carrier.on_message(peer, frame, now_ms=now_ms)
        if knowledge is not None:
            self._hear([knowledge], now_ms)

    def on_stream_frame(self, frame: StreamFrame, *, now_ms: int) -> None:
        """Handles a frame of a host or a pubend about where a subscription begins, or who owns a name."""
        self._carry_out(self._streams.hear(frame, now_ms=now_ms), now_ms)

    # --- this broker's own clients

    def subscribe(self, subscription: HostSubscription, *, now_ms: int) -> None:
        """Adds a subscription of a client or a mechanism: it begins on each pubend as soon as it can."""
        self._carry_out(self.edges.subscribe(subscription, now_ms=now_ms), now_ms)

    def unsubscribe(self, keys: Iterable[int], *, now_ms: int) -> None:
        """Removes subscriptions."""
        known = list(keys)
        subscriptions = self.edges.subscriptions
        if any((hosted := subscriptions.get(key)) is not None and hosted.durable for key in known):
            # What they have acknowledged must be known before anybody claims their names again. Once for all: it takes
            # a look at each durable subscription of the broker.
            self.report_durables(now_ms=now_ms)
        for key in known:
            self.edges.unsubscribe(key)
            self._streams.leave(key)
            if self._news is not None:
                # The next subscription may get the same key.
                self._news.begun.pop(key, None)

    def forget_durable(
        self, connection: int, number: int, name: str, pubends: list[str], by: Claimant, *, now_ms: int
    ) -> None:
        """Asks pubends to forget a durable name, for a client."""
        self._carry_out(self._streams.forget(connection, number, name, pubends, by, now_ms=now_ms), now_ms)

    def list_durables(
        self, connection: int, number: int, pubend: str, after: str, durable: str, by: str, *, now_ms: int
    ) -> None:
        """Asks a pubend which durable subscriptions it keeps, for a client."""
        self._streams.ask_names(connection, number, pubend, after, durable, by, now_ms=now_ms)

    def forgetting(self, connection: int, client: str) -> int:
        """How many requests to forget names are pending, from a connection or from the client with this proven name."""
        return self._streams.forgetting(connection, client)

    def on_settle(self, peer: Peer, frame: Settle) -> None:
        """A client says what a durable subscription is done with, and wants to hear when that is kept."""
        settling = self.positions.settle(peer, frame)
        if settling is not None:
            self._streams.settle(*settling)

    def report_durables(self, *, now_ms: int) -> None:
        """Reports the positions of durable subscriptions that have moved."""
        self._carry_out(self._streams.report(self.positions, now_ms=now_ms), now_ms)

    def lift(self, floor_ms: int, *, now_ms: int) -> None:
        """Sets the least NACK window of catch-ups, while a token allows bulk recovery; 0 for none."""
        self._carry_out(self.edges.lift(floor_ms), now_ms)

    def take_news(self) -> News | None:
        """Returns what clients must be told about this turn, None if nothing; called once, at its end."""
        news, self._news = self._news, None
        return news

    # --- what this broker knows of pubends

    def confirm(self, pubend: str, version: int, tick: int, *, now_ms: int) -> None:
        """From this tick on, the path from a pubend includes this version of this broker's filter."""
        self._carry_out(self.edges.confirm(pubend, version, tick, now_ms=now_ms), now_ms)

    def confirm_own(self, version: int, *, now_ms: int) -> None:
        """Confirms this broker's filter for its own pubends, which know it at once."""
        for name, log in self._logs.items():
            if log.is_begun:
                self.confirm(name, version, log.promised + 1, now_ms=now_ms)

    def known(self) -> list[str]:
        """The guaranteed pubends of the overlay, as far as this broker has heard of it."""
        return list(self._topology.guaranteed())

    def knows(self, pubend: str) -> bool:
        """Whether this is a guaranteed pubend of the overlay, as far as this broker has heard of it."""
        return self._topology.is_guaranteed(pubend)

    def knows_all(self) -> bool:
        """Whether all known brokers can be reached, so that a pubend that is not known does not exist."""
        graph = self._topology.graph()
        # A home has a link to one of its candidates only.
        expected = [name for name in self._settings.neighbours if name not in self._settings.homes]
        is_linked = all(name in self._connections.links for name in expected)
        return is_linked and all(name in graph for name in self._settings.members)

    def knows_all_pubends(self) -> bool:
        """Whether this broker has heard of every broker, and so of every pubend that there is."""
        return bool(self._settings.members) and self.knows_all()

    def pending(self, subscription: HostSubscription) -> tuple[str, ...]:
        """The guaranteed pubends on which a subscription wants to begin and has not."""
        known = self._topology.guaranteed()
        return tuple(each for each in known if subscription.wants(each) and each not in subscription.starts)

    def missing(self, subscription: HostSubscription) -> tuple[str, ...]:
        """The pubends that a subscription names and that are not in the overlay, as far as this broker has heard."""
        if not subscription.pubends:
            return ()
        known = self._topology.pubends()
        return tuple(each for each in subscription.pubends if each not in known)

    def unopened(self, pubends: list[str]) -> list[str]:
        """Those of the given pubends that subscriptions want and that have no stream here yet."""
        wanted = [each for each in pubends if self.edges.wants(each)]
        return [each for each in wanted if self.knows(each) and each not in self.edges.edges]

    def forget(self, peer: Peer) -> None:
        """Forgets a connection that is gone."""
        self.carrier.forget(peer)

    # --- figures

    def status(self, may_see: MaySee | None = None) -> GuaranteedStatus:
        """The status figures, with the durable subscriptions that may be seen: all, for the operator."""
        return GuaranteedStatus(
            pubends=self._finality.status(may_see, self.compaction.status, self.beginnings.lost),
            streams={
                pubend: StreamStatus(
                    horizon=edge.stream.horizon,
                    heard=edge.stream.heard,
                    pending_bytes=edge.stream.pending_bytes,
                    catch_ups=len(edge.catch_ups),
                    behind=len(edge.later),
                )
                for pubend, edge in self.edges.edges.items()
            },
            durables=self._hosted_durables(may_see),
            cache_bytes=self.carrier.cached_bytes(),
            commits_waiting=self._commits.waiting,
            held_back=self.hold_reason(names=may_see is None),
        )

    def _hosted_durables(self, may_see: MaySee | None) -> dict[str, dict[str, int]]:
        """Counts of unacknowledged messages, for the durable subscriptions here that have most of them."""
        pending = {
            each.durable: {pubend: len(ticks) for pubend, ticks in each.pending.items()}
            for each in self.edges.durables.values()
            if may_see is None or may_see(each.durable, each.claimant.client)
        }
        most = sorted(pending, key=lambda name: (-sum(pending[name].values()), name))[:_DURABLES_SHOWN]
        return {name: pending[name] for name in most}

    def counts(self) -> dict[str, int]:
        """Event counters."""
        repeated = sum(log.repeated for log in self._logs.values())
        jumped = sum(log.jumped for log in self._logs.values())
        own = {
            **self.work.counts,
            **self.compaction.counts,
            "publishes_repeated": repeated,
            "publishes_jumped": jumped,
            "log_reads": self._reader.reads,
            "damaged_records": self._damaged,
            **self.beginnings.counts,
        }
        return {**own, **self.carrier.counts, **self.edges.counts, **self._finality.counts, **self._streams.counts}

    def check_invariants(self) -> None:
        """Fails if a part is not sound."""
        self.carrier.check_invariants()
        self.edges.check_invariants()
        self._reader.check_invariants()
        self.work.home.check_invariants()
        self.compaction.check_invariants()
        for log in self._logs.values():
            log.check_invariants()

    # --- inside

    def _speak(self, knowledge: Knowledge, now_ms: int) -> None:
        self.work.on_announced(knowledge, now_ms=now_ms)
        for part in knowledge.parts(_FRAME_BYTES):
            self._tell(part, now_ms)

    def _tell(self, knowledge: Knowledge, now_ms: int) -> None:
        """Sends what a pubend of this broker knows to everybody, including this broker's own streams."""
        self.carrier.tell(knowledge, now_ms=now_ms)
        self._hear([knowledge], now_ms)

    def _lose(self, pubend: str, first: int, last: int, now_ms: int) -> None:
        """Tells those who asked for these ticks that nobody will ever know them."""
        self._tell(Knowledge(pubend, first, last, kind=KnowledgeKind.LOST), now_ms)

    def _carry_out(self, wishes: Sequence[Wish], now_ms: int) -> None:
        """Carries out the host's wishes, in order."""
        for wish in wishes:
            match wish:
                case Doubt():
                    self._hear(self._answers(wish, now_ms), now_ms)
                case OpenAt():
                    self._carry_out(self._streams.open(wish.subscription, wish.pubend, now_ms=now_ms), now_ms)
                case Begun() | Refusal() | Settled():
                    self._note(wish)

    def _note(self, wish: Begun | Refusal | Settled) -> None:
        """Adds to the news of this turn."""
        news = self._news = self._news or News()
        match wish:
            case Begun():
                news.begun[wish.subscription.key] = wish.subscription
            case Refusal():
                news.refused.append(wish)
            case Settled():
                news.settled.append(wish)

    def _hear(self, knowledge: Sequence[Knowledge], now_ms: int) -> None:
        # New knowledge may raise doubts that the cache settles at once: a queue, not recursion.
        waiting = deque(knowledge)
        while waiting:
            doubt = self.edges.hear(waiting.popleft())
            if doubt is not None:
                waiting.extend(self._answers(doubt, now_ms))

    def _answers(self, doubt: Doubt, now_ms: int) -> list[Knowledge]:
        """Asks whoever may know; returns what is known here."""
        answers: list[Knowledge] = []
        for nack in self.edges.questions(doubt.pubend, now_ms=now_ms):
            known, gaps = self.carrier.on_nack(SELF, nack, now_ms=now_ms)
            if nack.pubend in self._logs:
                known, gaps = _in_order(nack.ranges, known, gaps, messages_max=self._part_messages_max)
            answers += known
            for gap in gaps:
                answers += self._look_up(nack, SELF, gap, now_ms)
        return answers

    def _look_up(self, nack: Nack, child: str, gap: TickRange, now_ms: int) -> list[Knowledge]:
        """Looks up ticks in the log of a pubend here that are in no cache; returns those that nobody will ever know."""
        log = self._logs.get(nack.pubend)
        lost: list[Knowledge] = []
        if log is None:
            # Another broker claims that it is guaranteed; here it is not.
            return lost
        first, last = int(gap.first), min(gap.last, log.promised)
        if first <= last and first < log.trimmed_below:
            # All of it at once, not only what was asked for: the rest is lost as well.
            until = min(log.promised, log.trimmed_below - 1)
            lost.append(Knowledge(nack.pubend, first, until, kind=KnowledgeKind.LOST))
            first = until + 1
        if first <= last:
            self._reader.bound(self._filters.effort)
            # Reads only what was not requested recently: all who ask get the same answer.
            wanted = TickRange._make((first, last))
            for part in self.carrier.asked(nack.pubend, child, wanted, now_ms=now_ms):
                self._reader.want(nack.pubend, part.first, part.last)
        return lost


def _in_order(
    ranges: Sequence[tuple[int, int]], known: Sequence[Knowledge], gaps: Sequence[TickRange], *, messages_max: int
) -> tuple[list[Knowledge], list[TickRange]]:
    """Divides ranges between the cache and the log: the cache counts up to the first gap, or so many messages.

    The rest is read from the log in its turn, though the cache may know it. What lies beyond a gap a stream would have
    to keep until the gap is closed; and the cache would answer with all it has at once, more than a turn may take.
    """
    taken: list[Knowledge] = []
    reading: list[TickRange] = []
    for first, last in ranges:
        start = min([gap.first for gap in gaps if first <= gap.first <= last], default=last + 1)
        room = messages_max
        for each in known:
            if not first <= each.first < start:
                continue
            part = each if len(each.ticks) <= room else each.within(each.first, each.ticks[room - 1])
            taken.append(part)
            room -= len(part.ticks)
            if not room:
                start = min(start, part.last + 1)
        if start <= last:
            reading.append(TickRange._make((start, last)))
    return taken, reading
