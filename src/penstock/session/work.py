"""A client's part in a group: which messages it has, what it has said of each, and what it was answered.

What is said is repeated until it is answered, over any number of connections: the pubend knows it again. Messages are
handed to a client again after every reconnect, since some may have got lost; it recognises those it has. Pubends add a
third to the time that members have for a message, and a client asks for more three times as often for what it has not
read: so an application has all of its time from when it reads a message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.protocol.data_frames import Handed
from penstock.protocol.work_frames import VERDICTS_MAX, Join, Outcome, Outcomes, Verdict, Verdicts
from penstock.session.received import HandedOut, Received

__all__ = ["Said", "Shared", "Work"]

_JUDGED_MAX: Final = 10_000
"""Judged messages that are recognised if they come again, sent before the pubend knew."""
_AGAIN_MS: Final = 2_000
"""How long to wait for an answer before something is said again."""


@dataclass(slots=True, frozen=True)
class Shared:
    """What an application wants of a group."""

    group: str
    shared_by: str = ""
    work_ms: int = 30_000
    deliveries_max: int = 0
    prefetch: int = 100


@dataclass(slots=True, eq=False)
class Said:
    """What the application says of a message."""

    message: HandedOut
    verdict: Verdict
    delay_ms: int = 0
    reason: str = ""
    due_ms: int = 0
    """When to say it, again if need be."""
    outcome: Outcome | None = None
    """What it has led to; None before the answer."""


@dataclass(slots=True)
class _Judged:
    """The last thing that was said of a message which this client does not have any more."""

    attempt: int
    verdict: Verdict
    outcome: Outcome | None = None


class Work:
    """The messages of one group that this client has."""

    def __init__(self, shared: Shared, member: bytes) -> None:
        self.shared: Final = shared
        self._member = member
        self._round = 0
        self._extend_ms = 0
        self._held: dict[tuple[str, int], int] = {}
        """The attempt of each message that was handed to this client and not judged, by pubend and tick."""
        self._judged: dict[tuple[str, int], _Judged] = {}
        """Messages that were judged, or lost, by pubend and tick; the oldest are forgotten."""
        self._said: dict[tuple[str, int, int, Verdict], Said] = {}
        """What has no answer yet, by pubend, tick and attempt."""
        self.taken_away = 0
        """Messages that this client lost before the application had said what becomes of them."""

    @property
    def unanswered(self) -> int:
        """How many messages the application has acknowledged or refused, with no answer so far."""
        return sum(verdict in (Verdict.DONE, Verdict.REFUSED) for _, _, _, verdict in self._said)

    def join(self, number: int, selector: str, start: int, pubends: tuple[str, ...]) -> Join:
        """The request to become a member, or to remain one, on a new connection."""
        self._round += 1
        for said in self._said.values():
            said.due_ms = 0
        # It may have been away for long: what the application has not read may be somebody else's by now.
        self._extend_ms = 0
        shared = self.shared
        return Join(
            number,
            selector,
            shared.group,
            self._member,
            self._round,
            shared.shared_by,
            shared.work_ms,
            shared.deliveries_max,
            shared.prefetch,
            pubends,
            start,
        )

    def take_in(self, frame: Handed) -> list[HandedOut]:
        """Messages were handed to this client; returns those that are new."""
        news: list[HandedOut] = []
        for tick, attempt, body in zip(frame.ticks, frame.attempts, frame.bodies, strict=True):
            key = (frame.pubend, tick)
            # An answer may overtake messages that were sent before it, after a reconnect.
            judged = self._judged.get(key)
            if attempt > max(self._held.get(key, 0), judged.attempt if judged is not None else 0):
                self._held[key] = attempt
                news.append(HandedOut(frame.pubend, tick, body, attempt=attempt))
        return news

    def is_held(self, message: HandedOut) -> bool:
        """Whether this client has a message, as far as it knows, and has not judged it."""
        return self._held.get((message.pubend, message.tick)) == message.attempt

    def judge(self, message: HandedOut, verdict: Verdict, delay_ms: int = 0, reason: str = "") -> Said:
        """The application says what becomes of a message; what it has said before leads to the same again."""
        said = Said(message, verdict, delay_ms, reason)
        key = (message.pubend, message.tick)
        if not self.is_held(message):
            judged = self._judged.get(key)
            said.outcome = Outcome.LOST
            # What was lost when it needed more time is lost for everything else, too.
            same = (verdict, Verdict.EXTENDED)
            if judged is not None and judged.attempt == message.attempt and judged.verdict in same:
                said.outcome = judged.outcome
            return said if said.outcome is not None else self._said[*key, message.attempt, verdict]
        if verdict is not Verdict.EXTENDED:
            self._let_go(key, message.attempt, verdict)
        return self._said.setdefault((*key, message.attempt, verdict), said)

    def give_back(self, messages: Iterable[HandedOut]) -> None:
        """The application has not read these messages, and will not."""
        for message in messages:
            self.judge(message, Verdict.RETURNED)

    def on_outcomes(self, frame: Outcomes) -> set[int]:
        """The pubend has answered; returns the ticks of the messages that this client thought it had, and has not."""
        lost: set[int] = set()
        for tick, attempt, verdict, outcome in frame.outcomes:
            key = (frame.pubend, tick)
            said = self._said.pop((*key, attempt, Verdict(verdict)), None)
            judged = self._judged.get(key)
            if said is not None:
                said.outcome = Outcome(outcome)
                if judged is not None and (judged.attempt, judged.verdict) == (attempt, verdict):
                    judged.outcome = said.outcome
            if outcome != Outcome.KEPT and self._held.get(key) == attempt:
                lost.add(tick)
                self._let_go(key, attempt, Verdict(verdict), Outcome(outcome))
                # Else the client has asked for more time by itself, and the application hears nothing of the answer.
                self.taken_away += said is None
        return lost

    def _let_go(self, key: tuple[str, int], attempt: int, verdict: Verdict, outcome: Outcome | None = None) -> None:
        """It does not have this message any more; the same attempt may still come again, over a slow way."""
        del self._held[key]
        self._judged.pop(key, None)
        self._judged[key] = _Judged(attempt, verdict, outcome)
        if len(self._judged) > _JUDGED_MAX:
            del self._judged[next(iter(self._judged))]

    def take(self, number: int, unread: Iterable[Received] = (), *, now_ms: int) -> list[Verdicts]:
        """What is to be said now: also that the application, which has not read some messages, needs more time."""
        due: dict[str, list[tuple[int, int, int, int, str]]] = {}
        if now_ms >= self._extend_ms:
            self._extend_ms = now_ms + self.shared.work_ms // 3
            for message in unread:
                due.setdefault(message.pubend, []).append((message.tick, message.attempt, Verdict.EXTENDED, 0, ""))
        for (pubend, tick, attempt, verdict), said in self._said.items():
            if said.due_ms <= now_ms:
                said.due_ms = now_ms + _AGAIN_MS
                due.setdefault(pubend, []).append((tick, attempt, verdict, said.delay_ms, said.reason))
        return [
            Verdicts(number, pubend, tuple(each[start : start + VERDICTS_MAX]))
            for pubend, each in due.items()
            for start in range(0, len(each), VERDICTS_MAX)
        ]

    def next_deadline(self, *, has_unread: bool) -> int | None:
        """When to say something, again if need be."""
        wishes = [said.due_ms for said in self._said.values()]
        if has_unread:
            wishes.append(self._extend_ms)
        return min(wishes, default=None)
