"""``@protected`` makes an asynchronous function run about one at a time in a whole group of programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Final, Generic, ParamSpec, TypeVar

from penstock.client.token.carrier import Carrier
from penstock.client.token.group import TokenCounters, TokenGroup
from penstock.model.errors import MisuseError
from penstock.token.settings import SWIFT
from penstock.token.tokens import Fence

__all__ = ["Protected", "current_fence", "protected"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_fence: Final[ContextVar[Fence | None]] = ContextVar("penstock_fence", default=None)


def current_fence() -> Fence | None:
    """The fencing number of the operation that the current task is in; None outside of operations."""
    return _fence.get()


def protected(
    *, every: str | float, about: str | float, group: str = "", via: Carrier | None = None, variant: str = SWIFT
) -> Callable[[Callable[_Given, Awaitable[_Result]]], Protected[_Given, _Result]]:
    """Makes an asynchronous function wait for its turn; ``every`` and ``about`` are those of ``TokenGroup``.

    Without a carrier (``via``) the member is alone until ``join`` gives it one. Without a ``group`` name, the group is
    named after the function.

    ::

        @protected(every="10 min", about="4 s")
        async def backup() -> None: ...

        async with penstock.connect("penstock://127.0.0.1:7000") as client:
            backup.join(ThroughOverlay(client))
            await backup()          # once, at the next turn
            await backup.run()      # at every turn, for ever
    """

    def decorate(function: Callable[_Given, Awaitable[_Result]]) -> Protected[_Given, _Result]:
        name = group or getattr(function, "__name__", "protected")
        return Protected(function, lambda carrier: _group(name, carrier), via)

    def _group(name: str, carrier: Carrier | None) -> TokenGroup:
        return TokenGroup(name, every=every, about=about, carrier=carrier, variant=variant)

    return decorate


class Protected(Generic[_Given, _Result]):
    """An asynchronous function that waits for its turn."""

    def __init__(
        self,
        function: Callable[_Given, Awaitable[_Result]],
        make: Callable[[Carrier | None], TokenGroup],
        carrier: Carrier | None,
    ) -> None:
        self._function = function
        self._make = make
        self._carrier = carrier
        # Made at once, so that a wrong duration fails where it was written.
        self.group = make(carrier)
        """The function's membership in its group."""
        self._opening: asyncio.Lock | None = None
        update_wrapper(self, function)

    def join(self, carrier: Carrier) -> None:
        """Join the group through this carrier, from the next call on."""
        if self.group.is_open:
            raise MisuseError(
                f"already a member of group {self.group.group}; close it before joining through another carrier"
            )
        self._carrier = carrier
        self.group = self._make(carrier)

    async def __call__(self, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        """Run the function once, at the next turn."""
        await self.open()
        async with self.group.turn() as fence:
            token = _fence.set(fence)
            try:
                return await self._function(*args, **kwargs)
            finally:
                _fence.reset(token)

    async def run(self, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
        """Run the function at every turn, until cancelled."""
        while True:
            await self(*args, **kwargs)

    async def open(self) -> None:
        """Join the group, unless already a member; the first call does so as well."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if not self.group.is_open:
                await self.group.open()

    async def close(self) -> None:
        """Leave the group; the next call joins again."""
        await self.group.close()
        self.group, self._opening = self._make(self._carrier), None

    @property
    def counters(self) -> TokenCounters:
        """Counters of what this member has done and seen so far."""
        return self.group.counters

    def status(self) -> dict[str, Any]:
        """All figures of the membership."""
        return self.group.status()
