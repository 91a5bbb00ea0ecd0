"""Remembers who published which messages, so that whoever published one hears that it was refused or may be lost.

The one who publishes is a task, or with the blocking client a thread. It is written down only where it changes from one
message to the next. What went wrong is kept for its publisher until that flushes; if the publisher has ended, for
whoever flushes next. Of very many messages only the first are named, and all are counted.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from weakref import ref

from penstock.model.body import decode_id
from penstock.model.message_id import MessageId
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.publishing import Failure, PublishQueue

__all__ = ["NAMED_MAX", "Owner", "Reports", "who_calls"]

NAMED_MAX: Final = 1_000
"""Messages that one error names."""

Owner: TypeAlias = asyncio.Task[Any] | threading.Thread
_Ref: TypeAlias = Callable[[], Owner | None]


def who_calls() -> Owner | None:
    """The task in which this is called, or the thread if it runs no loop; None for a callback of a loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread()
    return asyncio.current_task(loop)


def _nobody() -> None:
    return None


@dataclass(slots=True)
class _Report:
    """What went wrong with the messages of one publisher."""

    owner: _Ref
    refused: list[tuple[MessageId, str]] = field(default_factory=list)
    refused_count: int = 0
    lost: list[MessageId] = field(default_factory=list)
    lost_count: int = 0

    def add(self, failure: Failure) -> None:
        if failure.reason:
            self.refused_count += 1
            if len(self.refused) < NAMED_MAX:
                self.refused.append((decode_id(failure.body), failure.reason))
        else:
            self.lost_count += 1
            if len(self.lost) < NAMED_MAX:
                self.lost.append(decode_id(failure.body))

    def join(self, other: _Report) -> None:
        self.refused = (self.refused + other.refused)[:NAMED_MAX]
        self.refused_count += other.refused_count
        self.lost = (self.lost + other.lost)[:NAMED_MAX]
        self.lost_count += other.lost_count


class Reports:
    """What the publishers of one client have to hear."""

    def __init__(self, queue: PublishQueue) -> None:
        self._queue = queue
        self._marks: deque[tuple[int, _Ref]] = deque()
        self._reports: list[_Report] = []
        self.owner: _Ref = _nobody
        """Who published last."""

    def mark(self, owner: Owner | None) -> None:
        """The next message is published by somebody else than the one before it."""
        self.collect()
        settled = self._queue.settled
        while len(self._marks) > 1 and self._marks[1][0] <= settled + 1:
            self._marks.popleft()
        self.owner = _nobody if owner is None else ref(owner)
        self._marks.append((self._queue.published + 1, self.owner))

    def collect(self) -> None:
        """Take from the queue what went wrong, and keep it for those who published it."""
        failures = self._queue.take_failures()
        if not failures:
            return
        marks = list(self._marks)
        for failure in failures:
            place = bisect_right(marks, failure.number, key=lambda mark: mark[0]) - 1
            self._report_of(marks[place][1] if place >= 0 else _nobody).add(failure)

    def refusal(self, asker: Owner | None, *, everything: bool = False) -> RefusedError | None:
        """The refusals that this one has to hear, once; of all publishers if there is nobody else to hear them."""
        heard = [each for each in self._heard_by(asker, everything=everything) if each.refused_count]
        if not heard:
            return None
        messages = [message for each in heard for message in each.refused][:NAMED_MAX]
        count = sum(each.refused_count for each in heard)
        for each in heard:
            each.refused, each.refused_count = [], 0
        reason = f"{messages[-1][1]} (messages refused: {count:,})"
        return RefusedError("publish", reason, messages=tuple(messages), count=count)

    def loss(self, asker: Owner | None, *, everything: bool = False) -> ConnectionFailedError | None:
        """The same for messages that may be lost."""
        heard = [each for each in self._heard_by(asker, everything=everything) if each.lost_count]
        if not heard:
            return None
        messages = [message for each in heard for message in each.lost][:NAMED_MAX]
        count = sum(each.lost_count for each in heard)
        for each in heard:
            each.lost, each.lost_count = [], 0
        text = f"the connection was lost with {count:,} messages on the wire"
        return ConnectionFailedError(text, messages=tuple(messages), count=count)

    def _heard_by(self, asker: Owner | None, *, everything: bool) -> list[_Report]:
        self.collect()
        self._reports = [each for each in self._reports if each.refused_count or each.lost_count]
        return [each for each in self._reports if everything or _is_over(each.owner()) or each.owner() is asker]

    def _report_of(self, owner: _Ref) -> _Report:
        """One for each publisher that has not ended, and one for all others."""
        is_over = _is_over(owner())
        for each in self._reports:
            if each.owner is owner or (is_over and _is_over(each.owner())):
                return each
        self._join_ended()
        report = _Report(owner)
        self._reports.append(report)
        return report

    def _join_ended(self) -> None:
        """Put the reports of publishers that have ended together: tasks come and go, and nobody may ever flush."""
        ended = [each for each in self._reports if _is_over(each.owner())]
        for each in ended[1:]:
            ended[0].join(each)
            self._reports.remove(each)


def _is_over(owner: Owner | None) -> bool:
    if owner is None:
        return True
    return owner.done() if isinstance(owner, asyncio.Task) else not owner.is_alive()
