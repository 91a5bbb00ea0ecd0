"""A lean simulation of wandering tokens: the walkers that brokers run, and nothing around them ([Token] section 5).

As in the paper, passing a token takes no time, one unit is Δskip of table 1, and all components begin at once with one
token among them. Ends of holds and timeouts are the only events. Every visit postpones the timeout of a component, so
each component has a single timer event, which is put back if it fires too early.

The module also has the sizes and parameters that the simulated experiments share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random
from typing import Final

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter
from penstock.token.settings import SWIFT, VARIANTS, Constants
from penstock.token.tokens import Token
from penstock.token.walker import Visit, Walker

__all__ = [
    "NOMINAL",
    "OVERLOAD",
    "SIZES",
    "UNITS",
    "UNIT_MS",
    "VARIANT",
    "Walk",
    "WalkLog",
    "constants_of",
    "walked",
]

UNIT_MS: Final = 1_000
"""One time unit of the paper."""

NOMINAL: Final = 150
OVERLOAD: Final = 300
SIZES: Final = (NOMINAL, OVERLOAD)

VARIANT: Final = Parameter("variant", SWIFT, "rules of the walk: paper, or swift (ours)")
UNITS: Final = Parameter("units", 1_000_000, "time units of each run", quick=100_000, minimum=10_000, maximum=1e8)

_TIMER, _HOLD = 0, 1


@dataclass(slots=True)
class WalkLog:
    """The events of a walk, in the order of time."""

    op_ms: list[int] = field(default_factory=list)
    """When each operation began."""
    op_at: list[int] = field(default_factory=list)
    """The component of each operation."""
    visits: int = 0
    """The number of hand-overs."""
    discarded: int = 0
    generated: int = 0
    emptied_ms: int = -1
    """When a token was last made while there was none; -1 if there was always one."""


class Walk:
    """A group of components and their tokens, in virtual time."""

    def __init__(
        self,
        size: int,
        constants: Constants,
        rng: Random,
        *,
        views: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.size, self.constants = size, constants
        self._rng, self._views = rng, views
        self.walkers = [Walker(str(number), constants, now_ms=0) for number in range(size)]
        self.log = WalkLog()
        self.now_ms = 0
        self.population = 1
        self._lives = 0
        # Time, kind, component and life: the end of a hold from before a loss of all tokens is ignored.
        self._events: list[tuple[int, int, int, int]] = []
        for number in range(size):
            heappush(self._events, (constants.max_ms, _TIMER, number, 0))
        self._arrive(rng.randrange(size), Token(0, "first"))

    def run_until(self, end_ms: int) -> None:
        """Run until a time."""
        events = self._events
        while events[0][0] < end_ms:
            self._step(*heappop(events))
        self.now_ms = end_ms

    def run_until_stable(self, limit_ms: int) -> int | None:
        """Run until there is one token, and was at least one all through the last Δmin; return that time, or None."""
        events, log, min_ms = self._events, self.log, self.constants.min_ms
        while True:
            next_ms = min(events[0][0], limit_ms)
            if self.population == 1:
                stable_ms = max(log.emptied_ms + min_ms, self.now_ms)
                # Also at the time of the next event: it may be the very one that makes another token.
                if stable_ms <= next_ms:
                    self.now_ms = stable_ms
                    return stable_ms
            if next_ms >= limit_ms:
                return None
            self._step(*heappop(events))

    def lose_all(self) -> None:
        """Remove all tokens, and let components forget what they have learnt from losses."""
        for walker in self.walkers:
            walker.lose(now_ms=self.now_ms)
        self._lives += 1
        self.population = 0
        self._events = [(walker.due_ms, _TIMER, number, 0) for number, walker in enumerate(self.walkers)]
        self._events.sort()

    def _step(self, at_ms: int, kind: int, number: int, life: int) -> None:
        self.now_ms = at_ms
        if kind == _TIMER:
            self._on_timer(at_ms, number)
        elif life == self._lives:
            self._on_release(at_ms, number)

    def _on_timer(self, at_ms: int, number: int) -> None:
        walker = self.walkers[number]
        if walker.held is not None:
            heappush(self._events, (walker.until_ms + int(walker.gen_ms), _TIMER, number, 0))
        elif walker.due_ms > at_ms:
            heappush(self._events, (walker.due_ms, _TIMER, number, 0))
        else:
            self.log.generated += 1
            if self.population == 0:
                self.log.emptied_ms = at_ms
            self.population += 1
            self._hold(walker, walker.generate(now_ms=at_ms), number, at_ms)
            heappush(self._events, (walker.until_ms + int(walker.gen_ms), _TIMER, number, 0))

    def _on_release(self, at_ms: int, number: int) -> None:
        walker = self.walkers[number]
        token = walker.release(now_ms=at_ms)
        while walker.waiting:
            visit = walker.next_waiting(now_ms=at_ms)
            assert visit is not None
            if self._hold(walker, visit, number, at_ms):
                break
        self._arrive(self._next_hop(number), token)

    def _next_hop(self, number: int) -> int:
        if self._views is not None:
            view = self._views[number]
            return view[int(self._rng.random() * len(view))]
        hop = int(self._rng.random() * (self.size - 1))
        return hop + (hop >= number)

    def _arrive(self, number: int, token: Token) -> None:
        walker = self.walkers[number]
        self.log.visits += 1
        visit = walker.arrive(token, now_ms=self.now_ms)
        if visit is not None:
            self._hold(walker, visit, number, self.now_ms)

    def _hold(self, walker: Walker, visit: Visit, number: int, at_ms: int) -> bool:
        """Note a visit, and schedule its end unless the token is discarded; return whether it stays."""
        if visit is Visit.DISCARD:
            self.log.discarded += 1
            self.population -= 1
            return False
        if visit is Visit.EXECUTE:
            self.log.op_ms.append(at_ms)
            self.log.op_at.append(number)
        heappush(self._events, (walker.until_ms, _HOLD, number, self._lives))
        return True


def constants_of(context: Context, *, growth: float | None = None) -> Constants:
    """The constants of table 1, for the chosen variant; one unit is a second."""
    variant = context.text("variant")
    if variant not in VARIANTS:
        raise ParameterError(f"parameter variant: {variant!r} is neither {' nor '.join(VARIANTS)}")
    constants = Constants(variant=variant)
    return constants if growth is None else replace(constants, growth=growth)


def walked(context: Context, size: int) -> Walk:
    """Simulate a whole run."""
    walk = Walk(size, constants_of(context), Random(context.rng.getrandbits(64)))
    walk.run_until(context.integer("units") * UNIT_MS)
    return walk
