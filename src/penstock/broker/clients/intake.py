"""Takes messages from publishers: checks them, passes them to their pubend, acknowledges them, and controls credit.

An acknowledgement costs a separate write. Nobody waits for one unless the window is getting small, or the client says
so by an empty batch; so several are sent together. What is durable is always acknowledged; it is the credit that is
withheld when publishers have to wait, and then they are told why. All of that is separate for each pubend.

Messages are refused one by one. The client is told which, and sends what came after the first of them again. A pubend
takes only the next number of a publisher, unless the publisher says that those in between are settled: so nothing is
ever lost unnoticed, or mistaken for a repetition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from penstock.broker.clients.carrying import Carrying
from penstock.broker.clients.judging import Judge, refused_parts
from penstock.broker.clients.turnstile import Turnstile
from penstock.broker.due import Due
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.mechanisms.congestion import Congestion
from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.neighbours.ways import Ways
from penstock.broker.peers import Guest, Peer, guest_of
from penstock.broker.pubend.gate import Gate, Held
from penstock.broker.rooms import Rooms
from penstock.broker.sources import NO_REASON, Batch, Passage, Source
from penstock.model.body import BODY_BYTES_MIN, take_in
from penstock.model.values import AttributeValue
from penstock.protocol.control import COUNT_MAX, shortened
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Carried, HeldBack, Publish, PublishAck, Rewind, Rewound, Skipped, carried_credit

__all__ = ["CREDIT_CHECK_MS", "Intake"]

CREDIT_CHECK_MS: Final = 10
"""How often a broker that holds publishers back checks whether it may stop doing so."""

_SOURCES_MAX: Final = 10_000
"""Most pubends that one client can publish to on one connection."""
_FIRST_MAX: Final = COUNT_MAX // 2
"""A publisher that began, or went on, beyond this number might come to numbers that no frame can name."""
_PASSED_MAX: Final = 100_000
"""Most publishers to best-effort pubends whose last number is known."""
_STRANGE_MAX: Final = 16
"""Most pubends among these that this broker does not know, or not yet."""
_WINDOW_S: Final = 0.5
"""How much a slowed publisher may have in flight: what its rate allows in this time."""
_RATE_S_MAX: Final = 1e9
_WINDOW_BYTES_MIN: Final = 2_000
"""A slowed publisher may always have this much in flight."""
_CHEAP_EFFORT: Final = 500
"""Where matching a message takes more than this, about 0.2 ms, none waits for others: its own publisher pays for it."""
_GATHERED_MAX: Final = 16
"""This many messages are sent on at once: a larger batch would hardly cost less for each. Fewer wait for others."""

Decoded = list[dict[str, AttributeValue]]


class Intake:
    """Serves the publishers among the clients of one broker, and those that other brokers carry messages for."""

    def __init__(
        self,
        rooms: Rooms,
        guaranteed: Guaranteed,
        congestion: Congestion,
        limiter: Limiter,
        *,
        refuse: Callable[[Peer, str, int, str, int, str], None],
    ) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._router = rooms.router
        self._subscribers = rooms.subscribers
        self._pubends = rooms.pubends
        self._topology = rooms.topology
        self._judge = Judge(rooms.pubends, rooms.topology, guaranteed.knows_all_pubends)
        self._guaranteed = guaranteed
        self._congestion = congestion
        self._refuse = refuse
        self._gate = Gate(congestion.controls, guaranteed.publish, guaranteed.beginnings.waits)
        self._limiter, self._turnstile = limiter, Turnstile(limiter)
        self._ways = Ways(rooms, rooms.pubends.names)
        self.carrying: Final = Carrying(
            rooms, self._ways, settle=self._settle, rewind=self._rewind, knows_all=guaranteed.knows_all_pubends
        )
        """Carries messages to pubends of other brokers."""
        self._release_ms: int | None = None
        self.due = Due(self.next_deadline)
        self._unsettled: deque[tuple[int, Source, Batch]] = deque()
        """Commit, source and batch of messages that are not durable yet, in the order of commits."""
        self._due: dict[Source, None] = {}
        """Publishers to be acknowledged in this turn."""
        self._withheld: dict[Source, None] = {}
        """Publishers whose credit is withheld until they need not wait any more."""
        self._later: dict[Source, int] = {}
        """When publishers are to be acknowledged later."""
        self._told: dict[Source, None] = {}
        """Publishers that were told why they wait."""
        self._reason = ""
        """Why publishers have to wait, as last computed."""
        self._passed: dict[tuple[str, bytes], int] = {}
        """By best-effort pubend and publisher, the last number that was passed on."""
        self.counts = {"overtaken": 0}
        self._gathered: dict[tuple[str, bool], tuple[list[bytes], Decoded]] = {}
        """Accepted best-effort messages of this turn that are not sent on yet: bodies and attributes.

        By pubend, and whether other brokers have carried them here.
        """

    # --- clients publish

    def publish(self, peer: Peer, frame: Publish, now_ms: int) -> None:
        """Accepts or refuses each of a client's messages; an empty batch asks for an acknowledgement."""
        guest = guest_of(peer)
        source = guest.sources.get(frame.pubend)
        if source is None:
            source = self._begin(peer, guest, frame.pubend, now_ms)
        if source.is_rewinding:
            # It will come again.
            return
        bodies = frame.bodies
        if frame.first != source.received + 1 or source.received < 0:
            self._check_sequence(source, frame)
        if not bodies:
            self._answer(source, now_ms)
            return
        if source.unpaid_bytes > source.credit_bytes:
            raise ProtocolError(
                f"{source.unpaid_bytes:,} bytes are published beyond the credit of {source.credit_bytes:,}"
            )
        size = sum(map(len, bodies))
        if size < BODY_BYTES_MIN * len(bodies):
            # Else messages that cost no credit could be sent without end.
            raise ProtocolError(f"bodies of {size:,} bytes together are too small for {len(bodies):,} messages")
        decoded = take_in(bodies)
        problems = self._judge.problems(guest, frame, source.pubend, decoded)
        if problems:
            good = min(problems)
            self._refuse_some(peer, source, frame, problems, now_ms)
            if not good:
                return
            bodies, decoded = bodies[:good], decoded[:good]
            size = sum(map(len, bodies))
        source.unpaid_bytes += size
        source.received = frame.first + len(bodies) - 1
        self._admit(source, frame.first, bodies, decoded, size, now_ms)

    def _begin(self, peer: Peer, guest: Guest, name: str, now_ms: int) -> Source:
        """Begins to take a client's messages to a pubend."""
        if len(guest.sources) >= _SOURCES_MAX:
            raise ProtocolError(f"a client cannot publish to more than {_SOURCES_MAX:,} pubends")
        pubend = self._pubends.choose(name, guest.publisher) or name
        if self._topology.origin_of(pubend) is None and self._strange(guest) >= _STRANGE_MAX:
            raise ProtocolError(f"a client cannot publish to more than {_STRANGE_MAX} pubends that nobody knows")
        source = guest.sources[name] = Source(
            pubend,
            guest.publisher_id,
            f"{guest.client}@{self._settings.name}/{guest.publisher}",
            peer.connection,
            name,
            credit_bytes=self._settings.credit_bytes,
        )
        if pubend not in self._pubends.names:
            source.credit_bytes = carried_credit(source.credit_bytes)
            source.passage = Passage(is_guaranteed=self._topology.is_guaranteed(pubend))
            self.carrying.open(source, guest, now_ms=now_ms)
        return source

    def _strange(self, guest: Guest) -> int:
        """How many pubends a client publishes to that this broker does not know."""
        return sum(self._topology.origin_of(each.pubend) is None for each in guest.sources.values())

    def _answer(self, source: Source, now_ms: int) -> None:
        """A client wants an acknowledgement as soon as everything is settled."""
        if not source.outstanding:
            self._acknowledge(source)
            return
        source.asks = True
        if source.passage is not None:
            self.carrying.ask(source, now_ms=now_ms)

    def _refuse_some(self, peer: Peer, source: Source, frame: Publish, problems: dict[int, str], now_ms: int) -> None:
        """Tells a client which messages are refused, and to send those after the first of them again."""
        first = frame.first + min(problems)
        for number, count, reason in refused_parts(frame.first, problems):
            self._refuse(peer, "publish", number, reason, count, source.name)
        source.received = first - 1
        self._rewind(source, first, -1, now_ms)

    def _rewind(self, source: Source, number: int, credit_bytes: int, now_ms: int) -> None:
        """Wants a client's messages from a number on again."""
        peer = self._connections.peers.get(source.connection)
        if peer is None:
            return
        source.round = self.carrying.next_round(now_ms=now_ms)
        source.is_rewinding = True
        self._connections.say(peer, Rewind(number, source.round, source.name, credit_bytes))

    def rewound(self, peer: Peer, frame: Rewound) -> None:
        """A client begins anew: what it sends to that pubend counts again."""
        source = guest_of(peer).sources.get(frame.pubend)
        if source is None or frame.round > source.round:
            raise ProtocolError(f"the client answers a rewind of pubend {frame.pubend!r} that nobody asked for")
        # What found no way is wanted again first: else what came before a refused message would count as refused, too.
        is_stalled = source.passage is not None and source.passage.is_stalled
        if frame.round == source.round and not is_stalled:
            source.is_rewinding = False

    def skip(self, peer: Peer, frame: Skipped) -> None:
        """A client's next message to a pubend has a higher number: those in between were refused."""
        source = guest_of(peer).sources.get(frame.pubend)
        if source is None:
            raise ProtocolError(f"the client skips numbers of pubend {frame.pubend!r}, to which it published nothing")
        if source.is_rewinding:
            return
        if not source.received + 1 < frame.number <= _FIRST_MAX:
            raise ProtocolError(f"message {frame.number} does not lie beyond the last one, {source.received}")
        source.received = frame.number - 1
        source.may_jump = True

    # --- other brokers carry

    def take_carried(self, source: Source, first: int, bodies: list[bytes], *, now_ms: int) -> None:
        """Accepts messages that another broker has checked, and carried here for a publisher."""
        if first > source.received + 1:
            source.may_jump = True
        source.received = first + len(bodies) - 1
        size = sum(map(len, bodies))
        source.unpaid_bytes += size
        self._admit(source, first, bodies, take_in(bodies), size, now_ms)

    def ask_carried(self, source: Source, *, is_waited_for: bool) -> None:
        """Another broker asks what is settled: tells it now, and again when all is if somebody waits for that."""
        source.asks = is_waited_for and bool(source.outstanding)
        self._acknowledge(source)

    # --- what becomes of accepted messages

    def _admit(self, source: Source, first: int, bodies: list[bytes], decoded: Decoded, size: int, now_ms: int) -> None:
        if source.passage is not None:
            self.carrying.carry(source, first, bodies, now_ms=now_ms)
            return
        is_guaranteed = self._guaranteed.hosts(source.pubend)
        known = self._guaranteed.last_number(source) if is_guaranteed else self._pass_on(source)
        if first <= known:
            count = min(known - first + 1, len(bodies))
            self._take_repeated(source, first, bodies[:count], decoded[:count], now_ms)
            first, bodies, decoded = first + count, bodies[count:], decoded[count:]
            size = sum(map(len, bodies))
            if not bodies:
                return
        is_limited = self._limiter.is_active or not self._turnstile.is_open
        if not is_guaranteed and not is_limited and not source.outstanding:
            # Nothing to wait for, so nothing to remember.
            self._gather(source, bodies, decoded, now_ms)
            source.settled = source.received
            source.withheld_bytes += size
            self._on_settled(source, now_ms)
            return
        batch = Batch(source.received, size)
        source.outstanding.append(batch)
        held = Held(batch, source, first, bodies, decoded, source.may_jump)
        source.may_jump = False
        if is_limited:
            self._let_on(self._turnstile.offer(held, keeps_order=is_guaranteed, now_ms=now_ms), now_ms)
            return
        if not is_guaranteed:
            self._gather(source, bodies, decoded, now_ms)
            self._on_taken(source, batch, 0, now_ms)
            return
        commit = self._gate.offer(held, now_ms=now_ms)
        if commit is None:
            self._plan_release(now_ms)
        else:
            self._on_taken(source, batch, commit, now_ms)

    def _pass_on(self, source: Source) -> int:
        """Notes that messages to a best-effort pubend are passed on; returns the last number that was before.

        A publisher that goes to another broker may have left messages behind, on a slower way. They would come out of
        order, and are dropped.
        """
        key = (source.pubend, source.publisher)
        last = self._passed.pop(key, 0)
        if source.publisher:
            self._passed[key] = max(last, source.received)
            if len(self._passed) > _PASSED_MAX:
                del self._passed[next(iter(self._passed))]
        return last

    def _take_repeated(self, source: Source, first: int, bodies: list[bytes], decoded: Decoded, now_ms: int) -> None:
        """Takes messages that were taken before: they cost no rate and no quota, and are settled when durable."""
        batch = Batch(first + len(bodies) - 1, sum(map(len, bodies)))
        source.outstanding.append(batch)
        commit = 0
        if self._guaranteed.hosts(source.pubend):
            commit = self._guaranteed.publish(source, first, bodies, decoded, may_jump=True, now_ms=now_ms)
        else:
            self.counts["overtaken"] += len(bodies)
        self._on_taken(source, batch, commit, now_ms)

    def _gather(self, source: Source, bodies: list[bytes], decoded: Decoded, now_ms: int) -> None:
        """Adds best-effort messages to those of this turn, so that they are matched and sent on together."""
        key = (source.pubend, bool(source.host))
        gathered = self._gathered.get(key)
        if gathered is not None:
            gathered[0].extend(bodies)
            gathered[1].extend(decoded)
        else:
            # A list that is still extended must not be that of a frame.
            gathered = self._gathered[key] = (list(bodies), list(decoded))
        if len(gathered[0]) >= _GATHERED_MAX or self._subscribers.effort > _CHEAP_EFFORT:
            self.send_on(now_ms=now_ms)

    @property
    def has_gathered(self) -> bool:
        """Whether accepted messages wait to be sent on."""
        return bool(self._gathered)

    def send_on(self, *, now_ms: int) -> None:
        """Sends on what was gathered; called at the end of a turn, and before anything else that depends on order."""
        if self._gathered:
            gathered, self._gathered = self._gathered, {}
            for (pubend, is_carried), (bodies, decoded) in gathered.items():
                self._router.publish(pubend, bodies, decoded, is_carried=is_carried, now_ms=now_ms)

    def _let_on(self, parts: list[Held], now_ms: int) -> None:
        """Passes what the turnstile let through to the gate of its pubend, or publishes it if it is best effort."""
        for part in parts:
            commit: int | None = 0
            if self._guaranteed.hosts(part.source.pubend):
                commit = self._gate.offer(part, now_ms=now_ms)
            else:
                self._gather(part.source, part.bodies, part.decoded, now_ms)
            if commit is not None:
                self._on_taken(part.source, part.batch, commit, now_ms)
        self._plan_release(now_ms)

    def _plan_release(self, now_ms: int) -> None:
        wishes = (self._gate.next_deadline(now_ms=now_ms), self._turnstile.next_deadline(now_ms=now_ms))
        self._release_ms = min([each for each in wishes if each is not None], default=None)
        if self._release_ms is not None:
            self.due.by(self._release_ms)

    def _on_taken(self, source: Source, batch: Batch, commit: int, now_ms: int) -> None:
        """A batch has its ticks: it waits for its commit, or is settled."""
        if commit:
            self._unsettled.append((commit, source, batch))
            if self._guaranteed.full:
                self._tell({source: None}, HeldBack(self._guaranteed.full))
        else:
            batch.is_durable = True
            self._settle(source, now_ms)

    def on_committed(self, number: int, *, now_ms: int) -> None:
        """Commits up to this number are durable: settles the batches in them."""
        unsettled = self._unsettled
        while unsettled and unsettled[0][0] <= number:
            _, source, batch = unsettled.popleft()
            batch.is_durable = True
            self._settle(source, now_ms)

    def _settle(self, source: Source, now_ms: int) -> None:
        """Settles a publisher's batches up to the first that is not durable."""
        if source.is_gone:
            return
        outstanding = source.outstanding
        while outstanding and outstanding[0].is_durable:
            batch = outstanding.popleft()
            source.settled = batch.sequence
            source.withheld_bytes += batch.size
        if source.withheld_bytes:
            self._on_settled(source, now_ms)

    def _on_settled(self, source: Source, now_ms: int) -> None:
        """Messages of a publisher are settled: acknowledges them now, or with others after them."""
        if source.asks and not source.outstanding:
            source.asks = False
            self._acknowledge(source)
        elif source.passage is not None and source.passage.is_guaranteed:
            # The home has waited for others already.
            self._acknowledge(source)
        elif source.held_back.window_bytes or source.withheld_bytes >= source.credit_bytes // 4:
            # A client with a small window waits for it.
            self._acknowledge(source)
        elif source not in self._later and source not in self._due:
            self._later[source] = due_ms = now_ms + self._settings.acknowledge_ms
            self.due.by(due_ms)

    def before_rates(self) -> None:
        """Tells rate control who waits, before rates are adapted."""
        self._gate.remind()

    def leave(self, peer: Peer) -> None:
        """Forgets a client that is gone."""
        if peer.guest is not None:
            self.leave_all(peer.guest.sources.values())

    def leave_all(self, sources: Iterable[Source]) -> None:
        """Forgets publishers that are gone."""
        for source in sources:
            source.is_gone = True
            for each in (self._due, self._withheld, self._later, self._told):
                each.pop(source, None)
            if source.passage is not None:
                self.carrying.leave(source)
            else:
                self._gate.leave(source)
                self._turnstile.leave(source)

    def tune(self, *, now_ms: int) -> None:
        """Applies changed settings: nobody waits longer for an acknowledgement than a new publisher would."""
        latest_ms = now_ms + self._settings.acknowledge_ms
        due = sorted(
            [(min(due_ms, latest_ms), source) for source, due_ms in self._later.items()], key=lambda each: each[0]
        )
        self._later = {source: due_ms for due_ms, source in due}
        self.due.ask()

    # --- acknowledgements and credit

    def next_deadline(self) -> int | None:
        """When an acknowledgement has waited long enough, or a message may pass the gate."""
        # All acknowledgements wait equally long, so the first is the earliest.
        later = next(iter(self._later.values()), None)
        if later is None or self._release_ms is None:
            return self._release_ms if later is None else later
        return min(later, self._release_ms)

    def go_on(self, *, now_ms: int) -> None:
        """Pubends have begun: admits what waited for that."""
        for held, commit in self._gate.release(now_ms=now_ms):
            self._on_taken(held.source, held.batch, commit, now_ms)
        self._plan_release(now_ms)

    def on_deadline(self, *, now_ms: int) -> None:
        """Sends the acknowledgements that have waited long enough, and admits waiting messages."""
        if self._release_ms is not None and now_ms >= self._release_ms:
            for held, commit in self._gate.release(now_ms=now_ms):
                self._on_taken(held.source, held.batch, commit, now_ms)
            self._let_on(self._turnstile.release(now_ms=now_ms), now_ms)
        for source in [source for source, due_ms in self._later.items() if due_ms <= now_ms]:
            self._acknowledge(source)
        self.carrying.on_deadline(now_ms=now_ms)

    def _acknowledge(self, source: Source) -> None:
        self._later.pop(source, None)
        self._due[source] = None

    def acknowledge_all(self) -> None:
        """Acknowledges everything that is settled, before the broker stops, so that publishers do not think it lost."""
        for source in list(self._later):
            self._acknowledge(source)
        self.give_credit()

    def give_credit(self) -> bool:
        """Acknowledges what is settled, with credit unless publishers have to wait; returns False while they do."""
        is_open = self._gate.is_open and self._turnstile.is_open and not self.carrying.has_news
        if not self._due and not self._withheld and not self._told and is_open:
            return True
        reason = self._outbox_reason()
        own_reason = reason or self._guaranteed.hold_reason(names=self._settings.access.is_open)
        if bool(own_reason) != bool(self._reason):
            event = "publishers-held-back" if own_reason else "publishers-go-on"
            self._connections.record(event, reason=own_reason)
        self._reason = own_reason
        is_waiting = bool(own_reason)
        due, self._due = self._due, {}
        before, self._withheld = self._withheld, {}
        for source in due | before:
            why = own_reason and (reason or self._reason_at(source.pubend))
            if source.passage is not None:
                full = self.carrying.full_link(source.passage)
                is_waiting = is_waiting or bool(full)
                why = reason or full or _hold(source.passage)
            if why:
                self._withheld[source] = None
                self._tell({source: None}, HeldBack(why))
                if source in due:
                    self._say_settled(source, 0)
            else:
                self._say_settled(source, source.withheld_bytes)
                if source.passage is not None and self.carrying.is_slowed(source):
                    self._tell({source: None}, self.carrying.reason_of(source))
        self._tell_limited()
        return not is_waiting

    def _say_settled(self, source: Source, credit_bytes: int) -> None:
        """Tells a publisher, or the broker that carries for it, what is settled."""
        source.unpaid_bytes -= credit_bytes
        source.withheld_bytes -= credit_bytes
        if source.host:
            self._say_carried(source)
        elif (peer := self._connections.peers.get(source.connection)) is not None:
            self._connections.say(peer, PublishAck(source.settled, credit_bytes, source.name))

    def _say_carried(self, source: Source) -> None:
        reason, window_bytes = shortened(source.held_back.reason), source.held_back.window_bytes
        log = self._guaranteed.logs.get(source.pubend)
        answer = Carried(
            source.pubend,
            source.host,
            source.publisher,
            source.round,
            source.settled,
            reason,
            window_bytes,
            announced=0 if log is None else log.announced,
        )
        self._ways.down(source.pubend, source.host, answer)

    def _tell_limited(self) -> None:
        """Tells publishers why they wait for a rate, and all others that they need not wait any more."""
        limited = dict(self._withheld)
        for pubend, sources in ({} if self._gate.is_open else self._gate.waiting()).items():
            why = self._guaranteed.beginnings.why_waits(pubend)
            limit = HeldBack(why) if why else self._congestion.limit(pubend, len(sources))
            self._tell(_without(sources, self._withheld), limit)
            limited |= sources
        for source, (reason, rate_s) in self._turnstile.reasons().items():
            window_bytes = max(int(min(rate_s, _RATE_S_MAX) * _WINDOW_S), _WINDOW_BYTES_MIN) if reason else 0
            self._tell(_without({source: None}, self._withheld), HeldBack(reason, window_bytes))
            limited[source] = None
        for source, held_back in self.carrying.take_slowed():
            self._tell(_without({source: None}, self._withheld), held_back)
        is_held = bool(self._reason)
        others = [each for each in self._told if each not in limited and not self.carrying.is_slowed(each)]
        self._tell({each: None for each in others if not is_held or each.passage is not None}, NO_REASON)

    def hold_back(self, reason: str) -> None:
        """The log is full: tells publishers that wait for a commit why."""
        self._tell({source: None for _, source, _ in self._unsettled}, HeldBack(reason))

    def _tell(self, sources: dict[Source, None], held_back: HeldBack) -> None:
        for source in list(sources):
            if source.is_gone or source.held_back == held_back:
                continue
            source.held_back = held_back
            if source.host:
                self._say_carried(source)
            elif (peer := self._connections.peers.get(source.connection)) is not None:
                said = HeldBack(shortened(held_back.reason), held_back.window_bytes, source.name)
                self._connections.say(peer, said)
            if held_back.reason:
                self._told[source] = None
            else:
                self._told.pop(source, None)

    def _reason_at(self, pubend: str) -> str:
        """Why publishers to one of this broker's own pubends have to wait; those to others need not."""
        if not self._guaranteed.hosts(pubend):
            return ""
        return self._guaranteed.hold_reason(pubend, names=self._settings.access.is_open)

    def _outbox_reason(self) -> str:
        limit = self._settings.held_back_bytes
        if self._connections.waiting_bytes() > limit:
            return f"broker {self._settings.name} has more than {limit:,} bytes waiting to be sent"
        return ""

    # --- checks

    def _check_sequence(self, source: Source, frame: Publish) -> None:
        if source.received < 0:
            # A recognised publisher continues the numbers of its former connection.
            is_good = 1 <= frame.first <= _FIRST_MAX if source.publisher else frame.first == 1
        else:
            is_good = frame.first == source.received + 1
        if not is_good:
            raise ProtocolError(f"message {frame.first} is out of sequence: the last one was {max(source.received, 0)}")
        source.settled = frame.first - 1 if source.received < 0 else source.settled
        source.received = frame.first - 1


def _hold(passage: Passage) -> str:
    """Why the home of a pubend wants its publishers to wait for credit; empty if it does not."""
    return "" if passage.held_back.window_bytes else passage.held_back.reason


def _without(sources: dict[Source, None], others: dict[Source, None]) -> dict[Source, None]:
    return {source: None for source in sources if source not in others}
