"""Carries out a move to another broker, unnoticed by the application ([PADRES] on subscriber migration).

The client opens the new line first, and asks on it for all subscriptions with their positions. Once they are in force
there, both lines run for a moment: messages that were published to pubends that guarantee nothing before their paths
led to the new broker are still on their way to the old one. Then the new line takes over, both brokers are told, and
the old one sends what it has left and ends. What was published and is not acknowledged is sent again on the new line;
to pubends that would not recognise it, nothing is sent until all is acknowledged. If anything goes wrong before that,
the client stays where it is. If the old broker is lost meanwhile, the new line takes over as it is, provided it
continues from all positions; otherwise the client reconnects as after any loss.
"""

from __future__ import annotations

from typing import Final

from penstock.protocol.frames import Goodbye, Migrate
from penstock.session.address import Address, parse_addresses
from penstock.session.changes import Changes
from penstock.session.connecting import Connecting
from penstock.session.errors import AddressError
from penstock.session.events import Moved
from penstock.session.lines import Line, Lines
from penstock.session.newcomer import Newcomer
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings

__all__ = ["Moving"]

_ARRIVE_MS_MAX: Final = 20_000
"""Time in which the new broker has to take over; less than the old one waits for an answer."""
_OVERLAP_MS: Final = 500
"""How long both lines run once the new one is ready."""
_REST_MS: Final = 10
"""How often to check whether pubends that guarantee nothing have all that was published to them."""
_REST_MS_MAX: Final = 2_000
"""How long to wait for that: meanwhile nothing is published to such pubends."""
_TRAIL_MS: Final = 5_000
"""How much later a message may come by the new broker than by the old one, and still be recognised as a repetition."""
_LEAVE_MS_MAX: Final = 12_000
"""Time in which the old broker has to send what it has left; more than it needs for that."""


class Moving:
    """The moves of one session, one at a time."""

    def __init__(self, resident: Resident, connecting: Connecting, lines: Lines, settings: ClientSettings) -> None:
        self._resident, self._connecting = resident, connecting
        self._lines, self._settings = lines, settings
        self._newcomer: Newcomer | None = None
        self.arriving: Line | None = None
        """The line to the new broker, until it takes over."""
        self.leaving: Line | None = None
        """The line to the old broker, after the new one has taken over."""
        self._arrive_by_ms = 0
        self._resting_ms = 0
        """Since when messages to best-effort pubends wait for the move; 0 if they do not."""
        self._take_over_ms: int | None = None
        self._leave_by_ms = 0
        self._trail_until_ms: int | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the session has two lines, or is about to."""
        return self._newcomer is not None or self.leaving is not None

    # Events of the old broker, or the only one.

    def on_order(self, order: Migrate, *, now_ms: int) -> None:
        """The broker orders this client to move to another one; begin the move, or refuse it."""
        if problem := self._problem_with(order):
            self._resident.refuse_move(order, problem)
            return
        (address,) = parse_addresses(order.address)
        self._trail_until_ms = self._take_over_ms = None
        self._resting_ms = 0
        self._connecting.learn(address)
        self._newcomer = self._resident.begin_move(order)
        self._arrive_by_ms = now_ms + _ARRIVE_MS_MAX
        self.arriving = self._lines.dial(address, self._newcomer, now_ms=now_ms)

    def rescue(self, *, now_ms: int) -> Changes | None:
        """The session's line is lost: have the new one take its place; None if it cannot."""
        newcomer, arriving = self._newcomer, self.arriving
        if newcomer is None or arriving is None:
            return None
        if arriving.state != "up" or not newcomer.can_rescue:
            self.stay("the connection to the old broker was lost", now_ms=now_ms)
            return None
        changes = self._take_over(arriving, "the former one was lost", now_ms=now_ms)
        changes.join(self._resident.end_overlap())
        self._trail(now_ms=now_ms)
        return changes

    # What becomes of the other line.

    def stay(self, reason: str, *, now_ms: int) -> bool:
        """Gives up the move; returns whether the client must reconnect to claim durable names back."""
        newcomer, arriving = self._newcomer, self.arriving
        assert newcomer is not None, "there was no move to give up"
        if arriving is not None and arriving.state == "up":
            self._lines.hang_up(arriving, Goodbye("closed", "the client is done"), now_ms=now_ms)
        elif arriving is not None and arriving.state != "ended":
            self._lines.abort(arriving)
        self._newcomer = self.arriving = None
        must_come_back = self._resident.give_up_move()
        self._resident.publishing.go_on()
        self._resident.refuse_move(newcomer.order, reason)
        self._trail(now_ms=now_ms)
        return must_come_back

    def on_left(self, *, now_ms: int) -> Changes:
        """The old broker has sent all it had, or its time is up."""
        leaving, self.leaving = self.leaving, None
        if leaving is not None:
            self._lines.abort(leaving)
        self._trail(now_ms=now_ms)
        return self._resident.end_overlap()

    def look(self, *, now_ms: int) -> Changes | None:
        """Advances the move as far as possible now; None if there is nothing to do."""
        if self.leaving is not None and (now_ms >= self._leave_by_ms or self._resident.moves.is_full):
            return self.on_left(now_ms=now_ms)
        if self._trail_until_ms is not None and now_ms >= self._trail_until_ms:
            self._trail_until_ms = None
            self._resident.moves.finish()
        if self._newcomer is not None and self.arriving is not None and self._wants_look(now_ms):
            return self._look_at(self._newcomer, self.arriving, now_ms=now_ms)
        return None

    def next_deadline(self) -> int | None:
        """When to look again."""
        if self._newcomer is None and self.leaving is None:
            return self._trail_until_ms
        deadlines: list[int] = []
        if self._newcomer is not None:
            deadlines.append(self._arrive_by_ms)
            if self._take_over_ms is not None:
                deadlines.append(self._take_over_ms)
            elif self._newcomer.has_news:
                # At once: the application did something by a call that does not carry the time.
                deadlines.append(0)
        if self.leaving is not None:
            deadlines.append(self._leave_by_ms)
        if self._trail_until_ms is not None:
            deadlines.append(self._trail_until_ms)
        return min(deadlines, default=None)

    # The end.

    def close(self) -> Changes:
        """Abandons any move, and leaves nothing behind."""
        if self.arriving is not None:
            self._lines.abort(self.arriving)
        changes = Changes()
        if self.leaving is not None:
            self._lines.abort(self.leaving)
            changes = self._resident.end_overlap()
        self.on_forked()
        return changes

    def on_forked(self) -> None:
        """Forgets the lines, which are the parent's."""
        self._newcomer = self.arriving = self.leaving = None
        self._take_over_ms = self._trail_until_ms = None

    # Inside.

    def _problem_with(self, order: Migrate) -> str:
        if self.is_busy:
            return "the client is already moving"
        if self._settings.pinned:
            return "the client is pinned"
        line = self._connecting.line
        present = line.address if line is not None else None
        try:
            addresses = parse_addresses(order.address)
        except AddressError as error:
            return str(error)
        # Encrypted traffic must not become unencrypted because somebody says so.
        if len(addresses) != 1 or _is_less_secret(addresses[0], present):
            return f"{order.address} is not a single address at least as secure as {present}"
        return ""

    def _wants_look(self, now_ms: int) -> bool:
        assert self._newcomer is not None
        if now_ms >= self._arrive_by_ms:
            return True
        return self._newcomer.has_news if self._take_over_ms is None else now_ms >= self._take_over_ms

    def _look_at(self, newcomer: Newcomer, arriving: Line, *, now_ms: int) -> Changes | None:
        newcomer.has_news = False
        has_overlapped, self._take_over_ms = self._take_over_ms is not None, None
        if now_ms >= self._arrive_by_ms:
            return self._give_up(f"the new broker was not ready within {_ARRIVE_MS_MAX // 1_000} s", now_ms=now_ms)
        if has_overlapped and newcomer.is_ready:
            if self._resident.publishing.rest(now_ms=now_ms):
                return self._take_over(arriving, "the former one asked for it", now_ms=now_ms)
            self._resting_ms = self._resting_ms or now_ms
            if now_ms >= self._resting_ms + _REST_MS_MAX:
                return self._give_up("what was published best effort is not acknowledged", now_ms=now_ms)
            self._take_over_ms = now_ms + _REST_MS
            return None
        if newcomer.welcome is not None:
            if newcomer.problem:
                return self._give_up(f"{arriving.address}: {newcomer.problem}", now_ms=now_ms)
            if newcomer.is_ready:
                self._take_over_ms = now_ms + _OVERLAP_MS
        return None

    def _give_up(self, reason: str, *, now_ms: int) -> Changes:
        return Changes(must_come_back=self.stay(reason, now_ms=now_ms))

    def _take_over(self, arriving: Line, reason: str, *, now_ms: int) -> Changes:
        old = self._connecting.line
        former = self._resident.welcome
        leaver, changes = self._resident.take_over()
        present = self._resident.welcome
        assert former is not None, "the client has moved from nowhere"
        assert present is not None, "the client has moved to nowhere"
        changes.events.append(Moved(former.broker, present.broker, str(arriving.address), reason))
        self._newcomer = self.arriving = None
        arriving.endpoint = self._resident
        self._connecting.on_moved(arriving, now_ms=now_ms)
        if leaver is not None:
            assert old is not None, "a broker was there, but no line to it"
            old.endpoint = leaver
            self.leaving, self._leave_by_ms = old, now_ms + _LEAVE_MS_MAX
        return changes

    def _trail(self, *, now_ms: int) -> None:
        """Waits until no more repetitions can arrive, from this move or the previous one."""
        if self._resident.moves.overlap is not None:
            self._trail_until_ms = now_ms + _TRAIL_MS


def _is_less_secret(there: Address, here: Address | None) -> bool:
    return here is not None and here.tls and not there.tls
