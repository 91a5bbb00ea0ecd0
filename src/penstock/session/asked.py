"""Questions to the broker that are not answered yet; some are asked again every so often, as they may get lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.protocol.frames import Frame

__all__ = ["Asked"]


@dataclass(slots=True)
class _Question:
    frame: Frame
    again_ms: int | None
    due_ms: int | None


class Asked:
    """The open questions of one client, in the order in which they were asked."""

    def __init__(self) -> None:
        self._last_number = 0
        self._open: dict[int, _Question] = {}

    def __iter__(self) -> Iterator[Frame]:
        return (question.frame for question in self._open.values())

    def ask(self, question: Callable[[int], Frame], *, again_ms: int | None = None, now_ms: int) -> tuple[int, Frame]:
        """A question with a number of its own, and again after every so many milliseconds without an answer."""
        self._last_number += 1
        frame = question(self._last_number)
        due_ms = None if again_ms is None else now_ms + again_ms
        self._open[self._last_number] = _Question(frame, again_ms, due_ms)
        return self._last_number, frame

    def settle(self, number: int) -> None:
        """It was answered, or nobody waits for the answer any more."""
        self._open.pop(number, None)

    def clear(self) -> None:
        """The connection is gone, and no answer will come."""
        self._open.clear()

    def next_deadline(self) -> int | None:
        """When to ask something again."""
        if not self._open:
            return None
        return min((each.due_ms for each in self._open.values() if each.due_ms is not None), default=None)

    def take(self, *, now_ms: int) -> list[Frame]:
        """What is to be asked again now; whichever answer comes first will do."""
        frames: list[Frame] = []
        for each in self._open.values():
            if each.due_ms is not None and each.again_ms is not None and now_ms >= each.due_ms:
                each.due_ms = now_ms + each.again_ms
                frames.append(each.frame)
        return frames
