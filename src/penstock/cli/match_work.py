"""Does the work of ``penstock match``: matches chunks of messages against an index of all selectors.

This happens in one process or several. Chunks are answered in file order, whichever process did the work, so the
output does not depend on the number of processes. Only a few chunks are in flight at a time: memory stays bounded.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice
from multiprocessing import get_context
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.cli.match_inputs import Chunk, MessageFormat, NamedSelector
from penstock.cli.processors import processors
from penstock.matching import MatchIndex
from penstock.model.errors import PenstockError

__all__ = ["Matcher", "Outcome", "Task", "Wanted", "outcomes"]

_CHUNKS_OF_A_LARGE_INPUT: Final = 4
"""With fewer chunks, one process is done before others have started."""
_CHUNKS_AHEAD: Final = 2
"""Chunks in flight per process, so that none waits for work."""
_PENDING_IDS_MAX: Final = 4_000_000


class Wanted(Enum):
    """The kind of output the user wants."""

    COUNTS = "counts"
    PAIRS = "pairs"
    JSON_PAIRS = "json pairs"


@dataclass(slots=True, frozen=True)
class Task:
    """All a worker needs to know to answer chunks."""

    selectors: list[NamedSelector]
    format: MessageFormat
    wanted: Wanted


@dataclass(slots=True, frozen=True)
class Outcome:
    """The answer to one chunk."""

    messages: int
    matches: int
    counts: npt.NDArray[np.int64] | None = None
    """How often each selector matched, if that was wanted."""
    text: str = ""
    """The pairs, ready to print, if those were wanted."""


class Matcher:
    """An index of all selectors, which answers chunks."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._index = MatchIndex()
        for number, named in enumerate(task.selectors):
            self._index.add(number, named.selector)
        names = [
            _encoded(named.name) if task.wanted is Wanted.JSON_PAIRS else str(named.name) for named in task.selectors
        ]
        self._names = np.array(names, dtype=object)

    def answer(self, chunk: Chunk) -> Outcome:
        """Match all messages of a chunk."""
        if self._task.wanted is Wanted.COUNTS:
            return self._counted(chunk)
        return self._paired(chunk)

    def _counted(self, chunk: Chunk) -> Outcome:
        counts = np.zeros(len(self._names), dtype=np.int64)
        pending: list[npt.NDArray[np.uint32]] = []
        pending_ids = messages = 0
        find = self._index.find
        for attributes in self._task.format.decode(chunk.items):
            messages += 1
            ids = find(attributes).ids()
            pending.append(ids)
            pending_ids += len(ids)
            # Counting many ids at once costs about a third of adding up message by message (400 ids each).
            if pending_ids > _PENDING_IDS_MAX:
                counts += np.bincount(np.concatenate(pending), minlength=len(counts))
                pending, pending_ids = [], 0
        if pending:
            counts += np.bincount(np.concatenate(pending), minlength=len(counts))
        return Outcome(messages, int(counts.sum()), counts)

    def _paired(self, chunk: Chunk) -> Outcome:
        parts: list[str] = []
        messages = matches = 0
        as_json = self._task.wanted is Wanted.JSON_PAIRS
        for number, attributes in enumerate(self._task.format.decode(chunk.items), start=chunk.first_number):
            messages += 1
            ids = np.sort(self._index.find(attributes).ids())
            if len(ids):
                matches += len(ids)
                names = self._names[ids].tolist()
                parts.append(_json_pairs(number, names) if as_json else _pairs(number, names))
        return Outcome(messages, matches, text=(",\n" if as_json else "\n").join(parts))


def outcomes(task: Task, chunks: Iterator[Chunk], jobs: int | None) -> Iterator[Outcome]:
    """Answer all chunks, in order; without ``jobs``, in as many processes as pay off."""
    if jobs is None:
        head = list(islice(chunks, _CHUNKS_OF_A_LARGE_INPUT))
        jobs = processors() if len(head) == _CHUNKS_OF_A_LARGE_INPUT else 1
        chunks = chain(head, chunks)
    if jobs == 1:
        return map(Matcher(task).answer, chunks)
    return _in_processes(task, chunks, jobs)


def _in_processes(task: Task, chunks: Iterable[Chunk], jobs: int) -> Iterator[Outcome]:
    # Spawned, not forked: a fork copies whatever threads and locks the parent has.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(task,))
    under_way: deque[Future[Outcome]] = deque()
    try:
        for chunk in chunks:
            under_way.append(pool.submit(_answer, chunk))
            if len(under_way) > jobs * _CHUNKS_AHEAD:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool:
        raise PenstockError("a worker process ended unexpectedly; out of memory? try --jobs 1") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_matchers: list[Matcher] = []
"""The matcher of a worker process; empty elsewhere."""


def _start_worker(task: Task) -> None:
    # The parent handles an interrupt from the keyboard, and then ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _matchers.append(Matcher(task))


def _answer(chunk: Chunk) -> Outcome:
    return _matchers[0].answer(chunk)


def _encoded(name: str | int) -> str:
    return msgspec.json.encode(name).decode()


def _pairs(number: int, names: list[str]) -> str:
    start = f"{number}\t"
    return start + f"\n{start}".join(names)


def _json_pairs(number: int, names: list[str]) -> str:
    start = f"[{number}, "
    return start + f"],\n{start}".join(names) + "]"
