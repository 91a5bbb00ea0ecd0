"""Keeps a session connected: tries the addresses in turn, and pauses longer after each round in which all have failed.

A client that loses its connection tries the other addresses first, and the lost one last. Only if a broker has moved it
there, that one is tried once more before.

The first connection is tried again like any other, until its time is up; unless every address fails in a way that does
not get better by itself, such as a certificate that is not trusted.
"""

from __future__ import annotations

from typing import Final, Protocol

from penstock.session.address import Address
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.events import ClientEvent, ConnectFailed
from penstock.session.lines import Endpoint, Line, Lines
from penstock.session.settings import ClientSettings

__all__ = ["FINAL_CODES", "Chance", "Connecting", "Reconnect"]

FINAL_CODES: Final = frozenset({"refused"})
"""Goodbye codes by which a broker rejects this client for good: trying again would get the same answer."""
_TOLD_MAX: Final = 8
"""How many addresses learned from brokers are tried besides those that the application gave."""
_FIRST_PAUSE_MS_MAX: Final = 1_000
"""Maximum time between attempts to get the first connection: a program waits for it, and brokers that start together
with it are up soon."""
_BRIEF_MS: Final = 1_000
"""A connection that lasted less than this counts as a failed attempt."""


class Chance(Protocol):
    """The source of jitter; ``random.Random`` is one."""

    def random(self) -> float:
        """A number from 0 up to, but not including, 1."""


class Reconnect:
    """The rounds of attempts since the connection was lost; the pause doubles after each.

    >>> from random import Random
    >>> reconnect = Reconnect(ClientSettings(), Random(1))
    >>> reconnect.on_lost(now_ms=0)
    False
    >>> 25 <= reconnect.pause_ms(now_ms=0) <= 50 <= reconnect.pause_ms(now_ms=100) <= 100
    True
    """

    __slots__ = ("_attempts", "_chance", "_lost_ms", "_settings", "_welcome_ms")

    def __init__(self, settings: ClientSettings, chance: Chance) -> None:
        self._settings, self._chance = settings, chance
        self._attempts = 0
        self._lost_ms: int | None = None
        self._welcome_ms: int | None = None

    @staticmethod
    def may_follow(code: str) -> bool:
        """Whether another attempt makes sense after a goodbye with this code (empty if there was no goodbye)."""
        return code not in FINAL_CODES

    def on_welcome(self, *, now_ms: int) -> None:
        """There is a connection."""
        if self._lost_ms is None and self._welcome_ms is None:
            # How long the first one took says nothing about the next.
            self._attempts = 0
        self._lost_ms, self._welcome_ms = None, now_ms

    def on_lost(self, *, now_ms: int) -> bool:
        """The connection is lost; returns whether it had lasted."""
        if self._lost_ms is None:
            self._lost_ms = now_ms
        # A connection that did not last counts as a failed attempt, or a broker that ends it at once would get no rest.
        has_lasted = self._welcome_ms is not None and now_ms - self._welcome_ms >= _BRIEF_MS
        if has_lasted:
            self._attempts = 0
        self._welcome_ms = None
        return has_lasted

    def pause_ms(self, *, now_ms: int) -> int | None:
        """How long to wait before the next round; None to give up."""
        settings = self._settings
        away_ms = self.away_ms(now_ms=now_ms)
        assert away_ms is not None, "asked for a pause without a loss"
        if settings.give_up_ms is not None and away_ms >= settings.give_up_ms:
            return None
        return self._next_ms()

    def first_pause_ms(self) -> int:
        """How long to wait before the next attempt to get the first connection."""
        return min(self._next_ms(), _FIRST_PAUSE_MS_MAX)

    def spread_ms(self) -> int:
        """How long to wait before the next address of a round, so that clients of a broker do not come in step."""
        return int(self._chance.random() * self._settings.backoff_first_ms)

    def _next_ms(self) -> int:
        settings = self._settings
        # Thirty doublings are above any limit; more would only make large numbers.
        longest_ms = min(settings.backoff_first_ms << min(self._attempts, 30), settings.backoff_max_ms)
        self._attempts += 1
        # Half of it is random, so that the clients of a broker that died do not come back in step.
        return longest_ms // 2 + int(self._chance.random() * (longest_ms - longest_ms // 2))

    def away_ms(self, *, now_ms: int) -> int | None:
        """How long there has been no connection; None if there is one, or never was."""
        return None if self._lost_ms is None else now_ms - self._lost_ms


class Connecting:
    """The attempts to connect, and the line that resulted."""

    def __init__(
        self, endpoint: Endpoint, lines: Lines, addresses: tuple[Address, ...], settings: ClientSettings, chance: Chance
    ) -> None:
        self._endpoint = endpoint
        self._lines = lines
        self._settings = settings
        self._addresses = self._given = addresses
        self._told: dict[Address, None] = {}
        self._moved_to: Address | None = None
        """The address that a broker has moved the client to, until it is lost."""
        self._turn = 0
        self._untried = 0
        """Addresses that have not failed in this round; a connection that did not last has failed, too."""
        self._problems: dict[Address, str] = {}
        """Why each address has failed the last time, since there was a connection."""
        self._hopeless: dict[Address, None] = {}
        """Addresses that have failed in this round, and would fail in the same way again."""
        self._open_by_ms: int | None = None
        """When to give up, if there was no connection at all until then."""
        self._resume_ms: int | None = None
        self._reconnect = Reconnect(settings, chance)
        self.attempt: Line | None = None
        """The line that is being made."""
        self.line: Line | None = None
        """The line that was welcomed last, even if it has ended."""
        self.reconnects = 0
        self.end: ClientError | None = None
        """Why no more attempts are made."""
        self.events: list[ClientEvent] = []
        """What is to be told to the program."""

    def open(self, *, now_ms: int) -> None:
        """Tries to get the first connection; if that has failed, it may be called again."""
        self.end = None
        self._problems = {}
        timeout_ms = self._settings.connect_timeout_ms
        self._open_by_ms = now_ms + timeout_ms if timeout_ms else None
        self._begin_round(now_ms=now_ms)

    def on_welcome(self, line: Line, *, now_ms: int) -> int | None:
        """An attempt has succeeded; returns how long there was no connection, or None if this is the first one."""
        self.attempt = None
        self._problems = {}
        if self.line is not None:
            self.reconnects += 1
        away_ms = self._reconnect.away_ms(now_ms=now_ms)
        self._hold(line, now_ms=now_ms)
        return away_ms

    def on_moved(self, line: Line, *, now_ms: int) -> None:
        """A broker has moved the client: this line takes over, and is where to look for a broker first."""
        self._hold(line, now_ms=now_ms)
        self._moved_to = line.address
        self.learn(line.address)

    def _hold(self, line: Line, *, now_ms: int) -> None:
        self.line = line
        self._reconnect.on_welcome(now_ms=now_ms)

    def on_failed(self, error: ClientError, *, now_ms: int) -> None:
        """An attempt has failed; try the next address, pause, or give up, at once if the broker refused."""
        attempt, self.attempt = self.attempt, None
        assert attempt is not None, "nobody has tried"
        if isinstance(error, RefusedError):
            self.end = error
            return
        if not self._is_too_late(now_ms) or attempt.address not in self._problems:
            # An attempt that was cut short says less than the one before.
            self._problems[attempt.address] = str(error)
        if attempt.is_hopeless:
            self._hopeless[attempt.address] = None
        self._turn += 1
        self._untried -= 1
        if self._is_too_late(now_ms):
            self._give_up()
        elif self._untried:
            self._dial(now_ms=now_ms)
        elif self.line is None:
            self._pause_first(now_ms=now_ms)
        else:
            self._pause(self._all_problems(), now_ms=now_ms)
            self._tell_failed(now_ms=now_ms)

    def on_lost(self, *, now_ms: int) -> None:
        """The line has ended, and no other has taken its place."""
        assert self.line is not None, "nothing was there to lose"
        goodbye = self.line.goodbye
        if goodbye is not None and not self._reconnect.may_follow(goodbye.code):
            self.end = RefusedError("go on", goodbye.reason)
            return
        has_lasted = self._reconnect.on_lost(now_ms=now_ms)
        if self.line.address == self._moved_to:
            self._moved_to = None
        else:
            self._turn += 1
        self._untried = 0 if has_lasted else max(self._untried - 1, 0)
        if self._untried:
            self._resume_ms = now_ms + self._reconnect.spread_ms()
        else:
            self._pause(goodbye.reason if goodbye is not None else self.line.problem, now_ms=now_ms)

    def learn(self, address: Address) -> None:
        """Adds an address, to be tried after the present one and those that were given."""
        if address not in self._given:
            self._told.pop(address, None)
            self._told[address] = None
            while len(self._told) > _TOLD_MAX:
                del self._told[next(iter(self._told))]
        present = () if self.line is None else (self.line.address,)
        self._addresses = tuple(dict.fromkeys((*present, *self._given, *reversed(self._told))))
        self._turn = 0

    def stop(self) -> None:
        """Makes no more attempts, and gives up the one under way."""
        self._resume_ms = None
        if self.attempt is not None:
            self._lines.abort(self.attempt)
            self.attempt = None

    def on_forked(self, chance: Chance) -> None:
        """Forgets the lines, which are the parent's, and uses another source of jitter."""
        self.attempt = self.line = self._resume_ms = None
        self._reconnect = Reconnect(self._settings, chance)

    def next_deadline(self) -> int | None:
        """When to try again."""
        return self._resume_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Tries again, if it is time to."""
        if self._resume_ms is not None and now_ms >= self._resume_ms:
            self._resume_ms = None
            if self._is_too_late(now_ms):
                self._give_up()
            elif self._untried:
                self._dial(now_ms=now_ms)
            else:
                self._begin_round(now_ms=now_ms)

    def retry_ms(self, *, now_ms: int) -> int:
        """How long it takes until the next attempt."""
        return 0 if self._resume_ms is None else self._resume_ms - now_ms

    def take_events(self) -> list[ClientEvent]:
        """Hands over what is to be told to the program."""
        events, self.events = self.events, []
        return events

    def _begin_round(self, *, now_ms: int) -> None:
        self._untried, self._hopeless = len(self._addresses), {}
        self._dial(now_ms=now_ms)

    def _dial(self, *, now_ms: int) -> None:
        address = self._addresses[self._turn % len(self._addresses)]
        by_ms = self._open_by_ms if self.line is None else None
        self.attempt = self._lines.dial(address, self._endpoint, now_ms=now_ms, by_ms=by_ms)

    def _is_too_late(self, now_ms: int) -> bool:
        return self.line is None and self._open_by_ms is not None and now_ms >= self._open_by_ms

    def _all_problems(self) -> str:
        return "; ".join(self._problems.values())

    def _give_up(self) -> None:
        """Ends the search for a first connection, because its time is up."""
        assert self._settings.connect_timeout_ms is not None, "there is no limit"
        limit_s = self._settings.connect_timeout_ms / 1_000
        self.end = ConnectionFailedError(f"no broker answered within {limit_s:g} s: {self._all_problems()}")

    def _pause_first(self, *, now_ms: int) -> None:
        """Waits before the next attempt to get the first connection, or gives up if that would not help."""
        if self._settings.connect_timeout_ms == 0 or len(self._hopeless) == len(self._addresses):
            self.end = ConnectionFailedError(self._all_problems())
            return
        self._resume_ms = now_ms + self._reconnect.first_pause_ms()
        if self._open_by_ms is not None:
            self._resume_ms = min(self._resume_ms, self._open_by_ms)
        self._tell_failed(now_ms=now_ms)

    def _tell_failed(self, *, now_ms: int) -> None:
        if self.end is None:
            self.events.append(ConnectFailed(self._all_problems(), self.retry_ms(now_ms=now_ms)))

    def _pause(self, reason: str, *, now_ms: int) -> None:
        pause_ms = self._reconnect.pause_ms(now_ms=now_ms)
        if pause_ms is None:
            self.end = ConnectionFailedError(f"no connection for {self._settings.give_up_ms} ms: {reason}")
        else:
            self._resume_ms = now_ms + pause_ms
