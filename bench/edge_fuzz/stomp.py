"""Throws STOMP frames, and what should have been one, at a broker in the same process, beside native clients."""

from __future__ import annotations

from random import Random
from typing import Final

from bench.edge_fuzz.episodes import Edge, Talker, throw
from bench.edge_fuzz.frames import NativeTalker, native_parts, native_shown
from bench.edge_fuzz.plausible import Client
from bench.edge_fuzz.stomp_rig import NATIVE_FROM, StompRig
from bench.edge_fuzz.stomp_talkers import StompTalker, stomp_damaged, stomp_parts

__all__ = ["INPUTS_PER_SEED", "STOMP", "stomp_inside"]

INPUTS_PER_SEED: Final = 10_000
_SHOWN_MAX: Final = 1_500


def stomp_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    throw(STOMP, rng, INPUTS_PER_SEED)


class _Speaker(StompTalker):
    """A STOMP client in the rig."""

    def learn(self, stage: StompRig, number: int) -> None:
        """Hear what it was told."""
        for frame in stage.heard(number):
            self.hear(frame)


class _Native(NativeTalker):
    """A native client, some of whose messages are for topics and queues."""

    def __init__(self, rng: Random) -> None:
        super().__init__(Client(rng, destinations=("/topic/a", "/topic/b.c", "/queue/w")))


def _talker(rng: Random, number: int) -> Talker[StompRig]:
    return _Native(rng) if number >= NATIVE_FROM else _Speaker(rng)


def _parts(said: bytes) -> list[bytes]:
    return native_parts(said) if _is_native(said) else stomp_parts(said)


def _shown(said: bytes) -> str:
    return native_shown(said) if _is_native(said) else repr(said)[2:_SHOWN_MAX]


def _is_native(said: bytes) -> bool:
    """Whether these look like native frames, which begin with their length."""
    return said[:2] == b"\0\0"


STOMP: Final = Edge(
    ("penstock.stomp", "penstock.protocol.stomp", "penstock.session", "penstock.work"),
    StompRig,
    _talker,
    _parts,
    _shown,
    stomp_damaged,
)
