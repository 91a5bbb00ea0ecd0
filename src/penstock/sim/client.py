"""Simulated clients: the session that applications use, in virtual time, with an application that records everything.

The application believes what it gets; the witness and the judges find what brokers and the session do wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from random import Random
from typing import Final

from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.protocol.frames import LATEST, Forget, Forgotten, Frame, Missing, Publish, PublishAck, Refused
from penstock.protocol.work_frames import Verdict
from penstock.session.address import Address
from penstock.session.changes import Answer, Changes
from penstock.session.errors import ClientError, RefusedError
from penstock.session.inbox import Inbox, Wanted
from penstock.session.receipts import Receipts
from penstock.session.received import HandedOut, Received
from penstock.session.session import Session
from penstock.session.settings import Choice, ClientSettings
from penstock.session.work import Said, Shared
from penstock.sim.link import ClientLink, End
from penstock.sim.records import Acknowledged, Delivery, LostTicks, Published, SubscriptionRecord
from penstock.sim.sending import Sending
from penstock.sim.shell import Surroundings, VirtualShell
from penstock.sim.witness import Witness

__all__ = ["SimClient", "address_of"]

_HOME: Final = "home"
"""The host in the only address the application knows: it leads to the broker where the world placed the client."""
_PORT: Final = 7000
_LEFT: Final = 0.4
"""Which share of messages are not acknowledged yet, at each opportunity, by who acknowledges single messages."""
_AWAITED: Final = 0.5
"""Of which share of those somebody waits to hear that they are kept."""
_KEPT_US: Final = 10_000_000
"""In a world without harm, it is told long before that a message is kept."""
_OPEN_AGAIN_US: Final = 500_000
"""How long an application that found no broker at first waits before it tries again."""


def address_of(broker: str) -> str:
    """The address of a simulated broker."""
    return str(Address(broker, _PORT))


class SimClient:
    """An application at the edge of the overlay: publisher, subscriber, or both."""

    def __init__(
        self,
        name: str,
        around: Surroundings,
        *,
        place: str,
        overlay: str = "",
        credential: str = "",
        is_pinned: bool = False,
        choice: Choice = "near",
        deliveries_max: int = 5_000_000,
    ) -> None:
        """Make a client that starts at this broker; deliveries beyond the limit are counted, but not recorded."""
        self.name, self.host, self.place = name, around.host, place
        self.clock, self._around = around.clock, around
        self._overlay, self._credential, self._is_pinned = overlay, credential, is_pinned
        self.choice: Choice = choice
        self.trail: list[tuple[int, str]] = []
        """The brokers that it was at, each with the time when it came there."""
        self._deliveries_max = deliveries_max
        self._rng = Random(f"{around.seed}/clients/{name}")
        self.is_up, self.is_away = True, False
        self.deliveries: list[Delivery] = []
        """The deliveries it received, in order."""
        self._records: dict[int, SubscriptionRecord] = {}
        self.wanted: dict[int, str] = {}
        """The selectors of its present subscriptions, by number."""
        self.forgetting: dict[int, str] = {}
        """Durable names it has asked to forget, by the number of the unanswered request."""
        self.forgotten: dict[str, int] = {}
        """Durable names that all pubends have forgotten, as it was told, and the time of that."""
        self.unrecorded = self.deaths = self._opportunities = 0
        self.sending = Sending(self.clock)
        self.witness = Witness(self.clock, around.given_up, self.note)
        self._inboxes: dict[int, Inbox] = {}
        """Inboxes of the present life, by the numbers of their records."""
        self._kept_back: dict[tuple[int, str], deque[Received]] = {}
        self._picking = Random(f"{around.seed}/picking/{name}")
        self.awaited: list[tuple[int, str, int]] = []
        """The acknowledged messages of which it waits to hear that they are kept, by subscription, pubend and tick."""
        self._line = 0
        self.session, self._shell = self._new_life()

    # --- state

    @property
    def is_connected(self) -> bool:
        """Whether a broker has welcomed it, and the connection stands as far as it knows."""
        return self.session.is_up

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and all its subscriptions are in force."""
        return self.is_connected and all(self._records[number].is_confirmed for number in self.wanted)

    @property
    def broker(self) -> str:
        """The broker it is connected to; empty if it is not."""
        return self.session.welcome.broker if self.session.is_up and self.session.welcome is not None else ""

    @property
    def subscriptions(self) -> dict[int, SubscriptionRecord]:
        """All its subscriptions by number, including those it gave up."""
        self.witness.sync_all()
        return self._records

    @property
    def published(self) -> list[Published]:
        """The messages it sent, in order; each once, however often it was sent."""
        return self.sending.published

    @property
    def acknowledged(self) -> int:
        """Messages that a broker has taken over."""
        return self.sending.acknowledged

    @property
    def unconfirmed(self) -> int:
        """Messages that were on the wire when a connection broke, and not sent again."""
        return self.sending.unconfirmed

    @property
    def unsettled(self) -> int:
        """Messages after the last one up to which every outcome is known."""
        return self.session.publishing.published - self.session.publishing.settled

    @property
    def backlog(self) -> int:
        """Messages not sent yet, as they wait for a connection or for credit."""
        return len(self.sending.backlog)

    @property
    def held_back(self) -> str:
        """The broker's reason for holding back its publications."""
        return self.session.held_back

    @property
    def lost(self) -> list[LostTicks]:
        """The ticks that brokers reported as lost."""
        return self.witness.lost

    # --- what applications do

    def open(self) -> None:
        """Connect, for the first time in this life."""
        self._shell.open()

    def subscribe(  # noqa: PLR0913  # all that tests may want
        self,
        selector: str,
        start: Mapping[str, int] | None = None,
        *,
        otherwise: int = LATEST,
        missing: Missing = "fail",
        durable: str = "",
        habit: tuple[int, int] = (0, 1),
        is_single: bool = False,
        pubends: tuple[str, ...] = (),
        shared: Shared | None = None,
        last_by: str = "",
    ) -> int:
        """Subscribe, now and after every reconnect; returns the number of the subscription.

        It begins at the ticks in ``start``, by pubend, and elsewhere at ``otherwise``, by default with new messages. A
        durable subscription acknowledges by habit: all but the last ``habit[0]`` messages, at every ``habit[1]``-th
        opportunity. If ``is_single``, it leaves any messages, and acknowledges each of the others by itself. With
        ``pubends`` it wants messages of these only. With ``shared`` it becomes a member of a group, and ``on_handed``
        gets its messages. With ``last_by``, the newest message of each value of that attribute comes first.
        """
        number = len(self._records) + 1
        record = SubscriptionRecord(number, selector, dict(start or {}), otherwise=otherwise, missing=missing)
        record.durable, (record.lag, record.every) = durable, habit
        record.pubends = pubends
        is_manual = bool(durable) and (is_single or habit != (0, 1))
        record.is_manual, record.is_single = is_manual, is_single and is_manual
        wanted = Wanted(
            selector, record.asked, otherwise, missing, durable, is_manual, pubends, shared, last_by=last_by
        )
        inbox = self.session.subscribe(wanted)
        self._records[number], self._inboxes[number] = record, inbox
        self.wanted[number] = selector
        self.witness.add(record, inbox)
        self._shell.pump()
        return number

    def unsubscribe(self, number: int) -> None:
        """Give up a subscription."""
        del self.wanted[number]
        self.witness.give_up(self._inboxes[number])
        self.session.unsubscribe(self._inboxes[number])
        self._shell.pump()

    def judge(self, number: int, message: HandedOut, verdict: Verdict, delay_ms: int = 0) -> Said:
        """Say what becomes of a message of a group."""
        said = self.session.judge(self._inboxes[number], message, verdict, delay_ms)
        self._shell.pump()
        return said

    def forget(self, durable: str) -> None:
        """Ask to forget a durable name; does nothing without a connection."""
        if self.is_connected:
            number = self.session.ask(lambda number: Forget(number, durable), now_ms=self.clock.now_ms)
            self.forgetting[number] = durable
            self._shell.pump()

    def publish(
        self, attributes: Attributes, payload: bytes = b"", pubend: str = "", expires: float | None = None
    ) -> None:
        """Publish a message, as soon as connection and credit allow; to a pubend, or to one of the session's choice."""
        self.sending.add(Message(attributes, payload, expires=expires), pubend)
        self.sending.flush(self.session)
        self._shell.pump()

    def leave(self) -> None:
        """Say goodbye and go for good."""
        self.session.say_last_words(is_done=False)
        self._shell.pump()
        self._shell.close()
        self.is_up = False

    # --- what happens to it

    def drop(self, *, loud: bool) -> None:
        """Lose all connections; if loud, the network tells the brokers."""
        self.note("drops its connections")
        self._shell.drop(loud=loud)

    def go_away(self, *, loud: bool) -> None:
        """Lose all connections and stay away until placed somewhere; no time passes for it meanwhile."""
        self.is_away = True
        self._shell.freeze()
        self.drop(loud=loud)

    def come_to(self, broker: str) -> None:
        """Move to this broker, with all it knows, or as a new process if it has died."""
        self.place, self.witness.told = broker, {}
        was_dead, self.is_up, self.is_away = not self.is_up, True, False
        self._shell.thaw()
        if was_dead:
            self.open()

    def die(self, *, loud: bool) -> None:
        """End the process, which forgets subscriptions, positions and what it did not acknowledge."""
        assert not self.published, "a publisher that dies would have to begin with the number it had come to"
        self.note("dies")
        self.is_up = False
        self.deaths += 1
        self.wanted.clear()
        self.forgetting.clear()
        self.witness.die()
        self._inboxes, self._kept_back, self.awaited, self._line = {}, {}, [], 0
        self._shell.end(loud=loud)
        self.session, self._shell = self._new_life()

    def wants(self, broker: str) -> bool:
        """Whether it is at this broker, or on its way there."""
        if not self.is_up or self.is_away:
            return False
        brokers = self._shell.brokers.values()
        return broker in brokers if brokers else broker == self.place

    # --- link events

    def on_connected(self, end: End, *, dialled: str) -> None:
        """Greet the broker it dialled."""
        self.note(f"reaches {dialled}")
        self._shell.on_connected(end)

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Handle a broker's frames, in order."""
        self._opportunities += 1
        heard = self.witness.hear(end.number, frames)
        self._shell.on_frames(end, self._settled(heard) if self.published else heard)

    def on_lost(self, end: End) -> None:
        """Handle the loss of a connection."""
        self.note("loses its broker")
        self._shell.on_lost(end)

    # --- session events

    def _on_changes(self, changes: Changes) -> None:
        if changes.lost:
            self.witness.lose()
            self.forgetting.clear()
        if self.session.is_up and self.session.line != self._line:
            self._line = self.session.line
            self.place = self._shell.brokers[self._line]
            self.note(f"is at {self.place} now")
            if not self.trail or self.trail[-1][1] != self.place:
                self.trail.append((self.clock.now_us, self.place))
            self.witness.settle(self._line)
        for inbox in changes.inboxes.values():
            self._take(inbox)
        for answer in changes.answers:
            self.on_answer(answer)
        if changes.end is not None:
            self._on_end(changes.end)
        self.witness.check_repeated(self.session.repeated)
        self.sending.collect(self.session)
        self.sending.flush(self.session)
        self._hear_what_is_kept()
        self._acknowledge()

    def _on_said(self, line: int, frame: Frame) -> None:
        if type(frame) is Publish:
            self.note(f"publishes {frame.first}, {len(frame.bodies)} messages")
            self.sending.on_sent(frame)
        else:
            self.witness.on_said(line, frame)

    # --- being an application

    def on_answer(self, answer: Answer) -> None:
        """Handle a broker's answer to a request."""
        # A name that nobody knows is as good as forgotten.
        if isinstance(answer, Forgotten | Refused):
            name = self.forgetting.pop(answer.number)
            if isinstance(answer, Refused) or not answer.pending:
                self.forgotten[name] = self.clock.now_us

    def on_handed(self, number: int, message: HandedOut) -> None:
        """Handle a message that was handed to it as the member of a group; for applications that are members."""

    def _read(self, inbox: Inbox) -> list[Received]:
        """The messages that the application takes out of a subscription now: by default all that have arrived."""
        return inbox.pop_many()

    def _take(self, inbox: Inbox) -> None:
        record = self.witness.record_of(inbox)
        for received in self._read(inbox):
            if isinstance(received, HandedOut):
                self.note(f"is handed {received.pubend} {received.tick}, attempt {received.attempt}")
                self.on_handed(record.number, received)
                continue
            if len(self.deliveries) < self._deliveries_max:
                self.deliveries.append(
                    Delivery(self.clock.now_us, record.number, received.pubend, received.tick, received.body)
                )
            else:
                self.unrecorded += 1
            if inbox.wanted.is_manual and received.is_guaranteed:
                self._kept_back.setdefault((record.number, received.pubend), deque()).append(received)
        if inbox.receipts is not None and inbox.receipts.settle():
            self.session.on_moved(inbox)
        if inbox.state == "refused" and not record.refused:
            self.wanted.pop(record.number, None)
            self.witness.on_refused(inbox)

    def _acknowledge(self) -> None:
        """Acknowledge durable subscriptions, each by its habit."""
        for (number, pubend), received in self._kept_back.items():
            record, inbox = self._records[number], self._inboxes[number]
            if number in self.wanted and self._opportunities % record.every == 0 and len(received) > record.lag:
                assert inbox.receipts is not None
                if record.is_single:
                    self._acknowledge_some(record, inbox.receipts, received)
                    self.session.on_moved(inbox)
                    continue
                while len(received) > record.lag:
                    last = received.popleft()
                    record.done[pubend, last.tick] = self.clock.now_us
                inbox.receipts.acknowledge_through(last)
                self.session.on_moved(inbox)

    def _acknowledge_some(self, record: SubscriptionRecord, receipts: Receipts, received: deque[Received]) -> None:
        """Acknowledge single messages in any order; wait for some of them."""
        chance = self._picking
        for message in chance.sample(list(received), len(received)):
            if len(received) <= record.lag or chance.random() < _LEFT:
                continue
            received.remove(message)
            record.done[message.pubend, message.tick] = self.clock.now_us
            receipts.acknowledge(message)
            if chance.random() < _AWAITED:
                self.awaited.append((record.number, message.pubend, message.tick))
                receipts.wait_for(message.pubend, message.tick)

    @property
    def overdue(self) -> list[tuple[int, str, int]]:
        """Those of ``awaited`` that it has waited for so long that the answer must be lost."""
        latest_us = self.clock.now_us - _KEPT_US
        return [each for each in self.awaited if self._records[each[0]].done[each[1:]] < latest_us]

    def _hear_what_is_kept(self) -> None:
        """Record which of the acknowledged messages are kept, as the application is told that waits for it."""
        awaited, self.awaited = self.awaited, []
        for number, pubend, tick in awaited:
            receipts = self._inboxes[number].receipts
            assert receipts is not None
            if receipts.is_kept(pubend, tick):
                receipts.wait_no_more(pubend, tick)
                self._records[number].kept.append(Acknowledged(self.clock.now_us, pubend, tick))
            elif number in self.wanted:
                self.awaited.append((number, pubend, tick))

    def _settled(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Pass frames on, noting the acknowledgements of published messages among them."""
        for frame in frames:
            if type(frame) is PublishAck:
                self.sending.collect(self.session)
                self.sending.on_ack(frame.pubend, frame.sequence)
            yield frame

    def _on_end(self, end: ClientError) -> None:
        self.note(f"gives up: {end}")
        if not isinstance(end, RefusedError):
            session = self.session
            self.clock.after(_OPEN_AGAIN_US, lambda: self._open_again(session))

    def _open_again(self, session: Session) -> None:
        if self.session is session and self.is_up:
            self.open()

    def _identity(self) -> str:
        """What tells it from other publishers, and other members of groups; by default the same in all its lives."""
        return self.name

    def _new_life(self) -> tuple[Session, VirtualShell]:
        settings = ClientSettings(
            linger_ms=0,
            acknowledge_ms=0,
            connect_timeout_ms=0,
            backoff_first_ms=100,
            backoff_max_ms=5_000,
            pinned=self._is_pinned,
            choice=self.choice,
        )
        session = Session(
            settings,
            (Address(_HOME, _PORT),),
            name=self.name,
            publisher=blake2b(self._identity().encode(), digest_size=16).digest(),
            chance=self._rng,
            token=self._credential,
            overlay=self._overlay,
        )
        shell = VirtualShell(session, self.clock, find=self._find, on_changes=self._on_changes, on_said=self._on_said)
        return session, shell

    def _find(self, address: Address) -> ClientLink | None:
        """The link to the broker at an address: where it was placed, or where brokers sent it; None otherwise."""
        broker = self.place if address.host == _HOME else address.host
        is_reached = broker == self.place or broker in self.witness.told
        return self._around.find(self.name, broker) if is_reached else None

    def note(self, what: str) -> None:
        """Note an event in the trace."""
        self._around.trace.note(self.clock.now_us, self.name, what)
