"""The numbered lines (connections) of a session, each from its dialling until nothing is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, TypeAlias

from penstock.protocol.frames import Frame, Goodbye
from penstock.session.address import Address
from penstock.session.changes import Abort, Changes, Dial, Effect, HangUp
from penstock.session.settings import ClientSettings

__all__ = ["Endpoint", "Line", "LineState", "Lines"]

LineState: TypeAlias = Literal["dialling", "greeting", "up", "ended"]
"""Not made yet; not welcomed yet; welcomed; over for the session, though the shell may still be sending last words."""


class Endpoint(Protocol):
    """Handles the frames of a line and provides the ones to send: the resident, a newcomer or a leaver."""

    writable: bool

    def on_connected(self, *, now_ms: int) -> None:
        """There is a connection."""

    def on_frames(self, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> Changes:
        """Frames have arrived."""

    def on_disconnected(self) -> Changes:
        """The connection is gone."""

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""

    def next_deadline(self) -> int | None:
        """When to ask again for frames, or to check whether the broker is silent."""

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether the connection must be given up."""

    def on_reading(self, *, now_ms: int) -> None:
        """Reading resumes; the silence until now does not count."""


class Line:
    """One connection, or the attempt to make it."""

    __slots__ = (
        "address",
        "due_ms",
        "endpoint",
        "goodbye",
        "is_hopeless",
        "number",
        "patience_ms",
        "problem",
        "state",
    )

    def __init__(self, number: int, address: Address, endpoint: Endpoint, *, due_ms: int, patience_ms: int = 0) -> None:
        self.number, self.address = number, address
        self.endpoint = endpoint
        """Who handles the frames; replaced when the client moves."""
        self.state: LineState = "dialling"
        self.due_ms: int | None = due_ms
        """Deadline of the attempt to connect; after the end, of sending the last words."""
        self.patience_ms = patience_ms
        """How long the attempt to connect may take."""
        self.goodbye: Goodbye | None = None
        """The broker's goodbye, if it sent one."""
        self.problem = ""
        """Why the line ended, if the broker did not say."""
        self.is_hopeless = False
        """Whether another attempt at this address would fail in the same way."""

    def next_deadline(self) -> int | None:
        """When to look at the line again."""
        if self.state == "up":
            return self.endpoint.next_deadline()
        if self.state == "greeting" and (endpoint_ms := self.endpoint.next_deadline()) is not None:
            return endpoint_ms if self.due_ms is None else min(self.due_ms, endpoint_ms)
        return self.due_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether the attempt, or saying the last words, has taken too long."""
        return self.due_ms is not None and now_ms >= self.due_ms


class Lines:
    """The lines of one session, and the effects that ask the shell to make and end them."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._last_number = 0
        self._lines: dict[int, Line] = {}
        self.effects: list[Effect] = []
        """What the shell has to do, in this order."""

    def __iter__(self) -> Iterator[Line]:
        return iter(list(self._lines.values()))

    def open(self, number: int) -> Line | None:
        """The line with a number, unless it has ended."""
        line = self._lines.get(number)
        return line if line is not None and line.state != "ended" else None

    def dial(self, address: Address, endpoint: Endpoint, *, now_ms: int, by_ms: int | None = None) -> Line:
        """Has the shell make a connection for this endpoint, in the usual time or until ``by_ms``, if that is less."""
        self._last_number += 1
        patience_ms = self._settings.connect_ms
        if by_ms is not None:
            patience_ms = min(patience_ms, by_ms - now_ms)
        due_ms = now_ms + patience_ms
        line = Line(self._last_number, address, endpoint, due_ms=due_ms, patience_ms=patience_ms)
        self._lines[line.number] = line
        self.effects.append(Dial(line.number, address))
        return line

    def hang_up(self, line: Line, *last_words: Frame, now_ms: int) -> None:
        """Ends a line once the last words are out; a broker that does not take them in time is cut off."""
        line.state, line.due_ms = "ended", now_ms + self._settings.close_ms
        if line.number in self._lines:
            self.effects.append(HangUp(line.number, last_words))

    def abort(self, line: Line) -> None:
        """Cuts a line, which may be sending its last words, or be gone already."""
        line.state, line.due_ms = "ended", None
        if line.number in self._lines:
            self.effects.append(Abort(line.number))

    def forget(self, number: int) -> Line | None:
        """Removes a line when nothing is left of it."""
        return self._lines.pop(number, None)

    def clear(self) -> None:
        """Forgets all lines without touching them, since they belong to somebody else."""
        self._lines, self.effects = {}, []

    def take_effects(self) -> list[Effect]:
        """Hands the effects over to the shell."""
        effects, self.effects = self.effects, []
        return effects

    def next_deadline(self) -> int | None:
        """When to look at one of the lines again."""
        earliest_ms: int | None = None
        for line in self._lines.values():
            deadline_ms = line.next_deadline()
            if deadline_ms is not None and (earliest_ms is None or deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms
