"""Reads the logs of this broker's pubends for clients anywhere in the overlay that ask for ranges of ticks.

Every request is answered on its own, with as much as one bounded read finds, and the client continues from there:
nothing has to be remembered between two requests, and what gets lost on the way is simply requested again.

Who looks for last values reads from the first tick there ever was, if the pubend keeps them by the same attribute. Of
what was trimmed they get what the view keeps of it, in the order of ticks, and then the log. The scan stays complete
though the log is trimmed between two of its parts: of each key, the newest message that the reader has not passed yet
is either in the log or, once trimmed, in the view under the same tick. It leaves the view only for a newer one of the
same key, which lies further on; so it is the newer one that the reader finds. What moves into the view below the
reader's next tick it has read already.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from penstock.broker.effects import ReadLog
from penstock.broker.pubend.last_values import LastView
from penstock.broker.pubend.log import PubendLog
from penstock.model.body import decode_attributes
from penstock.model.tick import TickRange
from penstock.protocol.frames import LogAnswer, LogRequest, LogSpan
from penstock.selectors.effort import TURN_EFFORT_MAX, effort_of, effort_with
from penstock.selectors.errors import SelectorError
from penstock.selectors.evaluate import Evaluation, compile_condition
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["READ_BYTES_MAX", "LogServing"]

READ_BYTES_MAX: Final = 1024 * 1024
"""Most bytes read at once; the frame of the answer must hold them."""
_WAITING_MAX: Final = 1_000
_READS_MAX: Final = 2
"""Most reads under way: one on the disk, while the other one is answered."""
_FIRST_NUMBER: Final = 1 << 62
"""Far above the numbers of the reads for subscribers."""


class LogServing:
    """The requests for the logs of one broker's pubends."""

    def __init__(
        self,
        logs: Mapping[str, PubendLog],
        views: Mapping[str, LastView],
        *,
        send: Callable[[LogSpan | LogAnswer], None],
    ) -> None:
        self._logs, self._views, self._send = logs, views, send
        self._waiting: deque[LogRequest] = deque()
        self._under_way: dict[int, tuple[LogRequest, ReadLog]] = {}
        self._keys: set[tuple[str, int]] = set()
        """Host and number of all requests that are queued or under way."""
        self._last = _FIRST_NUMBER
        self._effects: list[ReadLog] = []
        self.counts = Counter(log_requests=0, log_requests_dropped=0, log_rows_read=0, log_rows_sent=0)

    def ask(self, frame: LogRequest) -> None:
        """Queues a host's request; drops it if it repeats a pending one, or if the queue is full: hosts ask again."""
        self.counts["log_requests"] += 1
        log = self._logs[frame.pubend]
        if not frame.bytes_max:
            if not log.is_begun:
                # Its end would lie before what was told of it earlier.
                return
            is_keeping = self._view_for(frame) is not None
            self._send(LogSpan(frame.pubend, frame.host, frame.number, log.trimmed_below, log.promised, is_keeping))
        elif (frame.host, frame.number) in self._keys or len(self._waiting) >= _WAITING_MAX:
            self.counts["log_requests_dropped"] += 1
        else:
            self._keys.add((frame.host, frame.number))
            self._waiting.append(frame)
            self._begin()

    def take_effects(self) -> list[ReadLog]:
        """Returns the reads for the shell."""
        effects, self._effects = self._effects, []
        return effects

    def on_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None, *, now_ms: int
    ) -> bool:
        """Answers a request whose read has ended; returns False if the read was not ours."""
        frame, read = self._under_way.pop(number, (None, None))
        if frame is None or read is None:
            return False
        view = self._view_for(frame)
        if view is not None and frame.first < self._logs[frame.pubend].trimmed_below:
            # Also if it was trimmed during the read: then the view has what was read, or something newer.
            self._answer_from(view, frame, now_ms)
            self._begin()
            return True
        # What was trimmed during the read must not look like silence. What was promised meanwhile was not read:
        # a message may be there.
        first, last = max(frame.first, self._logs[frame.pubend].trimmed_below), min(last, read.last)
        first = min(first, frame.last + 1)
        lost = [(frame.first, first - 1)] if first > frame.first else []
        if damaged is not None and damaged.last >= first and damaged.first <= read.last:
            last = min(damaged.last, read.last)
            lost.append((max(damaged.first, first), last))
        kept = [each for each in messages if first <= each[0] <= last]
        found, looked_at = _matching(frame.selector, kept)
        if looked_at < len(kept):
            # Leaves the rest to the next request: testing all of it would keep everybody waiting.
            last = kept[looked_at][0] - 1
            lost = [each for each in lost if each[1] <= last]
        self.counts["log_rows_read"] += looked_at
        self._answer(frame, max(last, first - 1), found, tuple(lost))
        self._begin()
        return True

    def _begin(self) -> None:
        while self._waiting and len(self._under_way) < _READS_MAX:
            frame = self._waiting.popleft()
            log = self._logs[frame.pubend]
            first, last = max(frame.first, log.trimmed_below), min(frame.last, log.promised)
            size = min(frame.bytes_max, READ_BYTES_MAX)
            if self._view_for(frame) is not None and frame.first < log.trimmed_below:
                # Answered from memory, but in its turn, as if it were a read: one of next to nothing.
                first = last = log.trimmed_below
                size = 1
            if first > last:
                # The whole range was trimmed, or is yet to come.
                trimmed = min(frame.last, log.trimmed_below - 1)
                lost = ((frame.first, trimmed),) if trimmed >= frame.first else ()
                self._answer(frame, max(trimmed, frame.first - 1), [], lost)
                continue
            self._last += 1
            read = ReadLog(self._last, frame.pubend, first, last, size)
            self._under_way[self._last] = frame, read
            self._effects.append(read)

    def _view_for(self, frame: LogRequest) -> LastView | None:
        """The view that has the last values a request looks for, if there is one."""
        view = self._views.get(frame.pubend)
        return view if view is not None and view.attribute == frame.key else None

    def _answer_from(self, view: LastView, frame: LogRequest, now_ms: int) -> None:
        """Answers with a part of what the view keeps of the trimmed ticks that are asked for."""
        last = min(frame.last, self._logs[frame.pubend].trimmed_below - 1)
        room = min(frame.bytes_max, READ_BYTES_MAX)
        kept: list[tuple[int, bytes]] = []
        for tick, body in view.between(frame.first, last, now_ms=now_ms):
            if kept and len(body) > room:
                last = tick - 1
                break
            kept.append((tick, body))
            room -= len(body)
        found, looked_at = _matching(frame.selector, kept)
        if looked_at < len(kept):
            last = kept[looked_at][0] - 1
        self.counts["log_rows_read"] += looked_at
        self._answer(frame, last, found, (), is_compacted=True)

    def _answer(
        self,
        frame: LogRequest,
        last: int,
        messages: list[tuple[int, bytes]],
        lost: tuple[tuple[int, int], ...],
        *,
        is_compacted: bool = False,
    ) -> None:
        self._keys.discard((frame.host, frame.number))
        self.counts["log_rows_sent"] += len(messages)
        ticks, bodies = [tick for tick, _ in messages], [body for _, body in messages]
        span = (frame.first, last)
        self._send(
            LogAnswer(frame.pubend, frame.host, frame.number, span, ticks, bodies, lost, is_compacted=is_compacted)
        )


def _matching(text: str, messages: list[tuple[int, bytes]]) -> tuple[list[tuple[int, bytes]], int]:
    """Tests messages until the effort of a turn is spent; returns those that match, and how many were tested."""
    if text == str(EVERYTHING):
        return messages, len(messages)
    test, effort = _test(text)
    found: list[tuple[int, bytes]] = []
    left = TURN_EFFORT_MAX
    for looked_at, each in enumerate(messages):
        if left <= 0:
            return found, looked_at
        left -= effort_with(effort, each[1])
        if test(decode_attributes(each[1])) is True:
            found.append(each)
    return found, len(messages)


def _test(text: str) -> tuple[Evaluation, int]:
    """Returns the test of a message, and its effort."""
    try:
        condition = Selector.parse(text).condition
    except SelectorError:
        # The host has already parsed the selector: a neighbour that sends a bad one gets nothing.
        return lambda _attributes: False, 1
    return compile_condition(condition), effort_of(condition)
