"""Decides when a broker runs the home of a pubend: one candidate's part in keeping exactly one holder (decision 24).

A database knows who holds a home, in which epoch, and until when, by its own clock. A shell puts this object's
questions to it, one at a time, and brings the answers back; it starts and stops the home when it is told to.

A holder counts its lease from the moment before it asked for it, so it never believes in it for longer than the
database does, however late the answer comes. At the end of the lease the home is stopped at once, and until then the
shell checks ``lease_until_ms`` before everything that the home handles: a machine may have slept in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from penstock.model.errors import MisuseError

__all__ = [
    "LEASE_MS_MIN",
    "Action",
    "Answer",
    "Candidate",
    "Held",
    "LeaseSettings",
    "Lost",
    "Release",
    "Renew",
    "Renewed",
    "Start",
    "Stop",
    "Take",
    "Taken",
]

_RIVAL_LEASES: Final = 30
"""How long a candidate whose home runs elsewhere, by another database, leaves it alone: each change of place may lose
something, and only an operator can tell which database is the right one."""
LEASE_MS_MIN: Final = 200
"""The shortest lease: shorter ones would run out while a database is merely busy."""


@dataclass(slots=True, frozen=True)
class LeaseSettings:
    """How soon another candidate may take a home over; the same at all candidates."""

    lease_ms: int = 2_000
    """How long a holder has the home without renewing its lease."""

    def __post_init__(self) -> None:
        if self.lease_ms < LEASE_MS_MIN:
            raise MisuseError(f"lease_ms {self.lease_ms} of a home is less than {LEASE_MS_MIN}")

    @property
    def renew_ms(self) -> int:
        """How often the holder renews it: three renewals may fail in a row."""
        return self.lease_ms // 4

    @property
    def poll_ms(self) -> int:
        """How often the others look."""
        return self.lease_ms // 8

    @property
    def inquiry_ms(self) -> int:
        """How long a new life of the home waits for what others remember: those that have died do not answer."""
        return self.lease_ms // 2

    @property
    def stagger_ms(self) -> int:
        """How much longer each candidate waits than the one before it."""
        return self.poll_ms


# Questions to the database.


@dataclass(slots=True, frozen=True)
class Take:
    """Take the home, if nobody holds it."""


@dataclass(slots=True, frozen=True)
class Renew:
    """Renew the lease of this epoch."""

    epoch: int


@dataclass(slots=True, frozen=True)
class Release:
    """Give the home up, in favour of a candidate or of anybody."""

    epoch: int
    to: str


# Its answers.


@dataclass(slots=True, frozen=True)
class Taken:
    """The home is the candidate's, in this epoch."""

    epoch: int


@dataclass(slots=True, frozen=True)
class Held:
    """The home is somebody's, or reserved: who holds it, for how long, and who is to have it next."""

    holder: str
    """Empty if it is free."""
    epoch: int
    remaining_ms: int
    wanted: str
    """The candidate to which it is to move; empty for none."""


@dataclass(slots=True, frozen=True)
class Renewed:
    """The lease begins again."""

    wanted: str
    """The candidate to which the home is to move; empty for none."""


@dataclass(slots=True, frozen=True)
class Lost:
    """The epoch is over: somebody else has taken the home."""


# What the shell must do with the home.


@dataclass(slots=True, frozen=True)
class Start:
    """Start the home in this epoch; call ``on_ended`` if that fails."""

    epoch: int


@dataclass(slots=True, frozen=True)
class Stop:
    """Stop the home, then call ``on_ended``."""

    is_orderly: bool
    """Whether to finish what was begun; otherwise nothing may be handled or sent any more."""
    reason: str


Question: TypeAlias = Take | Renew | Release
Answer: TypeAlias = Taken | Held | Renewed | Lost
Action: TypeAlias = Question | Start | Stop


class _State(Enum):
    """What this candidate has to do with the home."""

    AWAY = auto()
    """It does not run here."""
    RUNNING = auto()
    ENDING = auto()
    """It runs here, and finishes what was begun."""
    CUT_OFF = auto()
    """It was stopped abruptly, and has not ended yet."""


class Candidate:
    """One candidate for one home."""

    def __init__(self, name: str, settings: LeaseSettings) -> None:
        self._name, self._settings = name, settings
        self._state = _State.AWAY
        self._is_leaving = False
        self._has_failed = False
        """Whether the home could not be run here the last time."""
        self._has_rival = False
        """Whether a later life of the home ran elsewhere, though this candidate held it."""
        self._asked: Question | None = None
        """The question that is not answered yet."""
        self._asked_ms = 0
        self._ask_at_ms = 0
        self._paused_until_ms = 0
        """Until when it is the turn of others."""
        self.epoch = 0
        """The epoch that this candidate holds; 0 for none."""
        self.lease_until_ms = 0
        """The home must handle nothing from this time on."""
        self.wanted = ""
        """The candidate to which the home is to move."""
        self.holder = ""
        """Who held the home when this candidate last heard of it."""

    @property
    def is_over(self) -> bool:
        """Whether this candidate has left, and holds nothing any more."""
        return self._is_leaving and self._state is _State.AWAY and not self.epoch

    def next_deadline(self) -> int | None:
        """When to ask or stop next; None while only an answer or the end of the home can bring news."""
        times: list[int] = []
        if self._runs:
            times.append(self.lease_until_ms)
        if self._may_ask:
            times.append(self._ask_at_ms)
        return min(times, default=None)

    def on_deadline(self, *, now_ms: int) -> list[Action]:
        """Stops a home whose lease has run out, and asks what is to be asked."""
        actions: list[Action] = []
        if self._runs and now_ms >= self.lease_until_ms:
            actions += self._cut_off("its lease ran out before it could be renewed")
        if self._may_ask and now_ms >= self._ask_at_ms:
            self._asked = self._question()
            self._asked_ms = now_ms
            actions.append(self._asked)
        return actions

    def on_answer(self, answer: Answer | None, *, now_ms: int, asked_ms: int = 0) -> list[Action]:
        """The database has answered the last question; None if it could not be asked, or did not answer.

        ``asked_ms`` is the time just before it was asked, if that was later than when it was to be asked.
        """
        asked = self._asked
        assert asked is not None, f"{answer} answers nothing"
        self._asked = None
        self._asked_ms = max(self._asked_ms, asked_ms)
        match asked:
            case Take():
                return self._on_take(answer, now_ms)
            case Renew():
                return self._on_renew(answer, now_ms)
            case Release():
                return self._on_release(answer, now_ms)

    def on_ended(self, *, now_ms: int, has_failed: bool = False, was_superseded: bool = False) -> None:
        """The home that this candidate ran has ended, maybe because it failed, or a later life of it runs elsewhere."""
        assert self._state is not _State.AWAY, "no home runs here"
        self._state = _State.AWAY
        self._has_failed = has_failed
        # If its lease is over, somebody else has taken the home as it should be. Otherwise there is another database.
        self._has_rival = was_superseded and now_ms < self.lease_until_ms
        if now_ms >= self.lease_until_ms:
            self.epoch = 0
        if self.epoch:
            self._ask_at_ms = now_ms
        else:
            self._pause(now_ms)

    def hurry(self, *, now_ms: int) -> None:
        """The database has news of the home: asks at once, unless it is the turn of others."""
        if self._state is not _State.CUT_OFF:
            self._ask_at_ms = min(self._ask_at_ms, max(now_ms, self._paused_until_ms))

    def leave(self, *, now_ms: int) -> list[Action]:
        """The broker is about to stop: gives the home up in order, and never takes it again."""
        self._is_leaving = True
        if self._state is _State.AWAY:
            self._ask_at_ms = now_ms
        return self._end(f"broker {self._name} is stopping")

    @property
    def _runs(self) -> bool:
        return self._state in (_State.RUNNING, _State.ENDING)

    @property
    def _may_ask(self) -> bool:
        if self._asked is not None or self._state is _State.CUT_OFF:
            return False
        return bool(self.epoch) or not self._is_leaving

    def _pause(self, now_ms: int) -> None:
        """Others first: whoever gives a home up, or could not run it, is not the one to take it again at once."""
        pause_ms = self._settings.lease_ms if self._has_failed else 2 * self._settings.poll_ms
        if self._has_rival:
            pause_ms = _RIVAL_LEASES * self._settings.lease_ms
        self._paused_until_ms = self._ask_at_ms = now_ms + pause_ms

    def _question(self) -> Question:
        if not self.epoch:
            return Take()
        return Renew(self.epoch) if self._runs else Release(self.epoch, self.wanted)

    def _on_take(self, answer: Answer | None, now_ms: int) -> list[Action]:
        self._ask_at_ms = now_ms + self._settings.poll_ms
        if isinstance(answer, Held):
            self.holder, self.wanted = answer.holder, answer.wanted
        if not isinstance(answer, Taken):
            return []
        self.holder, self.wanted = self._name, ""
        self.lease_until_ms = self._asked_ms + self._settings.lease_ms
        if now_ms >= self.lease_until_ms:
            # The answer came too late to be of use: another candidate may have the home by now.
            return []
        self.epoch = answer.epoch
        if self._is_leaving:
            self._ask_at_ms = now_ms
            return []
        self._ask_at_ms = self._asked_ms + self._settings.renew_ms
        self._state = _State.RUNNING
        return [Start(answer.epoch)]

    def _on_renew(self, answer: Answer | None, now_ms: int) -> list[Action]:
        if isinstance(answer, Lost):
            return self._cut_off("somebody else has taken it over")
        if self._runs and now_ms >= self.lease_until_ms:
            # The home may have noticed that before, and fallen silent for good: no answer brings it back.
            return self._cut_off("its lease ran out before the answer came")
        if not isinstance(answer, Renewed):
            self._ask_at_ms = now_ms + self._settings.poll_ms
            return []
        self._ask_at_ms = self._asked_ms + self._settings.renew_ms
        if self.epoch:
            # Not if the lease had run out before: then the home has been stopped, and must not come to life again.
            self.lease_until_ms = self._asked_ms + self._settings.lease_ms
        self.wanted = answer.wanted
        if answer.wanted not in ("", self._name):
            return self._end(f"it moves to {answer.wanted}")
        return []

    def _on_release(self, answer: Answer | None, now_ms: int) -> list[Action]:
        if answer is None and now_ms < self.lease_until_ms:
            self._ask_at_ms = now_ms + self._settings.poll_ms
            return []
        self.epoch = 0
        self._pause(now_ms)
        return []

    def _end(self, reason: str) -> list[Action]:
        """Stops the home in order."""
        if self._state is not _State.RUNNING:
            return []
        self._state = _State.ENDING
        return [Stop(is_orderly=True, reason=reason)]

    def _cut_off(self, reason: str) -> list[Action]:
        """Stops the home at once."""
        self.epoch = 0
        if not self._runs:
            return []
        self._state = _State.CUT_OFF
        return [Stop(is_orderly=False, reason=reason)]
