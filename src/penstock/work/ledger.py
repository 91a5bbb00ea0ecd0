"""The durable part of a group at one pubend: which messages are not done, and how often each was handed out.

Messages are on pages, in the order of their ticks; a page is written whole, under a name of its own, whenever one of
its messages changes. Every matching message up to the frontier is on a page, or it is done and its page was dropped. So
what a member has to do with a message costs one small value, however many messages there are. Some pages on which
everything is done stay for a while: members whose answer got lost ask again who did what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec

from penstock.model.values import AttributeValue
from penstock.work.terms import Terms

__all__ = ["DamagedLedgerError", "Ledger", "State", "Task"]

PAGE_TASKS: Final = 64
_COMPLETE_KEPT: Final = 128
"""Pages on which everything is done that are kept: about eight thousand messages."""
_HISTORY_MAX: Final = 8
_REASON_CHARS_MAX: Final = 200


class DamagedLedgerError(ValueError):
    """A stored value is not what a group has written."""


class State(IntEnum):
    """What becomes of a message in a group."""

    READY = 0
    """It waits for a member."""
    HELD = 1
    """A member works on it."""
    DELAYED = 2
    """It was refused, and waits a while before it is handed out again."""
    DYING = 3
    """It is given up, and on its way to the dead letters."""
    DONE = 4


@dataclass(slots=True, eq=False)
class Task:
    """One message of a group."""

    tick: int
    page: int = 0
    attempts: int = 0
    """How often it was handed out."""
    failures: int = 0
    """How often that was in vain."""
    member: bytes = b""
    """Who has it, or had it last."""
    state: State = State.READY
    number: int = 0
    """Its number among the dead letters, once it is given up."""
    history: tuple[str, ...] = ()
    """What became of the last attempts that failed."""
    body: bytes = b""
    """Empty until it has been read."""
    key: AttributeValue = None
    until_ms: int = 0
    """While it is held: when that ends. While it is delayed: when it is ready."""
    delay_ms: int = 0
    """While it is delayed: for how long altogether."""
    work_until_ms: int = 0
    """While it is held: when that ends if its member stays."""
    expires_ms: int = 0
    """When it expires, unless a member has it then; 0 for never, and until it has been read."""

    def note(self, what: str) -> None:
        """Adds a sentence to its history."""
        self.history = (*self.history, what[:_REASON_CHARS_MAX])[-_HISTORY_MAX:]


class _StoredTask(msgspec.Struct, array_like=True, frozen=True):
    tick: int
    attempts: int
    failures: int
    member: bytes
    state: State
    number: int = 0
    history: tuple[str, ...] = ()
    delay: tuple[int, int] = (0, 0)
    """When it ends, and how long it is."""


class _StoredHead(msgspec.Struct, array_like=True, frozen=True):
    terms: tuple[str, str, str, int, int]
    client: str
    frontier: int
    page: int
    dead: int
    made: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_page: Final = msgspec.msgpack.Decoder(list[_StoredTask]).decode
_decode_head: Final = msgspec.msgpack.Decoder(_StoredHead).decode


@dataclass(slots=True)
class _Page:
    tasks: list[Task] = field(default_factory=list)
    undone: int = 0
    is_stored: bool = False
    """Whether it was ever written."""
    is_behind: bool = False
    """Whether messages were added to it since it was written."""


class Ledger:
    """The messages of one group at one pubend, and what has to be written of them."""

    def __init__(self, terms: Terms, client: str, frontier: int, made: int = 0) -> None:
        self.terms: Final = terms
        self.made: Final = made
        """Tells it from an earlier group with the same name."""
        self.client: Final = client
        """The client that made the group; empty if clients did not have to authenticate then."""
        self.frontier = frontier
        """The tick up to which every matching message is on a page, or done; as far as it is to be durable."""
        self.tasks: Final[dict[int, Task]] = {}
        """All messages on pages, by tick."""
        self.undone = 0
        self._dead = 0
        self._pages: dict[int, _Page] = {}
        self._last = 0
        """The number of the newest page."""
        self._complete: deque[int] = deque()
        self._dirty: dict[int, None] = {}
        self._is_head_dirty = True

    @classmethod
    def restored(cls, head: bytes, pages: Mapping[int, bytes]) -> Ledger:
        """A group as it was written; raises ``DamagedLedgerError``."""
        try:
            stored = _decode_head(head)
            made = cls(Terms(*stored.terms), stored.client, stored.frontier, stored.made)
            for number in sorted(pages):
                made._restore(number, _decode_page(pages[number]))
        except (ValueError, msgspec.DecodeError) as error:
            raise DamagedLedgerError(f"the ledger of a group cannot be read: {error}") from error
        made._dead, made._last = stored.dead, max([stored.page, *pages]) + 1
        made._is_head_dirty = False
        return made

    def _restore(self, number: int, stored: list[_StoredTask]) -> None:
        page = self._pages[number] = _Page(is_stored=True)
        for each in stored:
            task = Task(each.tick, number, each.attempts, each.failures, each.member, each.state, each.number)
            task.history = each.history
            task.until_ms, task.delay_ms = each.delay
            page.tasks.append(task)
            self.tasks[task.tick] = task
            page.undone += task.state is not State.DONE
            self.frontier = max(self.frontier, task.tick)
        self.undone += page.undone
        if not page.undone:
            self._complete.append(number)

    def add(self, tick: int) -> Task:
        """Adds a matching message beyond all that are known; it is written when something becomes of it, not before."""
        page = self._pages.get(self._last)
        if page is None or len(page.tasks) >= PAGE_TASKS:
            self._last += 1
            page = self._pages[self._last] = _Page()
        task = self.tasks[tick] = Task(tick, self._last)
        page.tasks.append(task)
        page.is_behind = True
        page.undone += 1
        self.undone += 1
        return task

    def touch(self, task: Task) -> None:
        """A message has changed."""
        self._dirty[task.page] = None

    def done(self, task: Task) -> None:
        """A message is done, by acknowledgement or as a dead letter."""
        task.state, task.body = State.DONE, b""
        page = self._pages[task.page]
        page.undone -= 1
        self.undone -= 1
        self._dirty[task.page] = None
        if not page.undone and (len(page.tasks) >= PAGE_TASKS or task.page != self._last):
            self._complete.append(task.page)

    @property
    def dead(self) -> int:
        """The number of the last dead letter."""
        return self._dead

    def next_dead(self) -> int:
        """The number of the next dead letter."""
        self._dead += 1
        self._is_head_dirty = True
        return self._dead

    def undone_tasks(self) -> Iterator[Task]:
        """All messages that are not done, in the order of ticks."""
        for number in sorted(number for number, page in self._pages.items() if page.undone):
            yield from (task for task in self._pages[number].tasks if task.state is not State.DONE)

    def lowest(self) -> int | None:
        """The lowest tick of those that are not done; None if all are."""
        first = next(self.undone_tasks(), None)
        return None if first is None else first.tick

    def take_changes(self) -> dict[str, bytes | None]:
        """What has to be written, by name: empty for the group itself, else the number of a page; None to delete it."""
        changes: dict[str, bytes | None] = {}
        if self._dirty:
            newest = max(self._dirty)
            # What the frontier covers and no page has counts as done: no page before the newest may lack a message.
            late = [number for number, page in self._pages.items() if number < newest and page.is_behind]
            for number in sorted({*late, *self._dirty}):
                page = self._pages[number]
                page.is_stored = True
                page.is_behind = False
                changes[str(number)] = _encode([_stored(task) for task in page.tasks])
            last = self._pages[newest].tasks[-1].tick
            if last > self.frontier:
                self.frontier, self._is_head_dirty = last, True
            self._dirty = {}
        while len(self._complete) > _COMPLETE_KEPT:
            number = self._complete.popleft()
            for task in self._pages.pop(number).tasks:
                del self.tasks[task.tick]
            changes[str(number)] = None
            self._is_head_dirty = True
        if self._is_head_dirty:
            self._is_head_dirty = False
            changes[""] = self._head()
        return changes

    def names(self) -> list[str]:
        """The names of everything that was written, to delete it."""
        return ["", *(str(number) for number, page in self._pages.items() if page.is_stored)]

    def _head(self) -> bytes:
        terms = self.terms
        fields = (terms.name, terms.selector, terms.key, terms.work_ms, terms.deliveries_max)
        return _encode(_StoredHead(fields, self.client, self.frontier, self._last, self._dead, self.made))

    def check_invariants(self) -> None:
        """Fails if counts and pages do not agree."""
        on_pages = [task for number in sorted(self._pages) for task in self._pages[number].tasks]
        ticks = [task.tick for task in on_pages]
        assert ticks == sorted(set(ticks))
        assert {task.tick: task for task in on_pages} == self.tasks
        assert self.undone == sum(task.state is not State.DONE for task in on_pages)
        for number, page in self._pages.items():
            assert page.undone == sum(task.state is not State.DONE for task in page.tasks)
            assert all(task.page == number for task in page.tasks)
            assert (number in self._complete) <= (page.undone == 0)


def _stored(task: Task) -> _StoredTask:
    delay = (task.until_ms, task.delay_ms) if task.state is State.DELAYED else (0, 0)
    fields = (task.tick, task.attempts, task.failures, task.member, task.state, task.number, task.history)
    return _StoredTask(*fields, delay)
