"""The overlay of ``work-kill9``, and the kills drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Final, Literal, TypeAlias

from penstock.lab.demo_overlay import OverlayPlan

__all__ = ["BROKERS", "HOME", "KINDS", "PLAN", "PUBEND", "Kill", "KillKind", "brokers_of", "draw_kills"]

KillKind: TypeAlias = Literal["worker", "home", "broker"]

KINDS: Final[tuple[KillKind, ...]] = ("worker", "home", "broker")
"""What is killed: a worker, the broker of the pubend, or another broker."""
HOME: Final = "b1"
"""The broker of the pubend."""
BROKERS: Final = (HOME, "b2", "b3", "b4")
PUBEND: Final = "jobs"
PLAN: Final = OverlayPlan(
    {name: (PUBEND,) if name == HOME else () for name in BROKERS},
    tuple(combinations(BROKERS, 2)),
    {"heartbeat_ms": 250, "silent_ms": 2_000},
)
"""Default settings, except that silent connections are given up sooner, because runs are short."""

_PAUSE_S: Final = (0.05, 1.0)


@dataclass(slots=True, frozen=True)
class Kill:
    """A process to kill, and when to start it again."""

    kind: KillKind
    target: str
    """The name of the worker or broker."""
    pause_s: float


def draw_kills(rng: Random, workers: int) -> Iterator[Kill]:
    """Draw kills without end; of three in a row from the first one on, each is of another kind.

    >>> kills = draw_kills(Random(1), 8)
    >>> sorted(next(kills).kind for _ in range(3))
    ['broker', 'home', 'worker']
    """
    while True:
        for kind in rng.sample(KINDS, len(KINDS)):
            target = {
                "worker": f"w{rng.randrange(workers)}",
                "home": HOME,
                "broker": rng.choice([name for name in BROKERS if name != HOME]),
            }[kind]
            yield Kill(kind, target, rng.uniform(*_PAUSE_S))


def brokers_of(worker: int) -> list[str]:
    """The brokers at which a worker tries to connect, in turn: workers begin at different ones.

    >>> brokers_of(6)
    ['b3', 'b4', 'b1', 'b2']
    """
    first = worker % len(BROKERS)
    return [*BROKERS[first:], *BROKERS[:first]]
