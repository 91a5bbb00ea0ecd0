"""Keeps a session connected: tries the addresses in turn, and retries after a loss with growing pauses."""

from __future__ import annotations

from typing import Final, Protocol

from penstock.session.address import Address
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.lines import Endpoint, Line, Lines
from penstock.session.settings import ClientSettings

__all__ = ["FINAL_CODES", "Chance", "Connecting", "Reconnect"]

FINAL_CODES: Final = frozenset({"refused"})
"""Goodbye codes by which a broker rejects this client for good: trying again would get the same answer."""
_TOLD_MAX: Final = 8
"""How many addresses learned from brokers are tried besides those that the application gave."""


class Chance(Protocol):
    """The source of jitter; ``random.Random`` is one."""

    def random(self) -> float:
        """A number from 0 up to, but not including, 1."""


class Reconnect:
    """The attempts since the connection was lost; the pause doubles after each.

    >>> from random import Random
    >>> reconnect = Reconnect(ClientSettings(), Random(1))
    >>> reconnect.on_lost(now_ms=0)
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
        self._lost_ms, self._welcome_ms = None, now_ms

    def on_lost(self, *, now_ms: int) -> None:
        """The connection is lost."""
        if self._lost_ms is None:
            self._lost_ms = now_ms
        # A connection that did not last counts as a failed attempt, or a broker that ends it at once would get no rest.
        if self._welcome_ms is not None and now_ms - self._welcome_ms >= self._settings.backoff_max_ms:
            self._attempts = 0
        self._welcome_ms = None

    def pause_ms(self, *, now_ms: int) -> int | None:
        """How long to wait before the next attempt; None to give up."""
        assert self._lost_ms is not None, "asked for a pause without a loss"
        settings = self._settings
        if settings.give_up_ms is not None and now_ms - self._lost_ms >= settings.give_up_ms:
            return None
        # Thirty doublings are above any limit; more would only make large numbers.
        longest_ms = min(settings.backoff_first_ms << min(self._attempts, 30), settings.backoff_max_ms)
        self._attempts += 1
        # Half of it is random, so that the clients of a broker that died do not come back in step.
        return longest_ms // 2 + int(self._chance.random() * (longest_ms - longest_ms // 2))


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
        self._turn = 0
        self._untried = 0
        """Addresses that have not failed in this round."""
        self._problems: list[str] = []
        """Why the other addresses have failed."""
        self._resume_ms: int | None = None
        self._reconnect = Reconnect(settings, chance)
        self.attempt: Line | None = None
        """The line that is being made."""
        self.line: Line | None = None
        """The line that was welcomed last, even if it has ended."""
        self.reconnects = 0
        self.end: ClientError | None = None
        """Why no more attempts are made."""

    def open(self, *, now_ms: int) -> None:
        """Tries every address once; before the first welcome there are no retries, but this may be called again."""
        self.end = None
        self._untried, self._problems = len(self._addresses), []
        self._dial(now_ms=now_ms)

    def on_welcome(self, line: Line, *, now_ms: int) -> None:
        """An attempt has succeeded."""
        self.attempt = None
        if self.line is not None:
            self.reconnects += 1
        self.hold(line, now_ms=now_ms)

    def hold(self, line: Line, *, now_ms: int) -> None:
        """Uses this line from now on."""
        self.line = line
        self._reconnect.on_welcome(now_ms=now_ms)

    def on_failed(self, error: ClientError, *, now_ms: int) -> None:
        """An attempt has failed; try the next address, pause, or give up, at once if the broker refused."""
        self.attempt = None
        if isinstance(error, RefusedError):
            self.end = error
            return
        self._problems.append(str(error))
        self._turn += 1
        self._untried -= 1
        if self._untried:
            self._dial(now_ms=now_ms)
        elif self.line is None:
            self.end = ConnectionFailedError("; ".join(self._problems))
        else:
            self._pause("; ".join(self._problems), now_ms=now_ms)

    def on_lost(self, *, now_ms: int) -> None:
        """The line has ended, and no other has taken its place."""
        assert self.line is not None, "nothing was there to lose"
        goodbye = self.line.goodbye
        if goodbye is not None and not self._reconnect.may_follow(goodbye.code):
            self.end = RefusedError("go on", goodbye.reason)
            return
        self._reconnect.on_lost(now_ms=now_ms)
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
            self.open(now_ms=now_ms)

    def _dial(self, *, now_ms: int) -> None:
        address = self._addresses[self._turn % len(self._addresses)]
        self.attempt = self._lines.dial(address, self._endpoint, now_ms=now_ms)

    def _pause(self, reason: str, *, now_ms: int) -> None:
        pause_ms = self._reconnect.pause_ms(now_ms=now_ms)
        if pause_ms is None:
            self.end = ConnectionFailedError(f"no connection for {self._settings.give_up_ms} ms: {reason}")
        else:
            self._resume_ms = now_ms + pause_ms
