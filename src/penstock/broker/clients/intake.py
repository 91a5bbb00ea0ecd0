"""Takes messages from publishers: checks them, passes them to their pubend, acknowledges them, and controls credit.

An acknowledgement costs a separate write. Nobody waits for one unless the window is getting small, or the client says
so by an empty batch; so several are sent together. What is durable is always acknowledged; it is the credit that is
withheld when publishers have to wait, and then they are told why.

Messages are refused one by one. The client is told which, and what it sent after them waits until it confirms that it
knows: so a refused message is never mistaken for an accepted one, over however many connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.broker.clients.judging import Judge, parts
from penstock.broker.clients.turnstile import Turnstile
from penstock.broker.due import Due
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.mechanisms.congestion import Congestion
from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.peers import Batch, Guest, Peer, guest_of
from penstock.broker.pubend.gate import Gate, Held
from penstock.broker.rooms import Rooms
from penstock.model.body import BODY_BYTES_MIN, take_in
from penstock.model.values import AttributeValue
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import HeldBack, Publish, PublishAck, RefusedAck

__all__ = ["CREDIT_CHECK_MS", "Intake"]

CREDIT_CHECK_MS: Final = 10
"""How often a broker that holds publishers back checks whether it may stop doing so."""

_WAITING_BYTES_MIN: Final = 64
"""The least that a waiting batch counts as: it takes some hundred bytes, however small its messages are."""
_WINDOW_S: Final = 0.5
"""How much a slowed publisher may have in flight: what its rate allows in this time."""
_RATE_S_MAX: Final = 1e9
_WINDOW_BYTES_MIN: Final = 2_000
"""A slowed publisher may always have this much in flight."""
_CHEAP_EFFORT: Final = 500
"""Where matching a message takes more than this, about 0.2 ms, none waits for others: its own publisher pays for it."""
_GATHERED_MAX: Final = 16
"""This many messages are sent on at once: a larger batch would hardly cost less for each. Fewer wait for others."""


class Intake:
    """Serves the publishers among the clients of one broker."""

    def __init__(
        self,
        rooms: Rooms,
        guaranteed: Guaranteed,
        congestion: Congestion,
        limiter: Limiter,
        *,
        refuse: Callable[[Peer, str, int, str, int], None],
    ) -> None:
        self._settings = rooms.settings
        self._connections = rooms.connections
        self._router = rooms.router
        self._subscribers = rooms.subscribers
        self._pubends = rooms.pubends
        self._judge = Judge(rooms.pubends)
        self._guaranteed = guaranteed
        self._congestion = congestion
        self._refuse = refuse
        self._gate = Gate(congestion.controls, guaranteed.publish)
        self._limiter, self._turnstile = limiter, Turnstile(limiter)
        self._release_ms: int | None = None
        self.due = Due(self.next_deadline)
        self._unsettled: deque[tuple[int, int, Batch]] = deque()
        """Commit, connection and batch of messages that are not durable yet, in the order of commits."""
        self._due: dict[int, None] = {}
        """Publishers to be acknowledged in this turn."""
        self._withheld: dict[int, None] = {}
        """Publishers whose credit is withheld until the outboxes have drained enough."""
        self._later: dict[int, int] = {}
        """When publishers are to be acknowledged later, by connection."""
        self._told: dict[int, None] = {}
        """Publishers that were told why they wait."""
        self._reason = ""
        """Why publishers have to wait, as last computed."""
        self._gathered: dict[str, tuple[list[bytes], list[dict[str, AttributeValue]]]] = {}
        """Accepted best-effort messages of this turn that are not sent on yet, by pubend: bodies and attributes."""

    def publish(self, peer: Peer, frame: Publish, now_ms: int) -> None:
        """Accepts or refuses each of a client's messages; an empty batch asks for an acknowledgement."""
        guest = guest_of(peer)
        bodies = frame.bodies
        if frame.first != guest.published + 1 or guest.published < 0:
            self._check_sequence(guest, frame)
        if not bodies:
            if guest.outstanding or guest.waiting:
                guest.asks = True
            else:
                self._acknowledge(peer.connection)
            return
        if guest.unpaid_bytes > guest.credit_bytes:
            raise ProtocolError(
                f"{guest.unpaid_bytes:,} bytes are published beyond the credit of {guest.credit_bytes:,}"
            )
        size = sum(map(len, bodies))
        if size < BODY_BYTES_MIN * len(bodies):
            # Else messages that cost no credit could be sent without end.
            raise ProtocolError(f"bodies of {size:,} bytes together are too small for {len(bodies):,} messages")
        guest.unpaid_bytes += size
        guest.published = frame.first + len(bodies) - 1
        if guest.waiting or guest.refused > guest.confirmed:
            if len(guest.waiting) * _WAITING_BYTES_MIN >= guest.credit_bytes:
                raise ProtocolError(f"{len(guest.waiting):,} batches wait behind a refused message")
            guest.waiting.append((frame, False))
        else:
            self._take(peer, guest, frame, now_ms)

    def confirm(self, peer: Peer, frame: RefusedAck, *, now_ms: int) -> None:
        """A client confirms that it knows of all refusals up to a number: takes what waited behind them."""
        guest = guest_of(peer)
        if frame.sequence > guest.told:
            raise ProtocolError(
                f"the client confirmed refusal {frame.sequence}, but the last refused message is {guest.told}"
            )
        guest.confirmed = max(guest.confirmed, frame.sequence)
        self._go_on(peer, guest, now_ms)

    def _take(self, peer: Peer, guest: Guest, frame: Publish, now_ms: int) -> None:
        """Accepts a batch, or tells the client at once what is refused and accepts the rest part by part."""
        decoded = take_in(frame.bodies)
        pubend = self._pubends.choose(frame.pubend, guest.publisher)
        problems = self._judge.problems(guest, frame, pubend, decoded)
        if not problems:
            assert pubend is not None, "a problem of all messages"
            self._admit_batch(peer, frame, pubend, decoded, now_ms)
            return
        found = parts(frame, problems)
        for part in found:
            if part.reason:
                self._refuse(peer, "publish", part.frame.first, part.reason, len(part.frame.bodies))
                guest.told = _last(part.frame)
        guest.waiting.extendleft((part.frame, bool(part.reason)) for part in reversed(found))
        self._go_on(peer, guest, now_ms)

    def _go_on(self, peer: Peer, guest: Guest, now_ms: int) -> None:
        """Takes what waits, up to the first good message after a refused one that the client does not know of.

        A pubend knows the highest number of a publisher, and treats all lower ones as duplicates. If it had a message
        after a refused one, and the client reconnected without having heard of the refusal, the client would resend the
        refused one, which might be allowed by then: it would be acknowledged, and nobody would ever get it.
        """
        waiting = guest.waiting
        while waiting and (waiting[0][1] or guest.refused <= guest.confirmed):
            frame, is_refused = waiting.popleft()
            if is_refused:
                guest.refused = _last(frame)
                self._on_taken(peer.connection, self._outstanding(guest, frame), 0, now_ms)
            else:
                self._take(peer, guest, frame, now_ms)

    @staticmethod
    def _outstanding(guest: Guest, frame: Publish) -> Batch:
        batch = Batch(_last(frame), sum(map(len, frame.bodies)))
        guest.outstanding.append(batch)
        return batch

    def _admit_batch(
        self, peer: Peer, frame: Publish, pubend: str, decoded: list[dict[str, AttributeValue]], now_ms: int
    ) -> None:
        guest = guest_of(peer)
        is_guaranteed = self._guaranteed.hosts(pubend)
        is_limited = self._limiter.is_active or not self._turnstile.is_open
        if not is_guaranteed and not is_limited and not guest.outstanding:
            # Nothing to wait for, so nothing to remember.
            self._gather(pubend, frame.bodies, decoded, now_ms)
            guest.settled = _last(frame)
            guest.withheld_bytes += sum(map(len, frame.bodies))
            self._on_settled(peer.connection, guest, now_ms)
            return
        batch = self._outstanding(guest, frame)
        held = Held(batch, peer.connection, guest.publisher_id, pubend, frame.first, frame.bodies, decoded)
        if is_limited:
            sender = self._sender(guest)
            self._let_on(self._turnstile.offer(held, sender, keeps_order=is_guaranteed, now_ms=now_ms), now_ms)
            return
        if not is_guaranteed:
            self._gather(pubend, frame.bodies, decoded, now_ms)
            self._on_taken(peer.connection, batch, 0, now_ms)
            return
        commit = self._gate.offer(held, now_ms=now_ms)
        if commit is None:
            self._plan_release(now_ms)
        else:
            self._on_taken(peer.connection, batch, commit, now_ms)

    def _gather(self, pubend: str, bodies: list[bytes], decoded: list[dict[str, AttributeValue]], now_ms: int) -> None:
        """Adds best-effort messages to those of this turn, so that they are matched and sent on together."""
        gathered = self._gathered.get(pubend)
        if gathered is not None:
            gathered[0].extend(bodies)
            gathered[1].extend(decoded)
        else:
            # A list that is still extended must not be that of a frame.
            gathered = self._gathered[pubend] = (list(bodies), list(decoded))
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
            for pubend, (bodies, decoded) in gathered.items():
                self._router.publish(pubend, bodies, decoded, now_ms=now_ms)

    def _sender(self, guest: Guest) -> str:
        """The publisher's name as a sender of groups: unique in the overlay, and readable."""
        return f"{guest.client}@{self._settings.name}/{guest.publisher}"

    def _let_on(self, parts: list[Held], now_ms: int) -> None:
        """Passes what the turnstile let through to the gate of its pubend, or publishes it if it is best effort."""
        for part in parts:
            commit: int | None = 0
            if self._guaranteed.hosts(part.pubend):
                commit = self._gate.offer(part, now_ms=now_ms)
            else:
                self._gather(part.pubend, part.bodies, part.decoded, now_ms)
            if commit is not None:
                self._on_taken(part.connection, part.batch, commit, now_ms)
        self._plan_release(now_ms)

    def _plan_release(self, now_ms: int) -> None:
        wishes = (self._gate.next_deadline(now_ms=now_ms), self._turnstile.next_deadline(now_ms=now_ms))
        self._release_ms = min([each for each in wishes if each is not None], default=None)
        if self._release_ms is not None:
            self.due.by(self._release_ms)

    def _on_taken(self, connection: int, batch: Batch, commit: int, now_ms: int) -> None:
        """A batch has its ticks: it waits for its commit, or is settled."""
        if commit:
            self._unsettled.append((commit, connection, batch))
            if self._guaranteed.full:
                self._tell({connection: None}, HeldBack(self._guaranteed.full))
        else:
            batch.is_durable = True
            self._settle(connection, now_ms)

    def on_committed(self, number: int, *, now_ms: int) -> None:
        """Commits up to this number are durable: settles the batches in them."""
        unsettled = self._unsettled
        while unsettled and unsettled[0][0] <= number:
            _, connection, batch = unsettled.popleft()
            batch.is_durable = True
            self._settle(connection, now_ms)

    def _settle(self, connection: int, now_ms: int) -> None:
        """Settles a publisher's batches up to the first that is not durable."""
        peer = self._connections.peers.get(connection)
        if peer is None or peer.guest is None:
            return
        guest = peer.guest
        outstanding = guest.outstanding
        while outstanding and outstanding[0].is_durable:
            batch = outstanding.popleft()
            guest.settled = batch.sequence
            guest.withheld_bytes += batch.size
        if guest.withheld_bytes:
            self._on_settled(connection, guest, now_ms)

    def _on_settled(self, connection: int, guest: Guest, now_ms: int) -> None:
        """Messages of a publisher are settled: acknowledges them now, or with others after them."""
        if guest.asks and not guest.outstanding and not guest.waiting:
            guest.asks = False
            self._acknowledge(connection)
        elif guest.held_back.window_bytes or guest.withheld_bytes >= self._settings.credit_bytes // 4:
            # A client with a small window waits for it.
            self._acknowledge(connection)
        elif connection not in self._later and connection not in self._due:
            self._later[connection] = due_ms = now_ms + self._settings.acknowledge_ms
            self.due.by(due_ms)

    def before_rates(self) -> None:
        """Tells rate control who waits, before rates are adapted."""
        self._gate.remind()

    def leave(self, connection: int) -> None:
        """Forgets a client that is gone."""
        for each in (self._due, self._withheld, self._later, self._told):
            each.pop(connection, None)
        self._gate.leave(connection)
        self._turnstile.leave(connection)

    def tune(self, *, now_ms: int) -> None:
        """Applies changed settings: nobody waits longer for an acknowledgement than a new publisher would."""
        latest_ms = now_ms + self._settings.acknowledge_ms
        due = sorted((min(due_ms, latest_ms), connection) for connection, due_ms in self._later.items())
        self._later = {connection: due_ms for due_ms, connection in due}
        self.due.ask()

    # --- acknowledgements and credit

    def next_deadline(self) -> int | None:
        """When an acknowledgement has waited long enough, or a message may pass the gate."""
        # All acknowledgements wait equally long, so the first is the earliest.
        later = next(iter(self._later.values()), None)
        if later is None or self._release_ms is None:
            return self._release_ms if later is None else later
        return min(later, self._release_ms)

    def on_deadline(self, *, now_ms: int) -> None:
        """Sends the acknowledgements that have waited long enough, and admits waiting messages."""
        if self._release_ms is not None and now_ms >= self._release_ms:
            for held, commit in self._gate.release(now_ms=now_ms):
                self._on_taken(held.connection, held.batch, commit, now_ms)
            self._let_on(self._turnstile.release(now_ms=now_ms), now_ms)
        for connection in [connection for connection, due_ms in self._later.items() if due_ms <= now_ms]:
            self._acknowledge(connection)

    def _acknowledge(self, connection: int) -> None:
        self._later.pop(connection, None)
        self._due[connection] = None

    def acknowledge_all(self) -> None:
        """Acknowledges everything that is settled, before the broker stops, so that publishers do not think it lost."""
        for connection in list(self._later):
            self._acknowledge(connection)
        self.give_credit()

    def give_credit(self) -> bool:
        """Acknowledges what is settled, with credit unless publishers have to wait; returns False while they do."""
        is_open = self._gate.is_open and self._turnstile.is_open
        if not self._due and not self._withheld and not self._told and is_open:
            return True
        reason = self._reason_to_wait()
        if bool(reason) != bool(self._reason):
            self._connections.record("publishers-held-back" if reason else "publishers-go-on", reason=reason)
        self._reason = reason
        peers = self._connections.peers
        for connection in [*self._due, *(() if reason else self._withheld)]:
            peer = peers.get(connection)
            if peer is None:
                continue
            guest = guest_of(peer)
            if reason:
                self._withheld[connection] = None
                self._connections.say(peer, PublishAck(guest.settled, 0))
            else:
                self._connections.say(peer, PublishAck(guest.settled, guest.withheld_bytes))
                guest.unpaid_bytes -= guest.withheld_bytes
                guest.withheld_bytes = 0
        self._due = {}
        if reason:
            self._tell(self._withheld, HeldBack(reason))
            return False
        self._withheld = {}
        self._tell_limited()
        return True

    def _tell_limited(self) -> None:
        """Tells publishers why they wait for a rate, and all others that they need not wait any more."""
        waiting = {} if self._gate.is_open else self._gate.waiting()
        limited: dict[int, None] = {}
        for pubend, connections in waiting.items():
            self._tell(connections, self._congestion.limit(pubend, len(connections)))
            limited |= connections
        for connection, (reason, rate_s) in self._turnstile.reasons().items():
            window_bytes = max(int(min(rate_s, _RATE_S_MAX) * _WINDOW_S), _WINDOW_BYTES_MIN) if reason else 0
            self._tell({connection: None}, HeldBack(reason, window_bytes))
            limited[connection] = None
        self._tell({each: None for each in self._told if each not in limited}, HeldBack(""))

    def hold_back(self, reason: str) -> None:
        """The log is full: tells publishers that wait for a commit why."""
        self._tell({connection: None for _, connection, _ in self._unsettled}, HeldBack(reason))

    def _tell(self, connections: dict[int, None], held_back: HeldBack) -> None:
        for connection in list(connections):
            peer = self._connections.peers.get(connection)
            if peer is None or peer.guest is None or peer.guest.held_back == held_back:
                continue
            peer.guest.held_back = held_back
            self._connections.say(peer, held_back)
            if held_back.reason:
                self._told[connection] = None
            else:
                self._told.pop(connection, None)

    def _reason_to_wait(self) -> str:
        limit = self._settings.held_back_bytes
        if self._connections.waiting_bytes() > limit:
            return f"broker {self._settings.name} has more than {limit:,} bytes waiting to be sent"
        return self._guaranteed.hold_reason(names=self._settings.access.is_open)

    # --- checks

    def _check_sequence(self, guest: Guest, frame: Publish) -> None:
        if guest.published < 0:
            # A recognised publisher continues the numbers of its former connection.
            is_good = frame.first >= 1 if guest.publisher_id else frame.first == 1
            guest.settled = frame.first - 1
        elif guest.publisher_id:
            is_good = frame.first > guest.published
        else:
            is_good = frame.first == guest.published + 1
        if not is_good:
            raise ProtocolError(f"message {frame.first} is out of sequence: the last one was {max(guest.published, 0)}")


def _last(frame: Publish) -> int:
    return frame.first + len(frame.bodies) - 1
