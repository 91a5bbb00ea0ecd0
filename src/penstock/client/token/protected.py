"""``@protected``: an asynchronous function that runs about one at a time in a whole group of programs."""

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
    """The fencing number of the operation that this task is in; None outside of any."""
    return _fence.get()


def protected(
    *, every: str | float, about: str | float, group: str = "", via: Carrier | None = None, variant: str = SWIFT
) -> Callable[[Callable[_Given, Awaitable[_Result]]], Protected[_Given, _Result]]:
    """Makes an asynchronous function wait for its turn, about once every so often, about so long.

    Without a carrier (``via``) its member is alone until ``join`` names one. The group is named after the function if
    nothing is said.

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
        self._function, self._make, self._carrier = function, make, carrier
        # Made at once, so that a wrong duration shows where it was written.
        self.group = make(carrier)
        """Its membership."""
        self._opening: asyncio.Lock | None = None
        update_wrapper(self, function)

    def join(self, carrier: Carrier) -> None:
        """Be a member of the group that this carrier leads to, from the next call on."""
        if self.group.is_open:
            raise MisuseError(f"a member of group {self.group.group} already; close it before it joins elsewhere")
        self._carrier = carrier
        self.group = self._make(carrier)

    async def __call__(self, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        """Run it once, at the next turn."""
        await self.open()
        async with self.group.turn() as fence:
            token = _fence.set(fence)
            try:
                return await self._function(*args, **kwargs)
            finally:
                _fence.reset(token)

    async def run(self, *args: _Given.args, **kwargs: _Given.kwargs) -> None:
        """Run it at every turn, until this is cancelled."""
        while True:
            await self(*args, **kwargs)

    async def open(self) -> None:
        """Become a member, if it is none; the first call does so as well."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if not self.group.is_open:
                await self.group.open()

    async def close(self) -> None:
        """Be a member no more; the next call joins anew."""
        await self.group.close()
        self.group, self._opening = self._make(self._carrier), None

    @property
    def counters(self) -> TokenCounters:
        """What this member has done and seen so far."""
        return self.group.counters

    def status(self) -> dict[str, Any]:
        """All figures of its membership."""
        return self.group.status()
