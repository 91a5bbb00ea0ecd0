"""The overlay of ``stomp-kill9``, its destinations, and the blows drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Final, Literal, TypeAlias

from penstock.lab.demo_overlay import OverlayPlan

__all__ = [
    "BROKERS",
    "HOMES",
    "KINDS",
    "PLAN",
    "QUEUE",
    "TOPIC",
    "WORK_MS",
    "Blow",
    "Kind",
    "draw_blows",
    "stomp_table",
]

Kind: TypeAlias = Literal["home", "broker", "client", "stop"]

KINDS: Final[tuple[Kind, ...]] = ("home", "broker", "client", "stop")
"""A broker with a pubend is killed, or another one; the connection of a client is cut off; any broker is paused."""
HOMES: Final = ("b1", "b2")
"""The brokers with pubends."""
BROKERS: Final = (*HOMES, "b3", "b4")
QUEUE: Final = "jobs"
TOPIC: Final = "/topic/news"
WORK_MS: Final = 5_000
"""How long the work of a worker whose broker is dead may wait for another one; short, because runs are."""
PLAN: Final = OverlayPlan(
    {name: (f"{name}.kept",) if name in HOMES else () for name in BROKERS},
    tuple(combinations(BROKERS, 2)),
    {"heartbeat_ms": 250, "silent_ms": 2_000},
)
"""Default settings, except that silent connections are given up sooner, because runs are short."""

_PAUSE_S: Final = (0.0, 2.0)
_STOP_S: Final = (0.5, 9.0)
"""Often longer than the work of its consumers may wait, so that others get it while their connections last."""


@dataclass(slots=True, frozen=True)
class Blow:
    """What is struck, and how long a broker stays down or paused."""

    at_s: float
    kind: Kind
    target: str
    """The name of a broker, or the number of a client among all."""
    pause_s: float


def draw_blows(rng: Random, *, every_s: float, clients: int) -> Iterator[Blow]:
    """Draw blows without end, on average one in ``every_s``; of four in a row each is of another kind.

    >>> blows = draw_blows(Random(1), every_s=2.0, clients=8)
    >>> sorted(next(blows).kind for _ in range(4))
    ['broker', 'client', 'home', 'stop']
    """
    at_s = 0.0
    while True:
        for kind in rng.sample(KINDS, len(KINDS)):
            at_s += rng.uniform(0.2, 1.8) * every_s
            target = {
                "home": rng.choice(HOMES),
                "broker": rng.choice([name for name in BROKERS if name not in HOMES]),
                "client": str(rng.randrange(clients)),
                "stop": rng.choice(BROKERS),
            }[kind]
            yield Blow(at_s, kind, target, rng.uniform(*(_STOP_S if kind == "stop" else _PAUSE_S)))


def stomp_table(name: str, port: int) -> str:
    """The table of a broker's overlay file that has it serve STOMP clients at a port.

    >>> print(stomp_table("b1", 61613), end="")
    [brokers.b1.stomp]
    port = 61613
    work_ms = 5000
    """
    return f"[brokers.{name}.stomp]\nport = {port}\nwork_ms = {WORK_MS}\n"
