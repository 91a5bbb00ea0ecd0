"""The client's conversation with its present broker, which outlives the connection.

Subscriptions are sent again on every new connection, under their old numbers and with their present positions. So are
waiting messages, and those that were on the wire to pubends that recognise what they have: all connections of a session
state the same publisher. Open questions are dropped when the connection is lost; until then some are
repeated at intervals, since they or their answers may get lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from msgspec import structs

from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import PROTOCOL_VERSION, Deliver, Frame, Welcome
from penstock.session.changes import Answer, Changes
from penstock.session.events import Unanswered
from penstock.session.inbox import Inbox, Lag, Wanted
from penstock.session.inboxes import Inboxes, learn_names, subscribe_frame
from penstock.session.last_values import AGAIN_MS, PAUSE_MS
from penstock.session.leaver import Leaver
from penstock.session.moves import Moves, Subscribing
from penstock.session.newcomer import SILENT_HEARTBEATS, Newcomer
from penstock.session.positions import LostTicks
from penstock.session.publishing import Identifying, Publishing
from penstock.session.settings import ClientSettings

__all__ = ["Asked", "Resident"]

_LATE: Final = 2**62
"""A time by which everything is due."""
_REASON_CHARS_MAX: Final = 500
_SCANS_MAX: Final = 4
"""Most scans of logs at a time; a broker takes no more than 16 requests of a client."""
_State: TypeAlias = Literal["down", "greeting", "up"]


class Resident:
    """The endpoint of a client's main connection, through one connection after another."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        name: str,
        token: str = "",
        overlay: str = "",
        publisher: bytes = b"",
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self._settings = settings
        who = (PROTOCOL_VERSION, "client", name, overlay)
        self._hello = f.Hello(*who, credential=token, publisher=b"", pinned=settings.pinned)
        self.publishing: Final = Publishing(settings)
        self._inboxes = Inboxes(settings)
        self.become(name, publisher)
        self._state: _State = "down"
        self._outgoing: list[Frame] = []
        self.moves: Final = Moves(self._inboxes)
        self._subscribing = Subscribing(self._inboxes, self.moves)
        self._pubends: dict[int, str] = {}
        self._identifying = Identifying(guard or nullcontext())
        self.stamp = self._identifying.stamp
        """Puts the identifier of a message to be published now before its encoded rest; returns it and the whole."""
        self._asked = Asked()
        self._scanning: dict[int, Inbox] = {}
        """Subscriptions that read logs before they begin, by the number of the question that is open."""
        self._wall_ms = 0
        self._flushed: Mapping[str, int] = {}
        self._heartbeat_ms = 0
        self._sent_ms = self._heard_ms = 0
        self.welcome: Welcome | None = None
        """The welcome of the broker that was connected last."""
        self.received = 0
        """Messages delivered to this client."""
        self.writable = True
        """Whether the shell can write; while it cannot, no frames are taken and batches grow."""

    @property
    def is_up(self) -> bool:
        """Whether a broker has welcomed this client, and the connection still stands."""
        return self._state == "up"

    @property
    def reading(self) -> bool:
        """Whether the shell should read from the socket: no subscription is too full."""
        return not self._inboxes.are_blocking

    @property
    def repeated(self) -> int:
        """Deliveries dropped because they had arrived before; a broker that keeps its word sends none."""
        return self._inboxes.repeated

    @property
    def taken_away(self) -> int:
        """Messages of groups that this client lost before the application had said what becomes of them."""
        return self._inboxes.taken_away

    def become(self, name: str, publisher: bytes) -> None:
        """Takes a name and a publisher's identity; one that the application chose in the settings takes precedence."""
        self.publishing.identity = self._settings.publisher or publisher
        self._inboxes.member = publisher
        self._hello = structs.replace(self._hello, name=name, publisher=self.publishing.identity)

    def forget_connection(self) -> None:
        """Drops the connection and unread messages, which belong to somebody else."""
        for inbox in (*self.on_disconnected().inboxes.values(), *self._inboxes.paused):
            inbox.clear()

    # What the application asks for.

    def subscribe(self, wanted: Wanted) -> Inbox:
        """Makes a subscription."""
        inbox = self._inboxes.add(wanted)
        if self.is_up:
            if inbox.last_values is None:
                self._outgoing.append(subscribe_frame(inbox))
            else:
                self._scan(now_ms=self._heard_ms)
        return inbox

    def unsubscribe(self, inbox: Inbox, *, is_done: bool = False) -> None:
        """Withdraws a subscription, and drops its unread messages.

        If it is durable, what was read is acknowledged first; what was read last, only if the application is done.
        """
        if self.is_up:
            self._outgoing += self._last_words(inbox, is_done=is_done)
        inbox.withdraw()
        if inbox.is_over or inbox.state == "closing":
            return
        if self.is_up and inbox.state != "paused" and inbox.last_values is None:
            if inbox.work is not None:
                self._outgoing += inbox.work.take(inbox.number, now_ms=_LATE)
            self._inboxes.close(inbox)
            self._outgoing.append(f.Unsubscribe(inbox.number))
        else:
            self._inboxes.forget(inbox)
        self.moves.withdraw(inbox)
        self.on_taken(inbox)

    def pause(self, inbox: Inbox) -> None:
        """Withdraws a subscription, but keeps its positions and its unread messages; what was read is acknowledged."""
        if inbox.state not in ("asked", "ready"):
            return
        if self.is_up:
            self._outgoing += self._last_words(inbox, is_done=False)
            self._outgoing.append(f.Unsubscribe(inbox.number))
        self.moves.withdraw(inbox)
        self._inboxes.pause(inbox)

    def resume(self, inbox: Inbox) -> None:
        """Asks for a paused subscription again, from where it was; it gets another number."""
        if inbox.state != "paused":
            return
        self._inboxes.resume_paused(inbox)
        if self.is_up:
            self._outgoing.append(subscribe_frame(inbox))

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Makes the identifier of a message to be published now; returns it and the encoded message."""
        return self._identifying.identify(message, wall_ms=wall_ms)

    def hurry(self, *, now_ms: int) -> None:
        """Asks the broker to acknowledge everything published so far now, since somebody waits for it.

        Asks once on each connection: a broker that cannot acknowledge yet would be asked for ever.
        """
        self._flushed = self.publishing.mark()
        self.publishing.hurry(now_ms=now_ms)

    def ask(self, question: Callable[[int], Frame], *, again_ms: int | None = None, now_ms: int) -> int:
        """Asks the broker a question, repeated every ``again_ms`` if given; returns the answer's number."""
        assert self.is_up, "there is no broker to ask"
        number, frame = self._asked.ask(question, again_ms=again_ms, now_ms=now_ms)
        self._outgoing.append(frame)
        return number

    def withdraw_question(self, number: int) -> None:
        """Drops a question whose answer nobody waits for any more."""
        self._asked.settle(number)

    def on_taken(self, inbox: Inbox) -> bool:
        """The application took messages out of a full subscription; returns whether the shell should read again."""
        self._inboxes.on_taken(inbox)
        return self.reading

    def on_moved(self, inbox: Inbox) -> bool:
        """The application is done with messages of a durable subscription; returns whether to update the timer."""
        return self._inboxes.reporting.on_moved(inbox)

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""
        return inbox.lag(self._inboxes.presents)

    def unanswered(self) -> list[Unanswered]:
        """The groups in which messages were acknowledged or refused, with no answer so far."""
        return self._inboxes.unanswered()

    def on_closing(self, *, is_done: bool) -> None:
        """Acknowledges what was read from durable subscriptions before the end; what was read last, if ``is_done``."""
        # Sent even if the transport is full: the last words are few, and there is no later chance.
        self.writable = True
        for inbox in self._inboxes:
            self._outgoing += self._last_words(inbox, is_done=is_done)
            if inbox.work is not None and self.is_up:
                # Others get at once what the application has not read.
                inbox.withdraw()
                self._outgoing += inbox.work.take(inbox.number, now_ms=_LATE)
                self._outgoing.append(f.Unsubscribe(inbox.number))

    # Events of the connection.

    def on_connected(self, *, now_ms: int) -> None:
        """There is a connection; the broker does not know who we are yet."""
        assert self._state == "down"
        self._state = "greeting"
        self.writable = True
        self._outgoing = [self._hello]
        self._sent_ms = self._heard_ms = now_ms

    def on_frames(self, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> Changes:
        """Frames from the broker; raises ``ProtocolError`` at one that a broker may not send."""
        self._heard_ms, self._wall_ms = now_ms, wall_ms
        changes = Changes()
        inboxes = changes.inboxes
        for frame in frames:
            if type(frame) is Deliver:
                self.moves.deliver_all(frame, self._pubend(frame.pubend), inboxes)
                self.received += len(frame.bodies)
            elif type(frame) is f.Handed and self._state == "up":
                self.received += self._inboxes.take_in(frame, inboxes)
            elif self._state == "up":
                self._on_frame(frame, changes, now_ms)
            else:
                self._on_greeting(frame, changes, wall_ms)
        if inboxes:
            self._inboxes.block_if_full(inboxes)
        if (acknowledge := self._inboxes.acknowledge()) is not None:
            self._outgoing.append(acknowledge)
        return changes

    def on_disconnected(self) -> Changes:
        """The connection is gone; the next one repeats what must be said again."""
        self._asked.clear()
        self._scanning.clear()
        self.moves.forget_claims()
        # All are woken: some may have got messages just before the connection broke.
        return Changes(publishing=True, lost=True, inboxes=self._let_go())

    def _let_go(self) -> dict[int, Inbox]:
        self._state = "down"
        self._outgoing = []
        self._pubends = {}
        self.publishing.on_disconnected()
        return self._inboxes.on_disconnected()

    # Going to another broker.

    def begin_move(self, order: f.Migrate) -> Newcomer:
        """Prepares the connection to the broker that this client is ordered to move to."""
        assert self.welcome is not None, "no broker could have ordered this"
        hello = structs.replace(self._hello, migration=order.session, origin=self.welcome.broker)
        return self.moves.begin(order, hello, self.welcome)

    def give_up_move(self) -> bool:
        """Gives up a move; returns whether durable names that went ahead must be claimed back."""
        return bool(self.moves.give_up())

    def refuse_move(self, order: f.Migrate, reason: str) -> None:
        """Tells the broker why this client stays where it is."""
        if self.is_up:
            self._outgoing.append(f.MoveFailed(order.session, reason[:_REASON_CHARS_MAX]))

    def take_over(self) -> tuple[Leaver | None, Changes]:
        """Makes the new connection the session's; if the old one is still there, a leaver takes it."""
        newcomer, welcome, overlap = self.moves.make()
        moved, leaver = f.Moved(newcomer.order.session), None
        if self.is_up:
            last: list[Frame] = [*self._outgoing, moved]
            leaver = Leaver(self._pubends, last, self._inboxes, overlap)
        woken = overlap.settle()
        self._inboxes.block_if_full(woken)
        changes = Changes(publishing=True, inboxes=self._let_go() | woken)
        self._pubends, self.writable = newcomer.pubends, newcomer.writable
        self._sent_ms, self._heard_ms = newcomer.sent_ms, newcomer.heard_ms
        self._greet(welcome, newcomer.skew_ms)
        for places in newcomer.places:
            self.publishing.on_places(places, now_ms=self._heard_ms)
        self.received += newcomer.received
        self._inboxes.resume(newcomer.pubends, newcomer.confirmed, newcomer.begun)
        late = [
            subscribe_frame(inbox)
            for inbox in self._inboxes
            if inbox.number not in newcomer.asked and inbox.last_values is None
        ]
        self._outgoing = [*newcomer.outgoing, moved, *late, *self._asked]
        self._scan(now_ms=self._heard_ms)
        return leaver, changes

    def end_overlap(self) -> Changes:
        """The old connection has ended, and brings no more messages."""
        changes = Changes(inboxes=self.moves.release())
        self._inboxes.block_if_full(changes.inboxes)
        return changes

    # What is to be sent, and when.

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""
        if not self.writable:
            return []
        frames, self._outgoing = self._outgoing, []
        if self.is_up:
            frames += self._asked.take(now_ms=now_ms)
            frames += self._inboxes.reporting.take(now_ms=now_ms)
            frames += self._inboxes.verdicts(now_ms=now_ms)
            frames += self.publishing.take(now_ms=now_ms)
            if not frames and now_ms >= self._sent_ms + self._heartbeat_ms:
                frames.append(f.Heartbeat(now_ms))
        if frames:
            self._sent_ms = now_ms
        return frames

    def next_deadline(self) -> int | None:
        """When to take frames, or to check whether the broker is still there."""
        if not self.is_up:
            return None
        # Plain comparisons: this is called after everything that arrives or leaves.
        earliest_ms = self._silent_at_ms() if self.reading else None
        if not self.writable:
            return earliest_ms
        beat_ms = self._sent_ms + self._heartbeat_ms
        if earliest_ms is None or beat_ms < earliest_ms:
            earliest_ms = beat_ms
        for wish_ms in (
            self.publishing.next_deadline(),
            self._inboxes.reporting.next_deadline(),
            self._inboxes.next_verdict(),
            self._asked.next_deadline(),
        ):
            if wish_ms is not None and wish_ms < earliest_ms:
                earliest_ms = wish_ms
        return earliest_ms

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether nothing was heard for so long that the connection must be given up."""
        # While the application does not read, neither do we: then silence is our own doing.
        return self.is_up and self.reading and now_ms >= self._silent_at_ms()

    def on_reading(self, *, now_ms: int) -> None:
        """The shell reads from the socket again; the silence until now does not count."""
        self._heard_ms = now_ms

    def _silent_at_ms(self) -> int:
        return self._heard_ms + SILENT_HEARTBEATS * self._heartbeat_ms

    def _on_greeting(self, frame: Frame, changes: Changes, wall_ms: int) -> None:
        if isinstance(frame, f.Goodbye):
            changes.goodbye = frame
            return
        if not isinstance(frame, Welcome):
            raise ProtocolError(f"the broker's first frame is {type(frame).__name__}, not a welcome")
        if frame.version != PROTOCOL_VERSION or frame.heartbeat_ms <= 0 or frame.credit_bytes <= 0:
            raise ProtocolError(f"the broker's welcome is for another protocol: {frame}")
        changes.welcome = frame
        self._greet(frame, frame.now_ms - wall_ms)
        changes.publishing = True
        self._outgoing += self._inboxes.subscribes()
        self._scan(now_ms=self._heard_ms)

    def _greet(self, frame: Welcome, skew_ms: int) -> None:
        self.welcome = frame
        self._state = "up"
        self._heartbeat_ms = frame.heartbeat_ms
        self._identifying.on_welcome(frame, skew_ms=skew_ms)
        self.publishing.on_welcome(frame, now_ms=self._heard_ms)
        if not self.publishing.is_settled(self._flushed):
            self.publishing.hurry(now_ms=self._heard_ms)

    def _on_frame(self, frame: Frame, changes: Changes, now_ms: int) -> None:
        match frame:
            case f.PublishAck() | f.HeldBack() | f.Rewind():
                self.publishing.on_frame(frame, now_ms=now_ms)
                changes.publishing = True
            case f.PubendPlaces():
                self.publishing.on_places(frame, now_ms=now_ms)
                changes.publishing = True
            case f.PubendNames(names):
                learn_names(self._pubends, names)
                self._inboxes.on_names(names)
            case f.Horizons():
                self._subscribing.on_horizons(frame, self._pubend(frame.pubend), changes)
            case f.Lost(number, first, last, numbers):
                lost = LostTicks(self._pubend(number), first, last)
                changes.missing += [lost] if self._inboxes.on_lost(lost, numbers) else []
            case f.Settled():
                self._inboxes.on_settled(frame, self._pubend(frame.pubend), changes.inboxes)
            case f.Outcomes():
                self._inboxes.on_outcomes(frame, changes.inboxes)
            case f.Subscribed():
                self._subscribing.on_subscribed(frame, changes)
            case f.Unsubscribed(number):
                self._subscribing.end(number, changes)
            case f.Refused():
                self._on_refused(frame, changes, now_ms)
            case (
                f.StatusReply()
                | f.Forgotten()
                | f.SurveyReply()
                | f.LogAnswer()
                | f.TraceReply()
                | f.DurablesReply()
                | f.InterestReply()
            ):
                self._answer(frame, changes)
            case _:
                self._on_other(frame, changes)

    @staticmethod
    def _on_other(frame: Frame, changes: Changes) -> None:
        if isinstance(frame, f.Goodbye):
            changes.goodbye = frame
        elif isinstance(frame, f.Migrate):
            changes.order = frame
        elif not isinstance(frame, f.Heartbeat):
            raise ProtocolError(f"a broker does not send {type(frame).__name__} to a client")

    def _on_refused(self, frame: f.Refused, changes: Changes, now_ms: int) -> None:
        if frame.request == "publish":
            self.publishing.on_frame(frame, now_ms=now_ms)
            changes.publishing = True
        elif frame.request in ("status", "forget", "read", "trace"):
            self._answer(frame, changes)
        else:
            self._subscribing.on_refused(frame, changes)

    def _answer(self, answer: Answer, changes: Changes) -> None:
        self._asked.settle(answer.number)
        inbox = self._scanning.pop(answer.number, None)
        if inbox is None:
            changes.answers.append(answer)
        else:
            self._on_scanned(inbox, answer, changes)

    # Scans of logs, before subscriptions begin.

    def _scan(self, *, now_ms: int) -> None:
        """Asks the next question of each scan that has none open, of a few at a time."""
        asking = {inbox.number for inbox in self._scanning.values()}
        for inbox in self._inboxes:
            last_values = inbox.last_values
            if last_values is None or inbox.number in asking:
                continue
            if len(self._scanning) >= _SCANS_MAX:
                return
            wait_ms = PAUSE_MS if last_values.pauses else 0
            number, frame = self._asked.ask(last_values.question(), again_ms=AGAIN_MS, wait_ms=wait_ms, now_ms=now_ms)
            self._scanning[number] = inbox
            if not wait_ms:
                self._outgoing.append(frame)

    def _on_scanned(self, inbox: Inbox, answer: Answer, changes: Changes) -> None:
        last_values = inbox.last_values
        if last_values is not None and not inbox.is_over:
            last_values.on_answer(answer, now_ms=self._identifying.broker_ms(self._wall_ms))
            if last_values.problem:
                self._subscribing.end(inbox.number, changes)
                inbox.refuse(last_values.problem)
            elif last_values.is_done:
                inbox.begin_after(last_values)
                self._outgoing.append(subscribe_frame(inbox))
                changes.missing += last_values.lost
                changes.inboxes[inbox.number] = inbox
        self._scan(now_ms=self._heard_ms)

    def _last_words(self, inbox: Inbox, *, is_done: bool) -> list[f.Acknowledge | f.Settle]:
        if inbox.receipts is not None and is_done:
            inbox.receipts.settle()
        return self._inboxes.reporting.last(inbox)

    def _pubend(self, number: int) -> str:
        name = self._pubends.get(number)
        if name is None:
            raise ProtocolError(f"pubend number {number} has no name")
        return name

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        self.publishing.check_invariants()
        self._inboxes.check_invariants()


class Asked:
    """The open questions of one client, in the order in which they were asked."""

    def __init__(self) -> None:
        self._last_number = 0
        self._open: dict[int, _Question] = {}

    def __iter__(self) -> Iterator[Frame]:
        return (question.frame for question in self._open.values())

    def ask(
        self, question: Callable[[int], Frame], *, again_ms: int | None = None, wait_ms: int = 0, now_ms: int
    ) -> tuple[int, Frame]:
        """Number a question, to be repeated every ``again_ms`` without an answer; returns its number and its frame.

        With ``wait_ms`` the frame is not to be sent yet: it is among those to repeat after that time.
        """
        self._last_number += 1
        frame = question(self._last_number)
        due_ms = None if again_ms is None else now_ms + (wait_ms or again_ms)
        self._open[self._last_number] = _Question(frame, again_ms, due_ms)
        return self._last_number, frame

    def settle(self, number: int) -> None:
        """Drops a question that was answered, or whose answer nobody waits for any more."""
        self._open.pop(number, None)

    def clear(self) -> None:
        """Drops all questions: the connection is gone, and no answer will come."""
        self._open.clear()

    def next_deadline(self) -> int | None:
        """When to repeat a question."""
        if not self._open:
            return None
        return min((each.due_ms for each in self._open.values() if each.due_ms is not None), default=None)

    def take(self, *, now_ms: int) -> list[Frame]:
        """The questions to repeat now; whichever answer comes first will do."""
        frames: list[Frame] = []
        for each in self._open.values():
            if each.due_ms is not None and each.again_ms is not None and now_ms >= each.due_ms:
                each.due_ms = now_ms + each.again_ms
                frames.append(each.frame)
        return frames


@dataclass(slots=True)
class _Question:
    frame: Frame
    again_ms: int | None
    due_ms: int | None
