"""Receipts that are owed: each is due once what its frame asked for has been done for good.

They are kept by whom they depend on, in the order in which they were asked for, so that a look at the first of each
tells which are due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.protocol.stomp import StompError

__all__ = ["BrokenPromiseError", "IsKept", "Promises"]

_RECEIPT_BYTES: Final = 64
"""What a receipt takes besides its text."""
_ACK_BYTES: Final = 512
"""The same of one for an ACK, which knows its messages."""
IsKept: TypeAlias = Callable[[], bool]
"""Whether something has been done for good; raises ``StompError`` if it never will be."""


class BrokenPromiseError(StompError):
    """What a frame of the client asked for will never be done."""

    def __init__(self, reason: str, header: str, receipt: str) -> None:
        super().__init__(reason, header)
        self.receipt = receipt
        """The receipt that the frame asked for; empty if it did not."""


@dataclass(slots=True, frozen=True)
class _Promise:
    receipt: str
    """Empty if nobody asked for one."""
    is_kept: IsKept
    place: int
    headers: Callable[[], Mapping[str, str]]
    is_ack: bool


class Promises:
    """The receipts that one client waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_Promise]] = {}
        self._failing: str = ""
        self.size = 0
        """About how much memory the receipts take, but those for ACKs."""
        self.acks_size = 0
        """The same of those for ACKs, which may have to wait for another ACK."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def failing(self) -> str:
        """The receipt that belongs to the error that ``take_kept`` has just raised; empty if none does."""
        return self._failing

    def add(
        self,
        key: str,
        receipt: str,
        is_kept: IsKept,
        *,
        place: int = 0,
        headers: Callable[[], Mapping[str, str]] = dict,
        is_ack: bool = False,
    ) -> None:
        """Promise something, with a receipt unless that is empty; the key says on whom it depends.

        By its place it can be found among those that depend on the same. The headers are what the receipt says besides.
        """
        self._waiting.setdefault(key, deque()).append(_Promise(receipt, is_kept, place, headers, is_ack))
        self._grow(receipt, is_ack=is_ack, sign=1)

    def _grow(self, receipt: str, *, is_ack: bool, sign: int) -> None:
        if is_ack:
            self.acks_size += sign * (len(receipt) + _ACK_BYTES)
        else:
            self.size += sign * (len(receipt) + _RECEIPT_BYTES)

    def receipt_of(self, key: str, place: int = 0) -> str:
        """The receipt that was promised for a place, the first one if there are several; empty if none was."""
        return next((each.receipt for each in self._waiting.get(key, ()) if each.place == place), "")

    def take_kept(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield the receipts that are due now, one by one, with their headers: those before an error have been said."""
        for key in list(self._waiting):
            waiting = self._waiting[key]
            while waiting:
                first = waiting[0]
                self._failing = first.receipt
                if not first.is_kept():
                    break
                waiting.popleft()
                self._grow(first.receipt, is_ack=first.is_ack, sign=-1)
                if first.receipt:
                    yield first.receipt, first.headers()
            if not waiting:
                del self._waiting[key]
        self._failing = ""
