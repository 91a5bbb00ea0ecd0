"""Throws frames at a broker in the same process, in all states of a connection: stranger, client and neighbour."""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from bench.edge_fuzz.episodes import Edge, bytes_damaged, throw
from bench.edge_fuzz.plausible import Client, Neighbour, Plausible
from bench.edge_fuzz.rig import Rig
from bench.frames import Hostile
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError

__all__ = ["FRAMES", "FRAMES_PER_SEED", "NativeTalker", "frames_inside", "native_parts", "native_shown"]

FRAMES_PER_SEED: Final = 100_000


def frames_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    throw(FRAMES, rng, FRAMES_PER_SEED)


class NativeTalker:
    """A peer that speaks the protocol of Penstock, or something like it."""

    def __init__(self, peer: Hostile | Plausible) -> None:
        self._peer = peer

    def opening(self) -> bytes:
        """Its hello, and what belongs to it."""
        return b"".join(encode_frame(each) for each in self._peer.opening())

    def learn(self, stage: Rig, number: int) -> None:
        """Learn the numbers that its messages must have."""
        if isinstance(self._peer, Client):
            self._peer.identity = stage.welcomed.get(number, self._peer.identity)

    def part(self) -> bytes:
        """One more frame, or what looks like one."""
        return self._peer.part()


def _talker(rng: Random, _number: int) -> NativeTalker:
    kind = rng.random()
    if kind < 0.3:
        return NativeTalker(Hostile(rng, publisher=rng.choice((b"", b"publisher"))))
    return NativeTalker(Client(rng) if kind < 0.65 else Neighbour(rng, rng.choice(("b2", "b2", "b3"))))


def native_parts(said: bytes) -> list[bytes]:
    """The frames in these bytes, by their lengths."""
    parts: list[bytes] = []
    place = 0
    while place + 4 <= len(said):
        length = 4 + int.from_bytes(said[place : place + 4])
        parts.append(said[place : place + length])
        place += length
    return [*parts, said[place:]] if place < len(said) else parts


def _named(frame: f.Frame) -> str:
    """A frame with its fields; the repr of a data frame does not show them."""
    if isinstance(frame, msgspec.Struct):
        return str(frame)
    fields = {name: getattr(frame, name) for name in frame.__slots__ if name != "encoded"}
    return f"{type(frame).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def native_shown(said: bytes) -> str:
    """The frames in these bytes with their fields, if that is what they are, and the bytes themselves."""
    try:
        frames = [_named(frame)[:300] for frame in FrameReader().feed(said)]
    except ProtocolError:
        frames = []
    text = "; ".join(frames)
    return f"{text} ({said.hex()[:400]})" if text else said.hex()[:600]


FRAMES: Final = Edge(("penstock.broker", "penstock.streams"), Rig, _talker, native_parts, native_shown, bytes_damaged)
