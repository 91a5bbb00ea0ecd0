"""Tracks what may be acknowledged of a durable subscription: never more than the application is done with.

Automatically, that is everything that the application took out of the subscription, except what the last call
returned: it counts when the application comes back for more, or closes. So a program that dies gets again what it was
working on. Manually, it is what the application acknowledges: single messages, or everything up to one; and silence up
to the next message that it did not.

What was acknowledged is *kept* once the pubend has answered that it is durable. Positions are usually only reported,
and not answered. Single messages above the position, and whatever somebody waits for, are said in a ``Settle`` and
repeated until they are kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from heapq import nsmallest
from itertools import chain
from typing import Final, NamedTuple

from penstock.model.errors import MisuseError
from penstock.model.limits import SETTLED_MAX
from penstock.session.positions import first_unread
from penstock.session.received import Received

__all__ = ["TICKS_MAX", "Receipts", "Settling"]

TICKS_MAX: Final = 65_536
"""How many ticks are kept of messages of one pubend that were taken, from the first one not acknowledged on."""
_AGAIN_MS: Final = 1_000
"""How long to wait for an answer before something is said again."""
_NEVER: Final = 2**62


class Settling(NamedTuple):
    """What a pubend is to keep."""

    pubend: str
    below: int
    """The tick below which everything is acknowledged."""
    ticks: tuple[int, ...]
    """Single messages that are acknowledged, at or above that tick."""


class Receipts:
    """The acknowledgements of one durable subscription.

    >>> receipts = Receipts(is_manual=True)
    >>> receipts.hold([Received("quotes", 6, b""), Received("quotes", 8, b"")])
    >>> receipts.positions({"quotes": 9}, [])
    {'quotes': 6}
    >>> receipts.acknowledge(Received("quotes", 8, b""))
    >>> receipts.positions({"quotes": 9}, [])
    {'quotes': 6}
    >>> receipts.settlings({"quotes": 0}, now_ms=0)
    [Settling(pubend='quotes', below=6, ticks=(8,))]
    >>> receipts.acknowledge_through(Received("quotes", 6, b""))
    >>> receipts.positions({"quotes": 9}, [])
    {'quotes': 9}
    """

    __slots__ = ("_said", "_settle_ms", "_taken", "acknowledged", "in_hand", "is_manual", "not_before_ms", "taken")

    def __init__(self, *, is_manual: bool) -> None:
        self.is_manual = is_manual
        self.in_hand: tuple[Received, ...] = ()
        """The messages that the application got last, and is working on."""
        self._taken: dict[str, _Taken] = {}
        self._said: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        """By pubend, the tick below which everything was acknowledged to a broker."""
        self.taken = 0
        """Messages that were taken or acknowledged since the broker was last told."""
        self.not_before_ms = 0
        """When to tell the broker again, at the earliest."""
        self._settle_ms = _NEVER
        """When to say what is to be kept, again if need be."""

    def hold(self, received: Iterable[Received]) -> None:
        """The application has taken these out."""
        held = tuple(received)
        if not self.is_manual:
            self.in_hand = held
            self.taken += len(held)
            return
        for each in held:
            if each.is_guaranteed:
                self._taken_of(each.pubend).take(each.tick)

    def settle(self) -> bool:
        """The application comes back for more; returns whether it had anything in hand."""
        had_some = bool(self.in_hand)
        self.in_hand = ()
        return had_some

    # What the application acknowledges.

    def acknowledge(self, message: Received) -> None:
        """The application is done with a message, whatever it is still doing with those before it."""
        self._check_manual()
        if message.is_guaranteed:
            taken = self._taken_of(message.pubend)
            self.taken += taken.acknowledge(message.pubend, message.tick)
            if taken.is_behind_awaited:
                self._settle_by(0)
            elif taken.has_fresh:
                self._settle_by(self.not_before_ms)

    def acknowledge_through(self, message: Received | None = None, *, waiting: Iterable[Received] = ()) -> None:
        """The application is done with everything up to a message, or with all it took except what waits elsewhere."""
        self._check_manual()
        if message is not None:
            if message.is_guaranteed:
                self._acknowledge_through(message.pubend, message.tick)
            return
        for pubend, end in self.ends(waiting).items():
            self._acknowledge_through(pubend, end - 1)

    def ends(self, waiting: Iterable[Received]) -> dict[str, int]:
        """By pubend, the tick below which the application took everything, except what waits elsewhere."""
        return first_unread({pubend: taken.last + 1 for pubend, taken in self._taken.items()}, waiting)

    def positions(self, arrived: dict[str, int], waiting: Iterable[Received]) -> dict[str, int]:
        """By pubend, the tick below which everything may be acknowledged."""
        unread = first_unread(arrived, chain(self.in_hand, waiting))
        for pubend, taken in self._taken.items():
            if pubend in unread and (tick := taken.first_open()) is not None:
                unread[pubend] = min(unread[pubend], tick)
        return unread

    def say(self, positions: dict[str, int], numbers: dict[str, int]) -> tuple[tuple[int, int], ...]:
        """The positions that have risen, by pubend number; from now on they count as told to the broker."""
        risen: list[tuple[int, int]] = []
        for pubend, tick in positions.items():
            if pubend in numbers and tick > self._said.get(pubend, 0):
                self._note_said(pubend, tick)
                risen.append((numbers[pubend], tick))
        self.taken = 0
        return tuple(risen)

    # What is to be kept.

    def wait_for(self, pubend: str, tick: int) -> None:
        """Somebody waits until a message is kept: the pubend is to be told at once."""
        self._taken_of(pubend).awaited[tick] += 1
        self._settle_by(0)

    def wait_no_more(self, pubend: str, tick: int) -> None:
        """Nobody waits any more who once did, by ``wait_for``."""
        self._taken_of(pubend).wait_no_more(tick)

    def is_kept(self, pubend: str, tick: int) -> bool:
        """Whether a pubend has answered that a message does not come again."""
        return self._taken_of(pubend).is_kept(tick)

    def unkept(self) -> list[tuple[str, int]]:
        """Pubends and ticks of messages that are acknowledged and not known to be kept.

        Not all of them: once these are kept, everything is that was acknowledged so far.
        """
        return [(pubend, tick) for pubend, taken in self._taken.items() for tick in taken.unkept()]

    def next_settling(self) -> int | None:
        """When to say what is to be kept."""
        return None if self._settle_ms == _NEVER else self._settle_ms

    def settlings(self, numbers: dict[str, int], *, now_ms: int) -> list[Settling]:
        """What to say now to the pubends that have numbers, one thing to each."""
        self._settle_ms = _NEVER
        settlings: list[Settling] = []
        for pubend, taken in self._taken.items():
            if pubend not in numbers:
                # When it gets one, ``wake`` is called.
                continue
            settling = taken.say(pubend, now_ms=now_ms)
            if settling is not None:
                self._note_said(pubend, settling.below)
                settlings.append(settling)
            self._settle_by(taken.again_ms)
        return settlings

    def on_settled(self, pubend: str, below: int, ticks: Iterable[int]) -> None:
        """A pubend has answered what it keeps."""
        taken = self._taken.get(pubend)
        if taken is not None:
            taken.on_settled(below, ticks)

    def wake(self) -> None:
        """The subscription is in force on a connection: what is not kept is to be said there."""
        if any(taken.has_fresh or taken.awaited for taken in self._taken.values()):
            self._settle_by(0)

    def on_disconnected(self) -> None:
        """What the broker was told may not have arrived, and is to be told again."""
        self._said = {}
        for taken in self._taken.values():
            taken.on_disconnected()
        self._settle_ms = _NEVER

    def _note_said(self, pubend: str, tick: int) -> None:
        self._said[pubend] = max(tick, self._said.get(pubend, 0))
        self.acknowledged[pubend] = max(tick, self.acknowledged.get(pubend, 0))

    def _settle_by(self, due_ms: int) -> None:
        self._settle_ms = min(self._settle_ms, due_ms)

    def _check_manual(self) -> None:
        if not self.is_manual:
            raise MisuseError("this subscription is not acknowledged manually")

    def _acknowledge_through(self, pubend: str, tick: int) -> None:
        taken = self._taken_of(pubend)
        if tick > taken.last:
            raise MisuseError(f"tick {tick} of pubend {pubend} was not read from this subscription")
        self.taken += taken.acknowledge_through(tick)
        if taken.is_behind_awaited:
            self._settle_by(0)

    def _taken_of(self, pubend: str) -> _Taken:
        taken = self._taken.get(pubend)
        if taken is None:
            taken = self._taken[pubend] = _Taken()
        return taken


class _Taken:
    """The messages of one pubend that the application took, from the first one on that it has not acknowledged.

    If the application takes very many, only the ticks of the first ones are kept. Once those are acknowledged, the
    position stays just after the last one acknowledged, until all are.
    """

    __slots__ = (
        "_acknowledged",
        "_below_said",
        "_fresh",
        "_has_more",
        "_kept",
        "_kept_below",
        "_open",
        "_said",
        "_ticks",
        "again_ms",
        "awaited",
        "last",
    )

    def __init__(self) -> None:
        self._ticks: deque[int] = deque()
        """Those taken, from the first open one on."""
        self._open: set[int] = set()
        """Those of them that are not acknowledged."""
        self._fresh: dict[int, None] = {}
        """Those acknowledged that the pubend has to be told of."""
        self._said: dict[int, None] = {}
        """Those acknowledged that it was told of and has not answered."""
        self._kept: set[int] = set()
        """Those acknowledged that it keeps."""
        self._kept_below = 0
        """The position that it keeps."""
        self._below_said = 0
        """The position that it was told on this connection, to be answered."""
        self._has_more = False
        self._acknowledged = 0
        self.awaited: Counter[int] = Counter()
        """How many wait for a message to be kept."""
        self.again_ms = _NEVER
        """When to repeat what was said and is not answered."""
        self.last = -1

    def take(self, tick: int) -> None:
        self.last = max(self.last, tick)
        self._has_more = self._has_more or len(self._ticks) >= TICKS_MAX
        if not self._has_more:
            self._ticks.append(tick)
            self._open.add(tick)

    def acknowledge(self, pubend: str, tick: int) -> int:
        """A single message is done; returns how many open messages that settles."""
        if tick in self._open:
            self._open.remove(tick)
            self._fresh[tick] = None
            self._advance()
            return 1
        if not self._is_done(tick):
            if self._has_more and self.last >= tick >= self._end:
                raise MisuseError(
                    f"tick {tick} of pubend {pubend} is not known any more, as more than {TICKS_MAX:,} messages were "
                    "read after one that is not acknowledged: use acknowledge_through"
                )
            raise MisuseError(f"tick {tick} of pubend {pubend} was not read from this subscription")
        return 0

    def acknowledge_through(self, tick: int) -> int:
        """Everything up to a tick is done; returns how many open messages with known ticks that settles."""
        before = len(self._open)
        for each in self._ticks:
            if each > tick:
                break
            self._open.discard(each)
        self._acknowledged = max(self._acknowledged, tick + 1)
        self._has_more = self._has_more and tick < self.last
        self._advance()
        return before - len(self._open)

    def first_open(self) -> int | None:
        """The first tick that must not be acknowledged; None if everything taken may be."""
        if self._ticks:
            return self._ticks[0]
        return self._acknowledged if self._has_more else None

    @property
    def has_fresh(self) -> bool:
        """Whether the pubend has to be told of messages that are done, and that its position does not cover."""
        return bool(self._fresh)

    @property
    def is_behind_awaited(self) -> bool:
        """Whether somebody waits for messages that the position covers, and the pubend was not told that it does."""
        if not self.awaited:
            return False
        end, said = self._below, max(self._below_said, self._kept_below)
        return any(said <= tick < end and tick not in self._kept for tick in self.awaited)

    def is_kept(self, tick: int) -> bool:
        return tick < self._kept_below or tick in self._kept

    def unkept(self) -> list[int]:
        below = [self._acknowledged - 1] if self._acknowledged > self._kept_below else []
        return [*below, *self._fresh, *self._said]

    def wait_no_more(self, tick: int) -> None:
        self.awaited[tick] -= 1
        if not self.awaited[tick]:
            del self.awaited[tick]
            if tick < self._below:
                self._kept.discard(tick)

    def say(self, pubend: str, *, now_ms: int) -> Settling | None:
        """What to say to the pubend now, if anything: the first ones, if there are very many."""
        if now_ms >= self.again_ms:
            self.on_disconnected()
        ticks = nsmallest(SETTLED_MAX, self._fresh) if len(self._fresh) > SETTLED_MAX else sorted(self._fresh)
        if not ticks and not self.is_behind_awaited:
            return None
        for tick in ticks:
            del self._fresh[tick]
            self._said[tick] = None
        self._below_said = self._below
        self.again_ms = now_ms + _AGAIN_MS
        return Settling(pubend, self._below, tuple(ticks))

    def on_settled(self, below: int, ticks: Iterable[int]) -> None:
        """The pubend has answered what it keeps."""
        self._kept_below = max(self._kept_below, min(below, self.last + 1))
        for tick in ticks:
            if tick in self._said or tick in self._fresh:
                self._said.pop(tick, None)
                self._fresh.pop(tick, None)
                self._kept.add(tick)
        if not self._said and not self._fresh and all(map(self.is_kept, self.awaited)):
            self.again_ms = _NEVER

    def on_disconnected(self) -> None:
        """What was said and not answered is to be said again."""
        self._fresh |= self._said
        self._said = {}
        self._below_said, self.again_ms = 0, _NEVER

    @property
    def _below(self) -> int:
        first = self.first_open()
        return self.last + 1 if first is None else first

    @property
    def _end(self) -> int:
        """The tick up to which the ticks of messages are known."""
        return self._ticks[-1] + 1 if self._ticks else self._acknowledged

    def _is_done(self, tick: int) -> bool:
        """Whether a message that is not open was acknowledged before, as far as that is known."""
        return tick < self._below or tick in self._fresh or tick in self._said or tick in self._kept

    def _advance(self) -> None:
        """Drops what the position covers."""
        while self._ticks and self._ticks[0] not in self._open:
            tick = self._ticks.popleft()
            self._acknowledged = max(self._acknowledged, tick + 1)
            self._fresh.pop(tick, None)
            self._said.pop(tick, None)
            if tick not in self.awaited:
                self._kept.discard(tick)
