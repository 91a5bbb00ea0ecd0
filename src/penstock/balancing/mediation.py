"""Mediation: runs one load session at a time, from request to DONE; every wait has an end ([PADRES] section 3.3).

The offloading side asks candidates one after the other, samples, tells subscribers to move, and waits for DONE. The
accepting side waits to hear how many are coming, counts them, and says DONE when all have arrived or N × the migration
timeout has passed. If a partner falls silent, the session times out at both ends; an unreadable letter ends it at once.
Letters of other sessions do not affect it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from penstock.balancing.detection import Action
from penstock.balancing.messages import Done, End, Letter, Moving, Refusal, Reply, Request
from penstock.balancing.metrics import Load
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State

__all__ = ["LoadSession", "Mediator", "Phase"]

_CANDIDATES_MAX = 100


class Phase(Enum):
    """The phases of a session."""

    ASKING = "asking"
    SAMPLING = "sampling"
    MOVING = "moving"
    WAITING = "waiting"
    RECEIVING = "receiving"


@dataclass(slots=True)
class LoadSession:
    """A session between this broker and a partner."""

    number: int
    partner: str
    phase: Phase
    due_ms: int
    action: Action | None = None
    """The purpose of the session, at the offloading side only."""
    reply: Reply | None = None
    total: int = 0
    """Subscribers that are to move."""
    arrived: int = 0
    """Subscribers that have arrived, at the accepting side."""
    estimated: Load = field(default_factory=Load)
    """The accepting broker's load after the session, as the offloading side estimates it."""

    @property
    def offloads(self) -> bool:
        """Whether this is the offloading side."""
        return self.action is not None


class Mediator:
    """Runs the sessions of one broker, at most one at a time."""

    def __init__(self, name: str, settings: BalancingSettings, *, is_global: bool = False) -> None:
        self._name, self._settings, self._is_global = name, settings, is_global
        self.session: LoadSession | None = None
        self._candidates: deque[Action] = deque()
        self._numbers = 0
        self.counts = {"requests": 0, "refused": 0, "refusals": 0, "strays": 0, "timeouts": 0}

    def next_deadline(self) -> int | None:
        """When the current wait ends."""
        return self.session.due_ms if self.session else None

    # --- the offloading side

    def ask(self, actions: Iterable[Action], *, now_ms: int) -> list[Letter]:
        """Ask the first of these candidates; if it refuses or does not answer, the next, and so on."""
        assert self.session is None
        self._candidates = deque(actions, maxlen=_CANDIDATES_MAX)
        return self._ask_next(now_ms)

    def on_reply(self, letter: Letter, reply: Reply, *, now_ms: int) -> list[Letter]:
        """A candidate agrees: start sampling. A stray reply is answered with an end: its sender must not wait."""
        session = self._mine(letter, Phase.ASKING)
        if session is None:
            self.counts["strays"] += 1
            return [self._letter(letter.sender, letter.session, End("nobody asked"))]
        self._candidates.clear()
        session.reply, session.phase = reply, Phase.SAMPLING
        session.due_ms = now_ms + self._settings.sample_ms
        return []

    def on_refusal(self, letter: Letter, *, now_ms: int) -> list[Letter]:
        """A candidate refuses: ask the next one."""
        if self._mine(letter, Phase.ASKING) is None:
            self.counts["strays"] += 1
            return []
        self.counts["refused"] += 1
        self.session = None
        return self._ask_next(now_ms)

    def give_up_asking(self, *, now_ms: int) -> list[Letter]:
        """The candidate did not answer in time: ask the next one."""
        session = self.session
        assert session is not None
        assert session.phase is Phase.ASKING
        self.counts["timeouts"] += 1
        self.session = None
        # A late reply will be answered with an end.
        return self._ask_next(now_ms)

    def moving(self, moving: Moving, *, now_ms: int) -> list[Letter]:
        """Subscribers were told to move: announce them and wait for DONE."""
        session = self.session
        assert session is not None
        assert session.offloads
        session.phase, session.total = Phase.MOVING, moving.total
        session.due_ms = now_ms + moving.total * self._settings.migration_ms + 2 * self._settings.reply_ms
        return [self._letter(session.partner, session.number, moving)]

    def on_failed(self, number: int) -> list[Letter]:
        """A subscriber will not move after all: tell the partner to expect one fewer."""
        session = self.session
        if session is None or session.number != number or session.phase is not Phase.MOVING or session.total < 1:
            return []
        session.total -= 1
        return [self._letter(session.partner, number, Moving(session.total, {}, session.estimated))]

    # --- the accepting side

    def on_request(
        self, letter: Letter, state: State, reply: Reply | None, *, now_ms: int
    ) -> tuple[bool, list[Letter]]:
        """Answers a request to offload; returns whether a session begins, and the letters. Without a reply, refuses."""
        if self.session is not None or state is not State.OK or reply is None:
            self.counts["refusals"] += 1
            reason = "in a session" if self.session is not None else f"state {state.value}"
            return False, [self._letter(letter.sender, letter.session, Refusal(state.value, reason))]
        wait_ms = self._settings.sample_ms + 2 * self._settings.reply_ms
        if self._is_global:
            wait_ms = self._settings.global_session_ms
        self.session = LoadSession(letter.session, letter.sender, Phase.WAITING, now_ms + wait_ms)
        return True, [self._letter(letter.sender, letter.session, reply)]

    def on_moving(self, letter: Letter, moving: Moving, *, now_ms: int) -> bool:
        """The partner says how many subscribers are coming; returns whether all have arrived already."""
        session = self._mine(letter, Phase.WAITING, Phase.RECEIVING)
        if session is None:
            self.counts["strays"] += 1
            return False
        if session.phase is Phase.WAITING:
            total = min(moving.total, self._settings.moves_max)
            session.due_ms = now_ms + total * self._settings.migration_ms + self._settings.reply_ms
        session.phase, session.total, session.estimated = Phase.RECEIVING, moving.total, moving.estimated
        return session.arrived >= session.total

    def on_arrived(self, number: int) -> bool:
        """A subscriber of a session has arrived; returns whether all have."""
        session = self.session
        if session is None or session.number != number or session.offloads:
            return False
        session.arrived += 1
        return session.phase is Phase.RECEIVING and session.arrived >= session.total

    # --- the end

    def finish(self, content: Done | End) -> tuple[LoadSession, list[Letter]]:
        """End the session, and tell the partner."""
        session = self.session
        assert session is not None
        self.session = None
        return session, [self._letter(session.partner, session.number, content)]

    def on_end(self, letter: Letter) -> LoadSession | None:
        """The partner ends the session; returns it, or None if it is not ours."""
        if self._mine(letter, *Phase) is None:
            self.counts["strays"] += 1
            return None
        session, self.session = self.session, None
        return session

    def on_unreadable(self, sender: str, number: int, *, now_ms: int) -> tuple[LoadSession | None, list[Letter]]:
        """Ends the current session if an unreadable letter belongs to it, as no readable one will follow.

        Returns the session if it had begun; a candidate that was only asked counts as having refused.
        """
        session = self.session
        if session is None or (session.number, session.partner) != (number, sender):
            return None, []
        session, letters = self.finish(End("a letter cannot be read"))
        if session.phase is not Phase.ASKING:
            return session, letters
        self.counts["refused"] += 1
        return None, letters + self._ask_next(now_ms)

    def _ask_next(self, now_ms: int) -> list[Letter]:
        if not self._candidates:
            return []
        action = self._candidates.popleft()
        self._numbers += 1
        number = now_ms * 256 + self._numbers % 256
        self.counts["requests"] += 1
        self.session = LoadSession(number, action.partner, Phase.ASKING, now_ms + self._settings.reply_ms, action)
        return [self._letter(action.partner, number, Request(action.metric.name))]

    def _mine(self, letter: Letter, *phases: Phase) -> LoadSession | None:
        session = self.session
        if session is None or (session.number, session.partner) != (letter.session, letter.sender):
            return None
        return session if session.phase in phases else None

    def _letter(self, to: str, session: int, content: Reply | Refusal | Moving | Done | End | Request) -> Letter:
        return Letter(self._name, to, session, content, self._is_global)
