"""Sorts the journals of the live fuzz for the judge: messages of publishers, chains of subscribers.

A *chain* is a sequence of lives of one subscription with a promise over all of them: all lives of a durable name form
one chain, and so do lives that resume with stored positions. A plain subscription has a chain for each life, since
nothing is promised from one to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

from bench.live_fuzz.plan import SubscriberPlan, SubscriptionPlan
from bench.live_fuzz.quotes import Quote

__all__ = ["Chain", "Life", "Line", "Lost", "MessageKey", "Sent", "chains_of", "sent_by"]

Line: TypeAlias = list[Any]
MessageKey: TypeAlias = tuple[str, int]
"""Publisher and number."""
_RECENT_MS: Final = 10_000
"""A subscription that was away catches up for a while before it hears what it has lost."""


@dataclass(slots=True)
class Sent:
    """A message that a publisher was about to send."""

    quote: Quote
    at_ms: int
    pubend: str
    """Empty if the client chose it."""
    fate: str = "open"
    """``open``, ``took``, ``doubt``, ``blocked`` or ``acked``."""


@dataclass(slots=True, frozen=True)
class Lost:
    """A notice that some ticks are lost."""

    at_ms: int
    pubend: str
    first: int
    last: int


@dataclass(slots=True)
class Life:
    """What one subscription saw, from a call of ``subscribe`` to its end."""

    asked_ms: int
    start: str | dict[str, int]
    missing: str
    starts: dict[str, int] = field(default_factory=dict)
    confirmed_ms: dict[str, int] = field(default_factory=dict)
    """When it was known, by pubend, that nothing from the start on is missing."""
    got: list[tuple[str, int, str, int]] = field(default_factory=list)
    """Pubend, tick, publisher and number of each message."""
    moves: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Times and ticks of the position's progress, by pubend."""
    lost: list[Lost] = field(default_factory=list)
    refused: str = ""
    refused_ms: int = 0
    left: bool = False
    """Whether it was closed in order."""
    ended: bool = False
    """Whether it has read everything up to the end of the round."""
    strange: list[str] = field(default_factory=list)

    def move(self, at_ms: int, positions: dict[str, int]) -> None:
        """Record new positions."""
        for pubend, tick in positions.items():
            moves = self.moves.setdefault(pubend, [])
            if not moves or moves[-1][1] < tick:
                moves.append((at_ms, tick))


@dataclass(slots=True)
class Chain:
    """Lives that belong together."""

    name: str
    plan: SubscriptionPlan
    lives: list[Life] = field(default_factory=list)

    @property
    def is_durable(self) -> bool:
        """Whether the pubends keep its position under a name."""
        return bool(self.plan.durable)

    @property
    def is_exact(self) -> bool:
        """Whether no message may come twice over all lives, since positions are stored with the messages."""
        return self.plan.keeping in {"stored", "durable-stored"}

    def begin(self, pubend: str) -> int | None:
        """The tick from which on nothing may be missing."""
        return next((life.starts[pubend] for life in self.lives if pubend in life.starts), None)

    def end(self, pubend: str) -> int:
        """Everything below this tick was read by some life."""
        return max((life.moves[pubend][-1][1] for life in self.lives if pubend in life.moves), default=0)

    def absence_ms(self, pubend: str, at_ms: int) -> int:
        """The longest standstill of the position that ended at a moment or shortly before."""
        moved = sorted(at for life in self.lives for at, _ in life.moves.get(pubend, ()) if at < at_ms)
        times = [*(moved or [self.lives[0].asked_ms]), at_ms]
        recent = [later - earlier for earlier, later in pairwise(times) if later >= at_ms - _RECENT_MS]
        return max(recent)


def sent_by(lines: Iterable[Line], counts: Counter[str]) -> dict[MessageKey, Sent]:
    """The messages in the journal of a publisher process, each with its fate."""
    sent: dict[MessageKey, Sent] = {}
    for kind, at_ms, *rest in lines:
        match kind, rest:
            case "sent", [str(name), int(n), str(pubend), dict(attributes)]:
                # A publisher with its own numbers resends what is in doubt: the first time counts.
                sent.setdefault((name, n), Sent(Quote(**attributes), at_ms, pubend))
            case "took", [str(name), int(first), int(last)]:
                _mark(sent, name, range(first, last + 1), "took")
            case "doubt", [str(name), int(first), int(last), _]:
                _mark(sent, name, range(first, last + 1), "doubt")
            case "blocked", [str(name), int(n)]:
                _mark(sent, name, [n], "blocked")
            case "acked", [str(name), int(last)]:
                _settle(sent, name, last, "acked")
            case "unsure", [str(name), int(last), _]:
                _settle(sent, name, last, "doubt")
            case (("cancelled" | "fork"), _):
                counts[kind] += 1
    return sent


def _mark(sent: dict[MessageKey, Sent], name: str, numbers: Iterable[int], fate: str) -> None:
    for n in numbers:
        message = sent[name, n]
        if message.fate != "acked":
            message.fate = fate


def _settle(sent: dict[MessageKey, Sent], name: str, last: int, fate: str) -> None:
    for n in range(last, 0, -1):
        message = sent.get((name, n))
        if message is None or message.fate == "acked":
            # Everything before was settled by an earlier flush.
            return
        if message.fate == "took":
            message.fate = fate


def chains_of(plan: SubscriberPlan, lines: Sequence[Line], counts: Counter[str]) -> list[Chain]:
    """The chains in the journal of a subscriber process."""
    chains: list[Chain] = []
    current: dict[int, Chain] = {}
    for kind, at_ms, *rest in lines:
        if kind == "cancelled":
            counts[kind] += 1
        if kind in {"life", "cancelled", "crash"}:
            continue
        number, *fields = rest
        if kind == "ask":
            chain = current.get(number)
            if chain is None or _breaks(chain, fields[0]):
                name = f"{plan.name}/{number}" if chain is None else f"{plan.name}/{number} since {at_ms}"
                chain = current[number] = Chain(name, plan.subscriptions[number])
                chains.append(chain)
            chain.lives.append(Life(at_ms, *fields))
        else:
            _note(current[number].lives[-1], kind, at_ms, fields)
    return chains


def _breaks(chain: Chain, start: object) -> bool:
    return not chain.is_durable and (chain.plan.keeping == "plain" or isinstance(start, str))


def _note(life: Life, kind: str, at_ms: int, fields: list[Any]) -> None:
    match kind:
        case "starts":
            life.starts = {**fields[0], **life.starts}
            for pubend in fields[0]:
                life.confirmed_ms.setdefault(pubend, at_ms)
        case "got":
            life.got += [tuple(row) for row in fields[0]]
            life.move(at_ms, fields[1] or {})
        case "at":
            life.move(at_ms, fields[0])
        case "end":
            life.move(at_ms, fields[0])
            life.ended = True
        case "lost":
            life.lost.append(Lost(at_ms, *fields))
        case "refused":
            life.refused, life.refused_ms = fields[0], at_ms
        case "left":
            life.left = True
        case "strange":
            life.strange.append(fields[0])
