"""Path reconstruction: finds the path of a message by asking brokers, breadth first ([Tracking] section 3.3).

A state machine without a network: it names the brokers to ask (`asks`) and is given the answers, in any order. The live
trace, the simulator and the bulk job all use it.

Deviations from the paper:

- The neighbours of brokers that certainly did not route the message are not asked; those of brokers that are down, have
  a gap or no history are, as it may have passed through them.
- A claim counts only if the message can have got there from the origin, through brokers that claim it or cannot deny
  it. Where a broker knows which neighbours sent it messages of the origin, one of these must be such a broker (section
  5.3 suggests comparing neighbours).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from penstock.model.message_id import MessageId
from penstock.tracking.answers import Ask, BrokerAnswer, Evidence, Hop, Trace

__all__ = ["Reconstruction"]

_BROKERS_MAX: Final = 10_000


class Reconstruction:
    """The search for one message."""

    def __init__(
        self,
        message_id: MessageId,
        origin: str,
        *,
        topology: Mapping[str, Sequence[str]] | None = None,
        brokers_max: int = _BROKERS_MAX,
    ) -> None:
        """Begin at the broker that the id names; ``topology`` has the links of brokers that cannot be asked."""
        self._message_id, self._origin = message_id, origin
        self._topology = topology or {}
        self._brokers_max = brokers_max
        self._origins: tuple[int, ...] = (message_id.broker,)
        self._roots = [origin]
        self._found: dict[str, None] = {origin: None}
        self._led_by: dict[str, dict[str, None]] = {origin: {}}
        self._to_ask: dict[str, None] = {origin: None}
        self._pending: dict[str, Ask] = {}
        self._answers: dict[str, BrokerAnswer] = {}
        self._unreachable: dict[str, None] = {}
        self._is_truncated = False

    @property
    def is_done(self) -> bool:
        """Whether no broker is left to ask and no answer is pending."""
        return not self._to_ask and not self._pending

    @property
    def pending(self) -> list[str]:
        """Brokers that have been asked and have not answered."""
        return list(self._pending)

    def asks(self) -> list[Ask]:
        """The questions to send now; each is given once."""
        asks = [Ask(broker, self._origins) for broker in self._to_ask]
        self._pending.update({ask.broker: ask for ask in asks})
        self._to_ask = {}
        return asks

    def on_answer(self, answer: BrokerAnswer) -> None:
        """A broker has answered; unexpected answers are ignored."""
        ask = self._pending.pop(answer.broker, None)
        if ask is None:
            return
        self._answers[answer.broker] = answer
        if answer.alias is not None:
            self._on_alias(*answer.alias)
        if ask.origins != self._origins and answer.claim is not Evidence.YES:
            # It was asked before the alias was known.
            self._to_ask[answer.broker] = None
        if answer.claim is not Evidence.NO:
            self._explore(answer.broker, answer.neighbours)
        if answer.claim is Evidence.YES:
            # The message did not go there next, but whether the claim can be true depends on them.
            self._explore(answer.broker, answer.upstream)

    def on_unreachable(self, broker: str) -> None:
        """A broker could not be asked, or did not answer in time: search beyond it."""
        if self._pending.pop(broker, None) is not None:
            self._unreachable[broker] = None
            self._explore(broker, ())

    def result(self) -> Trace:
        """The trace by the answers so far; brokers that have not answered count as unreachable."""
        unreachable = [*self._unreachable, *self._pending, *self._to_ask]
        doubtful = {*unreachable, *(name for name, each in self._answers.items() if _is_doubtful(each))}
        standing = self._standing(doubtful)
        claiming = [name for name in self._found if name in self._answers and self._claim(name) is Evidence.YES]
        counted = [name for name in claiming if name in standing]
        delivering = [name for name in self._found if name in standing | doubtful and self._receivers(name)]
        published = [name for name in self._roots if self._published(name) is Evidence.YES]
        answers = list(self._answers.values())
        on_its_way = {*claiming, *doubtful}
        return Trace(
            message_id=self._message_id,
            origin=self._origin,
            published_at=published[0] if published else None,
            published=self._published_at_all(),
            hops=tuple(self._hop(name, standing, doubtful) for name in self._found if name in on_its_way),
            routed_by=tuple(counted),
            delivered_by=tuple(delivering),
            receivers=tuple((name, each) for name in delivering for each in self._receivers(name)),
            probable_false_positives=tuple(name for name in claiming if name not in standing),
            unreachable=tuple(unreachable),
            unknown=tuple(each.broker for each in answers if each.claim is Evidence.UNKNOWN),
            gaps=tuple(gap for each in answers for gap in each.gaps),
            asked=len(answers),
            error_probability=1 - prod((1 - each.path_fpp) * (1 - each.delivery_fpp) for each in answers),
            is_truncated=self._is_truncated,
        )

    # --- searching

    def _on_alias(self, broker: str, number: int) -> None:
        if broker in self._roots:
            return
        self._roots.append(broker)
        if number not in self._origins:
            self._origins = (*self._origins, number)
        denied = [name for name, each in self._answers.items() if each.claim is not Evidence.YES]
        self._to_ask.update(dict.fromkeys(denied))
        self._find(broker)
        self._led_by.setdefault(broker, {})

    def _explore(self, broker: str, neighbours: Sequence[str]) -> None:
        for neighbour in (*neighbours, *self._topology.get(broker, ())):
            self._find(neighbour)
            if neighbour in self._found:
                self._led_by.setdefault(neighbour, {})[broker] = None

    def _find(self, broker: str) -> None:
        if broker in self._found:
            return
        if len(self._found) >= self._brokers_max:
            self._is_truncated = True
            return
        self._found[broker] = None
        self._to_ask[broker] = None

    # --- judging

    def _standing(self, doubtful: set[str]) -> set[str]:
        """The claims that can be true: grown from the roots, so that no two claims support only each other."""
        claims = {name for name, each in self._answers.items() if each.claim is Evidence.YES}
        standing = {root for root in self._roots if root in claims}
        grew = True
        while grew:
            more = {name for name in claims - standing if self._support(name, standing, doubtful)}
            standing |= more
            grew = bool(more)
        return standing

    def _support(self, broker: str, standing: set[str], doubtful: set[str]) -> list[str]:
        """The brokers that the message may have come from; those that claim it come first."""
        before = self._answers[broker].upstream or tuple(self._led_by[broker])
        doubted = [name for name in before if name in doubtful or name not in self._found]
        return [*(name for name in before if name in standing), *doubted]

    def _hop(self, broker: str, standing: set[str], doubtful: set[str]) -> Hop:
        answer = self._answers.get(broker)
        if broker in self._roots:
            parent = None
        else:
            support = self._support(broker, standing, doubtful) if answer is not None else []
            parent = next(iter([*support, *self._led_by[broker]]), None)
        claim = Evidence.UNKNOWN if answer is None else answer.claim
        return Hop(broker, parent, claim, broker in standing, answer)

    def _claim(self, broker: str) -> Evidence:
        return self._answers[broker].claim

    def _published(self, broker: str) -> Evidence:
        answer = self._answers.get(broker)
        return Evidence.UNKNOWN if answer is None else answer.published

    def _published_at_all(self) -> Evidence:
        """The evidence of all roots: one claim is enough, else the first doubt counts."""
        found = [self._published(name) for name in self._roots]
        if Evidence.YES in found:
            return Evidence.YES
        return next((each for each in found if each is not Evidence.NO), Evidence.NO)

    def _receivers(self, broker: str) -> tuple[str, ...]:
        answer = self._answers.get(broker)
        return () if answer is None else answer.receivers


def _is_doubtful(answer: BrokerAnswer) -> bool:
    return answer.claim in (Evidence.GAP, Evidence.UNKNOWN)
