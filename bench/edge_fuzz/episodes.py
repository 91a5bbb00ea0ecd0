"""Plays episodes at a broker in the same process, shortens those that fail, and changes those that reached new lines.

An episode is a broker and about a hundred steps: a peer dials, says something, hangs up, or time passes. What peers say
is right, nearly right, or noise. Episodes that reached new lines of the broker are kept, cut, joined and changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from bench.edge_fuzz.guide import Corpus, Coverage
from bench.edge_fuzz.oracle import Findings, kind_of

__all__ = ["Edge", "Episode", "Stage", "Step", "Talker", "bytes_damaged", "throw"]

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


class Stage(Protocol):
    """A broker, and everything its shell would do for it."""

    @property
    def connections(self) -> list[int]:
        """The open connections."""

    def connect(self, number: int) -> None:
        """Open a connection."""

    def hear(self, number: int, data: bytes) -> int:
        """Hand over arriving bytes; return how many frames they contained."""

    def disconnect(self, number: int) -> None:
        """Close a connection."""

    def wait(self, passed_ms: int) -> None:
        """Let time pass."""

    def end(self) -> None:
        """Let time pass, and fail if the broker is not sound."""


_Stage = TypeVar("_Stage", bound=Stage)
_Seen_contra = TypeVar("_Seen_contra", contravariant=True)


class Talker(Protocol[_Seen_contra]):
    """Makes up what one peer says."""

    def opening(self) -> bytes:
        """How it introduces itself."""

    def learn(self, stage: _Seen_contra, number: int) -> None:
        """Look at what it was told on its connection."""

    def part(self) -> bytes:
        """The bytes of one more frame, or of what should have been one."""


@dataclass(slots=True, frozen=True)
class Edge(Generic[_Stage]):
    """What is fuzzed, and with what."""

    packages: tuple[str, ...]
    """Whose lines are worth reaching."""
    stage: Callable[[int], _Stage]
    """Makes a broker from a seed."""
    talker: Callable[[Random, int], Talker[_Stage]]
    """Makes the peer for a connection."""
    parts: Callable[[bytes], list[bytes]]
    """Takes bytes apart into frames, where they can be told apart; all of them together are the bytes."""
    shown: Callable[[bytes], str]
    """What a peer said, for the story."""
    damaged: Callable[[Random, bytes], bytes]
    """What a peer said, with something changed."""


def throw(edge: Edge[_Stage], rng: Random, frames: int) -> None:
    """Throw about this many frames at brokers; raises with all kinds of faults that were found."""
    coverage, corpus, findings = Coverage(*edge.packages), Corpus[Episode](rng), Findings()
    while frames > 0:
        # Each episode has its own seed, so that a fresh one can be made up while it is played.
        seed = rng.randrange(2**32)
        episode = _changed(edge, rng, corpus) if len(corpus) and rng.random() < 0.4 else None
        played = _Played(edge, seed)
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
                findings.add(error, _story(edge, _shrunk(edge, tuple(played.steps), seed, kind_of(error))))
        if coverage.lines > lines:
            corpus.keep(tuple(played.steps))
        frames -= max(played.frames, 1)
    findings.raise_if_any()


class _Played(Generic[_Stage]):
    """Plays an episode on a new broker, and records its steps."""

    def __init__(self, edge: Edge[_Stage], seed: int) -> None:
        self._edge = edge
        self._stage = edge.stage(seed)
        self.steps: list[Step] = []
        self.frames = 0

    def replay(self, episode: Episode) -> None:
        for step in episode:
            self._take(step)

    def make_up(self, rng: Random) -> None:
        """Make up an episode step by step, depending on who is still connected."""
        stage = self._stage
        talkers: dict[int, Talker[_Stage]] = {}
        for _ in range(_STEPS):
            number, passed_ms = rng.randrange(_PEERS), rng.choice((0, 0, 0, 0, 0, 1, 20, 300, 1_500))
            if number in stage.connections and rng.random() < 0.03:
                self._take(Step(number, b"", passed_ms))
                continue
            if number not in stage.connections:
                talkers[number] = self._edge.talker(rng, number)
                self._take(Step(number, talkers[number].opening(), passed_ms))
            talker = talkers[number]
            talker.learn(stage, number)
            parts = [talker.part() for _ in range(rng.randint(1, _PARTS_MAX))]
            self._take(Step(number, b"".join(parts), passed_ms))

    def end(self) -> None:
        """Let time pass, and check that the broker is sound."""
        self._stage.end()

    def _take(self, step: Step) -> None:
        stage = self._stage
        # Recorded before it is taken: a step that fails is part of the story.
        self.steps.append(step)
        if step.passed_ms:
            stage.wait(step.passed_ms)
        if not step.said:
            stage.disconnect(step.peer)
            return
        if step.peer not in stage.connections:
            stage.connect(step.peer)
        self.frames += stage.hear(step.peer, step.said)


# How episodes are made.


def _changed(edge: Edge[_Stage], rng: Random, corpus: Corpus[Episode]) -> Episode:
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
            episode[place] = Step(step.peer, edge.damaged(rng, step.said), step.passed_ms)
    return tuple(episode[: 2 * _STEPS])


def bytes_damaged(rng: Random, said: bytes) -> bytes:
    """The bytes with one bit, one byte or one number changed."""
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


def _shrunk(edge: Edge[_Stage], episode: Episode, seed: int, kind: str) -> Episode:
    """A shorter episode with the same fault."""
    tries = 0
    size = max(len(episode) // 2, 1)
    while size and tries < _SHRINKS_MAX:
        place = 0
        while place < len(episode) and tries < _SHRINKS_MAX:
            shorter = episode[:place] + episode[place + size :]
            tries += 1
            if shorter and _fails_as(edge, shorter, seed, kind):
                episode = shorter
            else:
                place += size
        size //= 2
    return _split(edge, episode, seed, kind)


def _split(edge: Edge[_Stage], episode: Episode, seed: int, kind: str) -> Episode:
    """A shorter episode with the same fault: drop frames within steps, where they can be told apart."""
    for place, step in enumerate(episode):
        parts = edge.parts(step.said)
        for number in range(len(parts) - 1, -1, -1):
            fewer = parts[:number] + parts[number + 1 :]
            shorter = (*episode[:place], Step(step.peer, b"".join(fewer), step.passed_ms), *episode[place + 1 :])
            if fewer and _fails_as(edge, shorter, seed, kind):
                parts, episode = fewer, shorter
    return episode


def _fails_as(edge: Edge[_Stage], episode: Episode, seed: int, kind: str) -> bool:
    played = _Played(edge, seed)
    try:
        played.replay(episode)
        played.end()
    except Exception as error:  # noqa: BLE001 - the same question as above
        return kind_of(error) == kind
    return False


def _story(edge: Edge[_Stage], episode: Sequence[Step]) -> str:
    lines = []
    for step in episode:
        waited = f"{step.passed_ms} ms later " if step.passed_ms else ""
        lines.append(f"{waited}peer {step.peer}: {edge.shown(step.said) if step.said else 'hangs up'}")
    return "\n  ".join(lines)
