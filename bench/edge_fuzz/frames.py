"""Throws frames at a broker in the same process, in all states of a connection: as strangers, clients and neighbours.

An episode is a broker and about a hundred steps: a peer dials, says something, hangs up, or time passes. What peers say
is right, nearly right, or noise. Episodes that reached new lines of the broker are kept, cut, joined and changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from bench.edge_fuzz.guide import Corpus, Coverage
from bench.edge_fuzz.oracle import Findings, kind_of
from bench.edge_fuzz.plausible import Client, Neighbour, Plausible
from bench.edge_fuzz.rig import Rig
from bench.frames import Hostile
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError

__all__ = ["FRAMES_PER_SEED", "Step", "frames_inside", "throw"]

FRAMES_PER_SEED: Final = 100_000
_STEPS: Final = 60
_PARTS_MAX: Final = 12
_PEERS: Final = 6
_WATCHED_SHARE: Final = 0.08
_SHRINKS_MAX: Final = 300
_NUMBERS: Final = (0, 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(slots=True, frozen=True)
class Step:
    """One thing that happens to a broker."""

    peer: int
    said: bytes = b""
    """The bytes that arrive; empty if the peer hangs up, to dial again with its next step."""
    passed_ms: int = 0
    """Time that passes before that."""


Episode = tuple[Step, ...]


def frames_inside(rng: Random) -> None:
    """One seed's share of a soak."""
    throw(rng, FRAMES_PER_SEED)


def throw(rng: Random, frames: int) -> None:
    """Throw about this many frames at brokers; raises with all kinds of faults that were found."""
    coverage, corpus, findings = Coverage("penstock.broker", "penstock.streams"), Corpus[Episode](rng), Findings()
    while frames > 0:
        # Each episode has its own seed, so that a fresh one can be made up while it is played.
        seed = rng.randrange(2**32)
        episode = _changed(rng, corpus) if len(corpus) and rng.random() < 0.4 else None
        played = _Played(seed)
        lines = coverage.lines
        try:
            with coverage.watching() if rng.random() < _WATCHED_SHARE else nullcontext():
                if episode is None:
                    played.make_up(Random(seed))
                else:
                    played.replay(episode)
                played.end()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            if not findings.has(error):
                findings.add(error, _story(_shrunk(tuple(played.steps), seed, kind_of(error))))
        if coverage.lines > lines:
            corpus.keep(tuple(played.steps))
        frames -= max(played.frames, 1)
    findings.raise_if_any()


class _Played:
    """Plays an episode on a new broker, and records its steps."""

    def __init__(self, seed: int) -> None:
        self._rig = Rig(seed)
        self.steps: list[Step] = []
        self.frames = 0

    def replay(self, episode: Episode) -> None:
        for step in episode:
            self._take(step)

    def make_up(self, rng: Random) -> None:
        """Make up an episode step by step, depending on who is still connected."""
        peers: dict[int, Hostile | Plausible] = {}
        for _ in range(_STEPS):
            number, passed_ms = rng.randrange(_PEERS), rng.choice((0, 0, 0, 0, 0, 1, 20, 300, 1_500))
            if number in self._rig.connections and rng.random() < 0.03:
                self._take(Step(number, b"", passed_ms))
                continue
            if number not in self._rig.connections:
                peer = peers[number] = _peer(rng)
                self._take(Step(number, b"".join(encode_frame(each) for each in peer.opening()), passed_ms))
                if isinstance(peer, Client):
                    peer.identity = self._rig.welcomed.get(number, peer.identity)
            parts = [peers[number].part() for _ in range(rng.randint(1, _PARTS_MAX))]
            self._take(Step(number, b"".join(parts), passed_ms))

    def end(self) -> None:
        """Let time pass, and check that the broker is sound."""
        self._rig.wait(10_000)
        self._rig.check()

    def _take(self, step: Step) -> None:
        rig = self._rig
        # Recorded before it is taken: a step that fails is part of the story.
        self.steps.append(step)
        if step.passed_ms:
            rig.wait(step.passed_ms)
        if not step.said:
            rig.disconnect(step.peer)
            return
        if step.peer not in rig.connections:
            rig.connect(step.peer)
        self.frames += rig.hear(step.peer, step.said)


# How episodes are made.


def _peer(rng: Random) -> Hostile | Plausible:
    kind = rng.random()
    if kind < 0.3:
        return Hostile(rng, publisher=rng.choice((b"", b"publisher")))
    return Client(rng) if kind < 0.65 else Neighbour(rng, rng.choice(("b2", "b2", "b3")))


def _changed(rng: Random, corpus: Corpus[Episode]) -> Episode:
    """An episode that reached something new, spliced, cut or repeated, with some bytes changed."""
    episode = list(corpus.pick())
    kind = rng.randrange(4)
    if kind == 0:
        other = corpus.pick()
        episode = episode[: rng.randrange(len(episode) + 1)] + list(other[rng.randrange(len(other)) :])
    elif kind == 1 and len(episode) > 2:
        first = rng.randrange(len(episode))
        del episode[first : first + rng.randint(1, 5)]
    elif kind == 2:
        episode.insert(rng.randrange(len(episode)), rng.choice(episode))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(episode)) if episode else 0
        if episode and episode[place].said:
            step = episode[place]
            episode[place] = Step(step.peer, _damaged(rng, step.said), step.passed_ms)
    return tuple(episode[: 2 * _STEPS])


def _damaged(rng: Random, said: bytes) -> bytes:
    data = bytearray(said)
    place = rng.randrange(len(data))
    kind = rng.randrange(3)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        number = rng.choice(_NUMBERS)
        size = rng.choice((4, 8))
        data[place : place + size] = (number % 2 ** (8 * size)).to_bytes(size)
    else:
        data[place] = rng.randrange(256)
    return bytes(data)


# How faults are reported.


def _shrunk(episode: Episode, seed: int, kind: str) -> Episode:
    """A shorter episode with the same fault."""
    tries = 0
    size = max(len(episode) // 2, 1)
    while size and tries < _SHRINKS_MAX:
        place = 0
        while place < len(episode) and tries < _SHRINKS_MAX:
            shorter = episode[:place] + episode[place + size :]
            tries += 1
            if shorter and _fails_as(shorter, seed, kind):
                episode = shorter
            else:
                place += size
        size //= 2
    return _split(episode, seed, kind)


def _split(episode: Episode, seed: int, kind: str) -> Episode:
    """A shorter episode with the same fault: drop frames within steps, where they can be told apart."""
    for place, step in enumerate(episode):
        parts = _parts(step.said)
        for number in range(len(parts) - 1, -1, -1):
            fewer = parts[:number] + parts[number + 1 :]
            shorter = (*episode[:place], Step(step.peer, b"".join(fewer), step.passed_ms), *episode[place + 1 :])
            if fewer and _fails_as(shorter, seed, kind):
                parts, episode = fewer, shorter
    return episode


def _parts(said: bytes) -> list[bytes]:
    parts: list[bytes] = []
    place = 0
    while place + 4 <= len(said):
        length = 4 + int.from_bytes(said[place : place + 4])
        parts.append(said[place : place + length])
        place += length
    return [*parts, said[place:]] if place < len(said) else parts


def _fails_as(episode: Episode, seed: int, kind: str) -> bool:
    played = _Played(seed)
    try:
        played.replay(episode)
        played.end()
    except Exception as error:  # noqa: BLE001 - the same question as above
        return kind_of(error) == kind
    return False


def _story(episode: Sequence[Step]) -> str:
    lines = []
    for step in episode:
        waited = f"{step.passed_ms} ms later " if step.passed_ms else ""
        lines.append(f"{waited}peer {step.peer}: {_shown(step.said)}")
    return "\n  ".join(lines)


def _named(frame: f.Frame) -> str:
    """A frame with its fields; the repr of a data frame does not show them."""
    if isinstance(frame, msgspec.Struct):
        return str(frame)
    fields = {name: getattr(frame, name) for name in frame.__slots__ if name != "encoded"}
    return f"{type(frame).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def _shown(said: bytes) -> str:
    if not said:
        return "hangs up"
    try:
        frames = [_named(frame)[:300] for frame in FrameReader().feed(said)]
    except ProtocolError:
        frames = []
    text = "; ".join(frames)
    return f"{text} ({said.hex()[:400]})" if text else said.hex()[:600]
