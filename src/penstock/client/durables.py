"""Lists the durable subscriptions of an overlay: each pubend is asked for the names that it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.protocol.frames import DurableEntry, DurablesReply, DurablesRequest, Frame
from penstock.session.changes import Reply

__all__ = ["DurableAt", "Durables", "durables"]

_AGAIN_MS: Final = 1_000
"""How long to wait before asking again: the answer may have got lost on its way."""
_ANSWER_S: Final = 5.0
"""A pubend that has not answered within this time counts as out of reach."""

Ask: TypeAlias = Callable[[Callable[[int], Frame], int], Awaitable[Reply]]
"""Asks the broker, and asks again at this interval in milliseconds until there is an answer."""


@dataclass(slots=True, frozen=True)
class DurableAt:
    """A durable subscription, or a group, at one pubend."""

    owner: str
    """The client that created it; empty if clients did not have to authenticate."""
    broker: str
    """The broker where it is in use, or was last."""
    away_ms: int | None
    """How long nobody has used it; None if somebody does, -1 if not since the pubend's broker started."""
    position: int
    """The tick below which everything is acknowledged."""
    behind_ms: int
    """Time from its position to where the pubend is."""
    messages: int
    """Messages in the log from its position on, whether its selector wants them or not."""
    is_exact: bool
    """Whether that number is exact; otherwise it is estimated from the size of the log."""
    log_bytes: int
    """About how much of the log is kept from its position on."""
    selector: str
    """What it last wanted; cut if it is long, and empty if the pubend does not know."""
    members: int | None = None
    """How many members it has, if it is a group that shares messages."""
    settled: int = 0
    """How many messages from its position on are acknowledged one by one."""


@dataclass(slots=True)
class Durables:
    """The durable subscriptions that a client may see."""

    names: dict[str, dict[str, DurableAt]] = field(default_factory=dict)
    """By name, then by pubend."""
    unreachable: tuple[str, ...] = ()
    """Pubends that did not answer: they may keep more names."""


async def durables(ask: Ask, pubends: Sequence[str], durable: str = "", *, answer_s: float = _ANSWER_S) -> Durables:
    """Ask these pubends for all durable subscriptions, or for one."""
    found = Durables()
    unreachable: list[str] = []
    for pubend in pubends:
        try:
            async with asyncio.timeout(answer_s):
                for entry in await _kept_by(ask, pubend, durable):
                    found.names.setdefault(entry.name, {})[pubend] = _at(entry)
        except TimeoutError:
            unreachable.append(pubend)
    return Durables({name: found.names[name] for name in sorted(found.names)}, tuple(unreachable))


async def _kept_by(ask: Ask, pubend: str, durable: str) -> list[DurableEntry]:
    entries: list[DurableEntry] = []
    after = ""
    while True:
        reply = await ask(lambda number, after=after: DurablesRequest(number, pubend, after, durable), _AGAIN_MS)  # type: ignore[misc]
        assert isinstance(reply, DurablesReply), f"not an answer to this: {reply}"
        entries += reply.entries
        if not reply.is_more or not reply.entries:
            return entries
        after = reply.entries[-1].name


def _at(entry: DurableEntry) -> DurableAt:
    return DurableAt(
        entry.client,
        entry.host,
        entry.silent_ms if entry.is_away else None,
        entry.tick,
        entry.behind_ms,
        entry.messages,
        entry.is_exact,
        entry.log_bytes,
        entry.selector,
        entry.members if entry.members >= 0 else None,
        entry.settled,
    )
