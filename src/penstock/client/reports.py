"""Remembers who published which messages, so that publishers hear which of theirs were refused or may be lost.

A publisher is a task or, with the blocking client, a thread. It is recorded only where it changes from one message to
the next. Failures are kept for their publisher until it flushes; if it has ended, for whoever flushes next. All
failures are counted, but of very many only the first are named.
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
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.publish_queue import Failure, PublishQueue
from penstock.session.publishing import Publishing

__all__ = ["NAMED_MAX", "Owner", "Reports", "who_calls"]

NAMED_MAX: Final = 1_000
"""How many messages one error names."""

Owner: TypeAlias = asyncio.Task[Any] | threading.Thread
_Ref: TypeAlias = Callable[[], Owner | None]


def who_calls() -> Owner | None:
    """The current task, or the current thread if it runs no loop; None in a callback of a loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread()
    return asyncio.current_task(loop)


def _nobody() -> None:
    return None


@dataclass(slots=True)
class _Report:
    """The failed messages of one publisher."""

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
    """The failures to report to the publishers of one client."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing
        self._marks: dict[str, deque[tuple[int, _Ref]]] = {}
        """By pubend: from which place on messages have another publisher."""
        self._reports: list[_Report] = []
        self._owners: dict[str, _Ref] = {}

    def owner_of(self, pubend: str) -> Owner | None:
        """The publisher of the last message to this pubend."""
        return self._owners.get(pubend, _nobody)()

    def mark(self, queue: PublishQueue, owner: Owner | None) -> None:
        """Record that the next message to a pubend has another publisher than the one before it."""
        self.collect()
        settled = queue.settled
        marks = self._marks.setdefault(queue.pubend, deque())
        while len(marks) > 1 and marks[1][0] <= settled + 1:
            marks.popleft()
        owner_ref = self._owners[queue.pubend] = _nobody if owner is None else ref(owner)
        marks.append((queue.published + 1, owner_ref))

    def collect(self) -> None:
        """Take the failures from the queues, and keep them for their publishers."""
        failures = self._publishing.take_failures()
        if not failures:
            return
        listed = {pubend: list(marks) for pubend, marks in self._marks.items()}
        for failure in failures:
            marks = listed.get(failure.pubend, [])
            place = bisect_right(marks, failure.place, key=lambda mark: mark[0]) - 1
            self._report_of(marks[place][1] if place >= 0 else _nobody).add(failure)

    def refusal(self, asker: Owner | None, *, everything: bool = False) -> RefusedError | None:
        """The refusals that concern the asker, or all publishers with ``everything``; each is reported once."""
        heard = [each for each in self._heard_by(asker, everything=everything) if each.refused_count]
        if not heard:
            return None
        messages = [message for each in heard for message in each.refused][:NAMED_MAX]
        count = sum(each.refused_count for each in heard)
        for each in heard:
            each.refused, each.refused_count = [], 0
        reason = f"{messages[-1][1]} (messages refused: {count:,})"
        return RefusedError("publish", reason, messages=tuple(messages), count=count)

    def loss(
        self, asker: Owner | None, *, everything: bool = False, end: ClientError | None = None
    ) -> ConnectionFailedError | None:
        """The possible losses that concern the asker, or all publishers with ``everything``; each is reported once.

        ``end`` is why the client has stopped, if it has.
        """
        heard = [each for each in self._heard_by(asker, everything=everything) if each.lost_count]
        if not heard:
            return None
        messages = [message for each in heard for message in each.lost][:NAMED_MAX]
        count = sum(each.lost_count for each in heard)
        for each in heard:
            each.lost, each.lost_count = [], 0
        if end is None:
            text = f"the connection was lost with {count:,} messages on the wire"
        else:
            text = f"{end}; {count:,} messages were not acknowledged"
        return ConnectionFailedError(text, messages=tuple(messages), count=count)

    def _heard_by(self, asker: Owner | None, *, everything: bool) -> list[_Report]:
        self.collect()
        self._reports = [each for each in self._reports if each.refused_count or each.lost_count]
        return [each for each in self._reports if everything or _is_over(each.owner()) or each.owner() is asker]

    def _report_of(self, owner: _Ref) -> _Report:
        """The report for a publisher: each that has not ended has its own, all others share one."""
        is_over = _is_over(owner())
        for each in self._reports:
            if each.owner is owner or (is_over and _is_over(each.owner())):
                return each
        self._join_ended()
        report = _Report(owner)
        self._reports.append(report)
        return report

    def _join_ended(self) -> None:
        """Merge the reports of publishers that have ended: tasks come and go, and maybe nobody ever flushes."""
        ended = [each for each in self._reports if _is_over(each.owner())]
        for each in ended[1:]:
            ended[0].join(each)
            self._reports.remove(each)


def _is_over(owner: Owner | None) -> bool:
    if owner is None:
        return True
    return owner.done() if isinstance(owner, asyncio.Task) else not owner.is_alive()
