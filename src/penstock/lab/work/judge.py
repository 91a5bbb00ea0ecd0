"""The judge of ``work-kill9``: counts in the files of all workers how often each job was acknowledged.

A job is to be acknowledged once. A worker that is killed between its acknowledgement and the answer leaves a doubt: the
job may be done although no file says so, or it comes again. The same goes for a worker that was cut off when the
pubend's broker was killed, and hears later that the job is done, nobody knows by whom. That excuses one job for each of
these acknowledgements, and no job that was acknowledged twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.lab.work.worker import DONE, LOST, READY, TRIED, UNKNOWN

__all__ = ["Life", "WorkVerdict", "judge"]


class Life:
    """One life of a worker, from its start to its end, as its file tells it."""

    def __init__(self, path: Path) -> None:
        self.ready_s: float | None = None
        """When it was connected; None before that."""
        self.killed_s: float | None = None
        """When it was killed; None if it was not."""
        self.done: list[tuple[float, int, int]] = []
        """Time, job and attempt of every acknowledgement that counts."""
        self.tried: Counter[int] = Counter()
        """Acknowledgements without an answer, by job."""
        self.unknown: Counter[int] = Counter()
        """Acknowledgements of jobs that were done long ago, nobody knows by whom."""
        self.late = 0
        """Acknowledgements that do not count, because somebody else was handed the job."""
        self._path = path
        self._place = 0

    def read(self) -> int:
        """Read what the worker has written since the last time; returns how many more jobs are done."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._place)
            content = file.read()
        # The last line may not be complete.
        content = content[: content.rfind(b"\n") + 1]
        self._place += len(content)
        before = len(self.done)
        for line in content.decode().splitlines():
            self._take(*line.split())
        return len(self.done) - before

    def _take(self, what: str, *rest: str) -> None:
        at_s = float(rest[-1])
        if what == READY:
            self.ready_s = at_s
            return
        job, attempt = int(rest[0]), int(rest[1])
        if what == TRIED:
            self.tried[job] += 1
            return
        self.tried[job] -= 1
        if not self.tried[job]:
            del self.tried[job]
        if what == DONE:
            self.done.append((at_s, job, attempt))
        elif what == UNKNOWN:
            self.unknown[job] += 1
        else:
            assert what == LOST, f"a worker wrote {what!r}"
            self.late += 1


@dataclass(slots=True)
class WorkVerdict:
    """How often jobs were acknowledged."""

    done: int
    """Jobs that were acknowledged."""
    lost: list[int] = field(default_factory=list)
    """Jobs that nobody acknowledged, and that are not in doubt either."""
    doubled: list[int] = field(default_factory=list)
    """Jobs that were acknowledged more than once."""
    strange: list[int] = field(default_factory=list)
    """Acknowledged jobs that do not exist."""
    excused: int = 0
    """Jobs that nobody acknowledged as far as files know, but that were in doubt."""
    in_doubt: int = 0
    """Acknowledgements of which nobody knows what became of them."""
    unknown: int = 0
    """Those in doubt that were answered: the job is done, and nobody knows by whom."""
    unanswered: int = 0
    """Acknowledgements without an answer although their worker was not killed."""
    late: int = 0
    """Acknowledgements that came too late, so that they did not count."""
    repeated: int = 0
    """How often jobs that are done had to be handed out again."""


def judge(jobs: int, lives: Sequence[Life]) -> WorkVerdict:
    """Judge jobs with the numbers from 0 on."""
    times = Counter(job for life in lives for _, job, _ in life.done)
    killed = [life for life in lives if life.killed_s is not None]
    others = [life for life in lives if life.killed_s is None]
    doubts = _jobs(life.tried for life in killed) | _jobs(life.unknown for life in lives)
    missing = [job for job in range(jobs) if job not in times]
    return WorkVerdict(
        done=sum(job in times for job in range(jobs)),
        lost=[job for job in missing if job not in doubts],
        doubled=sorted(job for job, count in times.items() if count > 1),
        strange=sorted(job for job in times if not 0 <= job < jobs),
        excused=sum(job in doubts for job in missing),
        in_doubt=sum(life.tried.total() for life in killed) + sum(life.unknown.total() for life in lives),
        unknown=sum(life.unknown.total() for life in lives),
        unanswered=sum(life.tried.total() for life in others),
        late=sum(life.late for life in lives),
        repeated=sum(attempt - 1 for life in lives for _, _, attempt in life.done),
    )


def _jobs(counts: Iterable[Counter[int]]) -> set[int]:
    return {job for each in counts for job in each}
