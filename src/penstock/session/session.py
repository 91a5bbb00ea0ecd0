"""A client without I/O: takes events of its connections and requests of the application, returns effects and news.

A session owns numbered lines. Usually there is one, on which its ``Resident`` speaks; while the client moves to another
broker there are two. After every call the shell carries out the effects that came back, asks each line for frames to
write, and sets its timer to ``next_deadline``. Times are milliseconds of any clock that does not jump; ``wall_ms`` is
the time of day. Nothing here reads a clock or draws random numbers by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame, Goodbye, Welcome
from penstock.protocol.work_frames import Verdict
from penstock.session.address import Address
from penstock.session.changes import Changes
from penstock.session.connecting import FINAL_CODES, Chance, Connecting
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.events import Connected, Disconnected, GaveUp, Unanswered
from penstock.session.inbox import Inbox, Lag, Wanted
from penstock.session.lines import Line, Lines
from penstock.session.moving import Moving
from penstock.session.publishing import Publishing
from penstock.session.received import HandedOut, Received
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings
from penstock.session.work import Said

__all__ = ["Session"]


class Session:
    """One client over all its connections."""

    def __init__(
        self,
        settings: ClientSettings,
        addresses: tuple[Address, ...],
        *,
        name: str,
        publisher: bytes,
        chance: Chance,
        token: str = "",
        overlay: str = "",
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        """Makes a client of the brokers at these addresses; no other client may have the identity ``publisher``.

        If other threads call ``stamp``, they hold the guard, a lock, and so does the session while a broker gives it
        another number.
        """
        self._settings = settings
        self._resident = Resident(settings, name=name, token=token, overlay=overlay, publisher=publisher, guard=guard)
        self._lines = Lines(settings)
        self._connecting = Connecting(self._resident, self._lines, addresses, settings, chance)
        self._moving = Moving(self._resident, self._connecting, self._lines, settings)
        self._is_closed = self._has_told_end = False
        self.publishing: Final[Publishing] = self._resident.publishing
        self.become = self._resident.become
        # Without a layer in between: it is called for every message.
        self.stamp = self._resident.stamp

    # State.

    @property
    def is_up(self) -> bool:
        """Whether a broker has welcomed this client, and the connection still stands."""
        return self._resident.is_up

    @property
    def welcome(self) -> Welcome | None:
        """The welcome of the broker that was connected last."""
        return self._resident.welcome

    @property
    def held_back(self) -> str:
        """Why messages to some pubend have to wait; empty if they do not."""
        return self._resident.publishing.held_back

    @property
    def line(self) -> int:
        """The number of the line that was welcomed last, even if it has ended; 0 before the first welcome."""
        return self._connecting.line.number if self._connecting.line is not None else 0

    @property
    def address(self) -> Address | None:
        """The address of the line that was welcomed last."""
        return self._connecting.line.address if self._connecting.line is not None else None

    @property
    def reading(self) -> bool:
        """Whether the shell should read from its sockets: no subscription is too full."""
        return self._resident.reading

    @property
    def is_moving(self) -> bool:
        """Whether it has two lines because of a move, or is about to."""
        return self._moving.is_busy

    @property
    def received(self) -> int:
        """Messages delivered to this client."""
        return self._resident.received

    @property
    def repeated(self) -> int:
        """Deliveries dropped because they had arrived before."""
        return self._resident.repeated

    @property
    def taken_away(self) -> int:
        """Messages of groups that this client lost before the application had said what becomes of them."""
        return self._resident.taken_away

    @property
    def reconnects(self) -> int:
        """How often a lost connection was replaced."""
        return self._connecting.reconnects

    @property
    def moves(self) -> int:
        """How often a broker has moved this client to another one."""
        return self._resident.moves.count

    # What the application asks for; the shell asks all lines for frames afterwards.

    def subscribe(self, wanted: Wanted) -> Inbox:
        """Makes a subscription."""
        return self._resident.subscribe(wanted)

    def unsubscribe(self, inbox: Inbox, *, is_done: bool = False) -> None:
        """Withdraws a subscription; if it is durable, what was read last counts if the application is done with it."""
        self._resident.unsubscribe(inbox, is_done=is_done)

    def pause(self, inbox: Inbox) -> bool:
        """Has the broker send nothing more for a subscription; returns whether the shell should read again."""
        self._resident.pause(inbox)
        return self._resident.reading

    def resume(self, inbox: Inbox) -> None:
        """Continues a paused subscription where it was; it gets another number."""
        self._resident.resume(inbox)

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Makes the identifier of a message to be published now; returns it and the encoded message."""
        return self._resident.identify(message, wall_ms=wall_ms)

    def unanswered(self) -> list[Unanswered]:
        """The groups in which messages were acknowledged or refused, with no answer so far."""
        return self._resident.unanswered()

    def hurry(self, *, now_ms: int) -> None:
        """Asks the broker to acknowledge everything published so far now, since somebody waits for it."""
        self._resident.hurry(now_ms=now_ms)

    def ask(self, question: Callable[[int], Frame], *, again_ms: int | None = None, now_ms: int) -> int:
        """Asks the broker a question, repeated every ``again_ms`` if given; returns the answer's number."""
        return self._resident.ask(question, again_ms=again_ms, now_ms=now_ms)

    def withdraw_question(self, number: int) -> None:
        """Drops a question whose answer nobody waits for any more."""
        self._resident.withdraw_question(number)

    def on_taken(self, inbox: Inbox) -> bool:
        """The application took messages out of a full subscription; returns whether the shell should read again."""
        return self._resident.on_taken(inbox)

    def on_moved(self, inbox: Inbox) -> bool:
        """The application is done with messages of a durable subscription; returns whether to update the timer."""
        return self._resident.on_moved(inbox)

    def judge(self, inbox: Inbox, message: Received, verdict: Verdict, delay_ms: int = 0, reason: str = "") -> Said:
        """The application says what becomes of a message of a group; the shell asks for frames afterwards."""
        assert inbox.work is not None, "not a member of a group"
        assert isinstance(message, HandedOut), "not handed out"
        return inbox.work.judge(message, verdict, delay_ms, reason)

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""
        return self._resident.lag(inbox)

    def say_last_words(self, *, is_done: bool) -> None:
        """Acknowledges what was read from durable subscriptions before the end; what was read last, if ``is_done``."""
        self._resident.on_closing(is_done=is_done)

    # Stimuli.

    def open(self, *, now_ms: int) -> Changes:
        """Connects for the first time; if that has failed, it may be called again."""
        self._has_told_end = False
        self._connecting.open(now_ms=now_ms)
        return self._settle(Changes(), now_ms=now_ms)

    def on_connected(self, number: int, *, now_ms: int) -> None:
        """A line is made; the broker does not know who we are yet."""
        line = self._lines.open(number)
        if line is not None:
            line.state = "greeting"
            line.endpoint.on_connected(now_ms=now_ms)

    def on_frames(self, number: int, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> Changes:
        """Frames from a broker; they may be decoded while they are consumed, and turn out to be malformed."""
        line = self._lines.open(number)
        if line is None:
            return Changes()
        try:
            changes = line.endpoint.on_frames(frames, now_ms=now_ms, wall_ms=wall_ms)
        except ProtocolError as error:
            changes = Changes()
            # A broker of another version, or no broker at all.
            line.is_hopeless = line.state == "greeting"
            self._fail(line, Goodbye("protocol", str(error)), changes, now_ms=now_ms)
        else:
            self._follow(line, changes, now_ms=now_ms)
        return self._settle(changes, now_ms=now_ms)

    def on_lost(self, number: int, problem: str, *, now_ms: int, is_hopeless: bool = False) -> Changes:
        """A line is gone or could not be made; ``problem`` is the reason, if the session did not end it itself.

        It is hopeless if another attempt at the same address would fail in the same way.
        """
        line = self._lines.forget(number)
        changes = Changes()
        if line is not None:
            if line.state != "ended":
                line.is_hopeless = is_hopeless
                self._end(line, problem, changes, now_ms=now_ms)
            if line is self._moving.leaving:
                changes.join(self._moving.on_left(now_ms=now_ms))
        return self._settle(changes, now_ms=now_ms)

    def on_writable(self, number: int, *, is_writable: bool) -> None:
        """A line can take more, or is full: then no frames are taken from the session, and batches grow."""
        line = self._lines.open(number)
        if line is not None:
            line.endpoint.writable = is_writable

    def on_reading(self, number: int, *, now_ms: int) -> None:
        """The shell reads from a line again; the silence until now does not count."""
        line = self._lines.open(number)
        if line is not None:
            line.endpoint.on_reading(now_ms=now_ms)

    def next_deadline(self) -> int | None:
        """When to call ``on_deadline``."""
        # Plain comparisons: this is called after everything that arrives or leaves.
        earliest_ms = self._lines.next_deadline()
        for deadline_ms in (self._connecting.next_deadline(), self._moving.next_deadline()):
            if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms

    def on_deadline(self, *, now_ms: int) -> Changes:
        """Gives up lines that are late or silent, tries again to connect, and continues a move."""
        changes = Changes()
        for line in self._lines:
            if line.state == "ended":
                if line.is_due(now_ms):
                    self._lines.abort(line)
            elif line.is_due(now_ms):
                self._end(line, f"no welcome within {line.patience_ms} ms", changes, now_ms=now_ms)
            elif line.state != "dialling" and line.endpoint.is_silent(now_ms=now_ms):
                reason = "the broker was silent for too long"
                self._fail(line, Goodbye("silent", reason), changes, now_ms=now_ms)
        self._connecting.on_deadline(now_ms=now_ms)
        return self._settle(changes, now_ms=now_ms)

    def take_frames(self, number: int, *, now_ms: int) -> list[Frame]:
        """The frames to write to a line now."""
        line = self._lines.open(number)
        if line is None or line.state == "dialling":
            return []
        return line.endpoint.take_frames(now_ms=now_ms)

    def close(self, *, now_ms: int) -> Changes:
        """Ends all lines; what a broker does not take in time is lost."""
        self._is_closed = True
        self._connecting.stop()
        changes = self._moving.close()
        line = self._connecting.line
        if line is not None and line.state != "ended":
            self._fail(line, Goodbye("closed", "the client is done"), changes, now_ms=now_ms)
        return self._settle(changes, now_ms=now_ms)

    def abort(self, *, now_ms: int) -> Changes:
        """Cuts all lines now, without waiting for anything."""
        changes = self.close(now_ms=now_ms)
        for line in self._lines:
            self._lines.abort(line)
        return self._settle(changes, now_ms=now_ms)

    def on_forked(self, chance: Chance) -> None:
        """In a forked child, forgets the lines, which are the parent's, and uses another source of jitter."""
        self._lines.clear()
        self._moving.on_forked()
        self._connecting.on_forked(chance)

    def forget_connection(self) -> None:
        """Drops the connection and unread messages, which belong to somebody else."""
        self._resident.forget_connection()

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        self._resident.check_invariants()

    # Inside.

    def _follow(self, line: Line, changes: Changes, *, now_ms: int) -> None:
        """Reacts to an order, a goodbye or a welcome of a line's broker."""
        if changes.order is not None:
            self._moving.on_order(changes.order, now_ms=now_ms)
        if changes.goodbye is not None:
            line.goodbye = changes.goodbye
            line.is_hopeless = changes.goodbye.code == "protocol"
            self._end(line, "", changes, now_ms=now_ms)
        elif changes.welcome is not None:
            line.state, line.due_ms = "up", None
            if line is self._connecting.attempt:
                away_ms = self._connecting.on_welcome(line, now_ms=now_ms)
                changes.events.append(Connected(changes.welcome.broker, str(line.address), away_ms))

    def _fail(self, line: Line, farewell: Goodbye, changes: Changes, *, now_ms: int) -> None:
        """Tells the broker why a line ends, and ends it."""
        self._end(line, farewell.reason, changes, farewell, now_ms=now_ms)

    def _end(self, line: Line, problem: str, changes: Changes, *last_words: Frame, now_ms: int) -> None:
        """Ends a line, and looks for another one unless a second line is left."""
        state = line.state
        line.problem = problem
        if last_words or state == "up":
            self._lines.hang_up(line, *last_words, now_ms=now_ms)
        else:
            self._lines.abort(line)
        if state != "dialling":
            changes.join(line.endpoint.on_disconnected())
        if line is self._connecting.attempt:
            self._connecting.on_failed(_error_of(line), now_ms=now_ms)
        elif line is self._moving.arriving:
            # If it was welcomed, the newcomer knows already.
            if state != "up" and self._moving.stay(str(_error_of(line)), now_ms=now_ms):
                changes.must_come_back = True
        elif line is self._connecting.line and not self._is_closed:
            rescued = self._moving.rescue(now_ms=now_ms)
            if rescued is not None:
                changes.join(rescued)
            else:
                self._connecting.on_lost(now_ms=now_ms)
                self._tell_lost(line, changes, now_ms=now_ms)

    def _tell_lost(self, line: Line, changes: Changes, *, now_ms: int) -> None:
        """Says that the connection is lost, unless that is the end."""
        if self._connecting.end is None and self.welcome is not None:
            reason = line.goodbye.reason if line.goodbye is not None else line.problem
            retry_ms = self._connecting.retry_ms(now_ms=now_ms)
            changes.events.append(Disconnected(self.welcome.broker, str(line.address), reason, retry_ms))

    def _settle(self, changes: Changes, *, now_ms: int) -> Changes:
        """Continues a move, and collects what the shell has to do."""
        looked = self._moving.look(now_ms=now_ms)
        if looked is not None:
            changes.join(looked)
        if changes.must_come_back:
            self._come_back(changes, now_ms=now_ms)
        if self._lines.effects:
            changes.effects += self._lines.take_effects()
        if self._connecting.events:
            changes.events += self._connecting.take_events()
        if self.publishing.events:
            changes.events += self.publishing.take_events()
        if self._connecting.end is not None and not self._has_told_end:
            self._has_told_end = True
            changes.end = self._connecting.end
            changes.events.append(GaveUp(str(changes.end)))
        return changes

    def _come_back(self, changes: Changes, *, now_ms: int) -> None:
        """Reconnects to claim durable names back: what still arrives on this line is outdated."""
        line = self._connecting.line
        if line is not None and line.state == "up":
            last_words = self.take_frames(line.number, now_ms=now_ms)
            farewell = Goodbye("again", "durable subscriptions are claimed back")
            self._end(line, farewell.reason, changes, *last_words, farewell, now_ms=now_ms)


def _error_of(line: Line) -> ClientError:
    """Why an attempt has failed."""
    goodbye = line.goodbye
    if goodbye is None:
        return ConnectionFailedError(f"{line.address}: {line.problem}")
    if goodbye.code in FINAL_CODES:
        return RefusedError("let this client in", goodbye.reason)
    return ConnectionFailedError(f"{line.address}: {goodbye.reason} ({goodbye.code})")
