"""Mediation: one session at a time, from request to DONE, with an end to every wait ([PADRES] section 3.3).

The offloading side asks candidates one after the other, samples, tells subscribers to move, and waits for DONE. The
accepting side waits to hear how many come, counts them, and says DONE when all are there or N × the migration timeout
has passed. A partner that falls silent ends the session by time, at both ends; one that cannot be understood ends it at
once. Letters of other sessions change nothing.
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
    """How far a session is."""

    ASKING = "asking"
    SAMPLING = "sampling"
    MOVING = "moving"
    WAITING = "waiting"
    RECEIVING = "receiving"


@dataclass(slots=True)
class LoadSession:
    """Two brokers at work."""

    number: int
    partner: str
    phase: Phase
    due_ms: int
    action: Action | None = None
    """What it is for, if this is the offloading side."""
    reply: Reply | None = None
    total: int = 0
    """Subscribers that move."""
    arrived: int = 0
    """Those that came, at the accepting side."""
    estimated: Load = field(default_factory=Load)
    """What the own load will be, as the offloading side believes."""

    @property
    def offloads(self) -> bool:
        """Whether this is the offloading side."""
        return self.action is not None


class Mediator:
    """The sessions of one broker, of which there is at most one at a time."""

    def __init__(self, name: str, settings: BalancingSettings, *, is_global: bool = False) -> None:
        self._name, self._settings, self._is_global = name, settings, is_global
        self.session: LoadSession | None = None
        self._candidates: deque[Action] = deque()
        self._numbers = 0
        self.counts = {"requests": 0, "refused": 0, "refusals": 0, "strays": 0, "timeouts": 0}

    def next_deadline(self) -> int | None:
        """When the present wait is over."""
        return self.session.due_ms if self.session else None

    # --- the offloading side

    def ask(self, actions: Iterable[Action], *, now_ms: int) -> list[Letter]:
        """Ask the first of these candidates; the others if it refuses or does not answer."""
        assert self.session is None
        self._candidates = deque(actions, maxlen=_CANDIDATES_MAX)
        return self._ask_next(now_ms)

    def on_reply(self, letter: Letter, reply: Reply, *, now_ms: int) -> list[Letter]:
        """A candidate agrees: sampling can begin. For no session: whoever replied must not wait for us."""
        session = self._mine(letter, Phase.ASKING)
        if session is None:
            self.counts["strays"] += 1
            return [self._letter(letter.sender, letter.session, End("nobody asked"))]
        self._candidates.clear()
        session.reply, session.phase = reply, Phase.SAMPLING
        session.due_ms = now_ms + self._settings.sample_ms
        return []

    def on_refusal(self, letter: Letter, *, now_ms: int) -> list[Letter]:
        """A candidate does not agree: the next one is asked."""
        if self._mine(letter, Phase.ASKING) is None:
            self.counts["strays"] += 1
            return []
        self.counts["refused"] += 1
        self.session = None
        return self._ask_next(now_ms)

    def give_up_asking(self, *, now_ms: int) -> list[Letter]:
        """The candidate did not answer in time: it is told to forget it, and the next one is asked."""
        session = self.session
        assert session is not None
        assert session.phase is Phase.ASKING
        self.counts["timeouts"] += 1
        self.session = None
        # If the reply comes after all, the partner hears then that nobody waits for it.
        return self._ask_next(now_ms)

    def moving(self, moving: Moving, *, now_ms: int) -> list[Letter]:
        """Subscribers were told to move: DONE is awaited."""
        session = self.session
        assert session is not None
        assert session.offloads
        session.phase, session.total = Phase.MOVING, moving.total
        session.due_ms = now_ms + moving.total * self._settings.migration_ms + 2 * self._settings.reply_ms
        return [self._letter(session.partner, session.number, moving)]

    def on_failed(self, number: int) -> list[Letter]:
        """A subscriber does not come after all: the partner waits for one less."""
        session = self.session
        if session is None or session.number != number or session.phase is not Phase.MOVING or session.total < 1:
            return []
        session.total -= 1
        return [self._letter(session.partner, number, Moving(session.total, {}, session.estimated))]

    # --- the accepting side

    def on_request(
        self, letter: Letter, state: State, reply: Reply | None, *, now_ms: int
    ) -> tuple[bool, list[Letter]]:
        """Somebody wants to offload: whether a session begins, and the answer. Without a reply it is refused."""
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
        """So many come; whether they are all there already."""
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
        """A subscriber of a session has come; whether all are there."""
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
        """The partner says that the session is over; which one, if it is ours."""
        if self._mine(letter, *Phase) is None:
            self.counts["strays"] += 1
            return None
        session, self.session = self.session, None
        return session

    def on_unreadable(self, sender: str, number: int, *, now_ms: int) -> tuple[LoadSession | None, list[Letter]]:
        """A letter of the present session cannot be read: nobody waits for what will not come.

        The session that is over, if it had begun; who was only asked counts as having refused.
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
        return [self._letter(action.partner, number, Request(action.metric.value))]

    def _mine(self, letter: Letter, *phases: Phase) -> LoadSession | None:
        session = self.session
        if session is None or (session.number, session.partner) != (letter.session, letter.sender):
            return None
        return session if session.phase in phases else None

    def _letter(self, to: str, session: int, content: Reply | Refusal | Moving | Done | End | Request) -> Letter:
        return Letter(self._name, to, session, content, self._is_global)
