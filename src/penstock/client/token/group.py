"""Membership of a program in a group with a wandering token: waits for its turns, and counts ([Token] section 3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random, SystemRandom
from types import TracebackType
from typing import Any, Final, Self

from msgspec import to_builtins

from penstock.client.token.carrier import Alone, Carrier, checked_name
from penstock.client.token.durations import duration_ms
from penstock.model.errors import MisuseError
from penstock.session.errors import ClientClosedError
from penstock.system.clock import Clock
from penstock.system.forking import tell_after_fork
from penstock.system.logs import log
from penstock.token.member import Enabled, Member, Output, Send
from penstock.token.messages import TokenMessageError
from penstock.token.settings import SWIFT, Plan
from penstock.token.tokens import Fence

__all__ = ["TokenCounters", "TokenGroup"]

_RETRY_MS_MIN: Final = 40
"""How long to wait for answers of other members, at least."""


@dataclass(slots=True, frozen=True)
class TokenCounters:
    """Counters of what one member has done and seen so far."""

    operations: int
    """Turns that were used."""
    idle: int
    """Turns in which there was nothing to do."""
    overlaps: int
    """Surplus tokens seen while there was another one."""
    regenerations: int
    """Tokens created here because none had come for too long."""
    late: int
    """Operations that took longer than announced by ``about``."""
    malformed: int
    """Malformed messages."""


class TokenGroup:
    """Membership in one group; use it with ``async with``, or ``open`` and ``close``.

    ``every`` is the minimum time between two turns of a member, ``about`` how long an operation takes. If the
    operations of all members together take longer than ``every`` (``k_load`` above 1), turns become rarer by
    themselves. A token is passed to any other member; with a ``view``, to one of ``view`` · log2 N random members.
    """

    def __init__(
        self,
        group: str,
        *,
        every: str | float,
        about: str | float,
        carrier: Carrier | None = None,
        variant: str = SWIFT,
        view: float | None = None,
        rng: Random | None = None,
    ) -> None:
        self.group = checked_name(group, "group")
        self._carrier: Carrier = carrier or Alone()
        self._plan = Plan(duration_ms(about, "about"), duration_ms(every, "every"), variant=variant)
        if view is not None and not 0 < view <= 1_000:
            raise MisuseError(f"view is {view}, must be above 0 and at most 1000 times log2 N")
        self._view = view
        self._rng = rng
        self._clock = Clock()
        self._member: Member | None = None
        self._waiting: deque[asyncio.Future[Fence]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._idle = self._malformed = 0
        tell_after_fork(self)

    # --- joining and leaving

    async def open(self) -> Self:
        """Join the group."""
        if self._member is not None:
            raise MisuseError(f"already a member of group {self.group}")
        now_ms = self._clock.now_ms()
        retry_ms = max(self._plan.constants(1).skip_ms // 2, _RETRY_MS_MIN)
        self._member = Member(
            self._carrier.name,
            self._plan,
            life=now_ms,
            # Seeded only here: copies of a group made before a fork must not make the same random choices.
            rng=self._rng or Random(SystemRandom().randrange(2**63)),
            now_ms=now_ms,
            retry_ms=retry_ms,
            factor=self._view,
        )
        try:
            await self._carrier.open(self.group, self)
        except BaseException:
            self._member = None
            raise
        self._arm()
        return self

    async def close(self) -> None:
        """Leave the group; callers that still wait for a turn get a ``ClientClosedError``."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ClientClosedError(f"left group {self.group} before its turn came"))
        self._waiting.clear()
        if self._member is not None:
            await self._carrier.close()
            self._member = None

    def on_forked(self) -> None:
        """In a forked child, stop being a member: the parent is."""
        self._member = self._timer = None
        self._waiting.clear()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- turns

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Fence, None]:
        """Wait until it is this member's turn; the body of ``async with`` is the operation.

        ::

            async with group.turn() as fence:
                await copy_everything(fence)
        """
        fence = await self._enabled()
        try:
            yield fence
        finally:
            self._done(fence)

    @property
    def is_open(self) -> bool:
        """Whether this program is a member now."""
        return self._member is not None

    @property
    def counters(self) -> TokenCounters:
        """Counters of what this member has done and seen so far."""
        counts = self._joined().counts
        return TokenCounters(
            counts["operations"] - self._idle,
            self._idle,
            counts["overlaps"],
            counts["regenerations"],
            counts["overruns"],
            self._malformed,
        )

    def status(self) -> dict[str, Any]:
        """All figures of the membership: constants, load, counters."""
        return {"group": self.group, "member": self._carrier.name, **to_builtins(self._joined().status())}

    # --- from the carrier

    def on_message(self, sender: str, payload: bytes) -> None:
        """A member has sent a message."""
        if self._member is None:
            return
        try:
            self._carry_out(self._member.on_message(sender, payload, now_ms=self._clock.now_ms()))
        except TokenMessageError as error:
            self._malformed += 1
            log("malformed", (("group", self.group), ("sender", sender), ("reason", str(error))))

    def on_members(self, members: Sequence[str]) -> None:
        """The group has these members now."""
        if self._member is not None:
            self._carry_out(self._member.set_members(members, now_ms=self._clock.now_ms()))

    # --- inside

    def _joined(self) -> Member:
        if self._member is None:
            raise ClientClosedError(f"not a member of group {self.group}: open it first")
        return self._member

    async def _enabled(self) -> Fence:
        self._joined()
        waiting: asyncio.Future[Fence] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(waiting)
            if waiting.done() and not waiting.cancelled():
                # The turn came just when nobody wanted it any more.
                self._done(waiting.result())
            raise

    def _done(self, fence: Fence) -> None:
        if self._member is not None:
            self._carry_out(self._member.done(fence, now_ms=self._clock.now_ms()))

    def _carry_out(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self._carrier.send(output.to, output.payload)
            elif isinstance(output, Enabled):
                self._hand_over(output.fence)
            else:
                log(output.event, (("group", self.group), ("own", self._carrier.name), *output.fields))
        self._arm()

    def _hand_over(self, fence: Fence) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(fence)
                return
        self._idle += 1
        # Later, not from within the member's own call.
        asyncio.get_running_loop().call_soon(self._done, fence)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._member.next_deadline() if self._member is not None else None
        if due_ms is not None:
            delay_s = max(due_ms - self._clock.now_ms(), 0) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._member is not None:
            self._carry_out(self._member.on_deadline(now_ms=self._clock.now_ms()))
