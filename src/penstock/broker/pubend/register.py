"""The durable register of one pubend: the names of durable subscriptions, their positions, and who owns them.

A durable subscription is nothing but its position at every pubend, and the messages after it that were acknowledged one
by one, kept here under its name: so it can come back at any broker after any absence. Where clients authenticate, it
belongs to the client that created it. Its position holds the log. Claims on a name carry ownership numbers: the highest
owns it, and what others report no longer counts. Everything is durable before it is answered. A name whose stored entry
is damaged stays, and holds the whole log: its subscriber must hear of it, and not begin as if the name were new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final, TypeAlias

import msgspec

from penstock.broker.durable import SetValue
from penstock.model.limits import SETTLED_MAX
from penstock.protocol.status import DurableStatus

__all__ = ["MaySee", "Named", "Register", "decode_named"]

MaySee: TypeAlias = Callable[[str, str], bool]
"""Whether somebody may see a durable subscription, given its name and the client that created it."""

_PREFIX: Final = "durable"
_SHOWN_MAX: Final = 100
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Named:
    """One durable subscription at one pubend."""

    tick: int
    """The tick below which everything was acknowledged."""
    ownership: int
    host: str
    """The host where its owner is connected."""
    client: str = ""
    """The client that created it; empty if clients did not have to authenticate then."""
    made_by: tuple[str, int] = field(default=("", 0), compare=False)
    """The host and ticket of the request that created it, until the next restart."""
    selector: str = ""
    """What it last wanted, for people to read; empty if that is not known."""
    heard_ms: int = field(default=-1, compare=False)
    """When a host last spoke of it; -1 if none did since the start."""
    settled: list[int] = field(default_factory=list)
    """The ticks at or above the position that were acknowledged one by one, ascending; at most ``SETTLED_MAX``."""
    is_damaged: bool = False
    """Whether its stored entry was damaged: where it was is unknown until somebody claims it again."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """An entry as stored; those of earlier versions lack the client, the selector, or the settled ticks."""

    tick: int
    ownership: int
    host: str
    client: str = ""
    selector: str = ""
    settled: tuple[int, ...] = ()


_decode: Final = msgspec.msgpack.Decoder(_Stored).decode


def decode_named(value: bytes) -> Named:
    """Decodes a stored entry; raises ``ValueError`` if these are not the bytes of one."""
    stored = _decode(value)
    return Named(
        stored.tick,
        stored.ownership,
        stored.host,
        stored.client,
        selector=stored.selector,
        settled=sorted(set(stored.settled))[:SETTLED_MAX],
    )


class Register:
    """The durable subscriptions of one pubend."""

    def __init__(self, pubend: str, values: dict[str, bytes]) -> None:
        self._prefix = f"{_PREFIX}/{pubend}/"
        self._names: dict[str, Named] = {}
        self._made: Counter[str] = Counter()
        self._dirty: dict[str, None] = {}
        for key, value in values.items():
            if key.startswith(self._prefix):
                try:
                    named = decode_named(value)
                except ValueError:
                    named = Named(tick=0, ownership=0, host="", is_damaged=True)
                self._names[key.removeprefix(self._prefix)] = named
        self._made.update(each.client for each in self._names.values())

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def get(self, name: str) -> Named | None:
        """The entry of a name, if there is one."""
        return self._names.get(name)

    def names_of(self, client: str) -> int:
        """How many of the kept names a client has created."""
        return self._made[client]

    def claim(self, name: str, ownership: int, host: str, tick: int, client: str = "", selector: str = "") -> SetValue:
        """Gives a name to an owner, at this tick if the name is new; returns what must become durable.

        The name keeps belonging to the client that created it, even while another permitted client uses it.
        """
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = Named(tick, ownership, host)
            self._made[""] += 1
        if known.is_damaged:
            known.tick, known.is_damaged = tick, False
        known.ownership, known.host = ownership, host
        known.selector = selector
        if client and not known.client:
            self._made.subtract([known.client])
            self._made.update([client])
            known.client = client
        self._dirty.pop(name, None)
        return self._change(name, known)

    def move(self, name: str, ownership: int, host: str, tick: int) -> bool:
        """Takes a reported position; returns False if the reporter does not own the name (any more).

        Also with a higher number: a claimant owns the name when its claim has arrived here, and not before.
        """
        known = self._names.get(name)
        if known is not None and known.is_damaged:
            # Only a host to which the name was given reports positions. If it has lost the name since, the owner is
            # told that somebody has it, and claims it again.
            known.tick = tick
            known.ownership = ownership
            known.host = host
            known.is_damaged = False
            self._dirty[name] = None
            return True
        if known is None or (known.ownership, known.host) != (ownership, host):
            return False
        if tick > known.tick:
            known.tick = tick
            del known.settled[: bisect_left(known.settled, tick)]
            self._dirty[name] = None
        return True

    def settle(self, name: str, ticks: Iterable[int]) -> tuple[int, ...]:
        """Takes single messages that the owner of a name has acknowledged; returns those that are kept.

        Those below the position count anyway. At the bound no more are taken, until the position moves.
        """
        known = self._names[name]
        kept: list[int] = []
        for tick in ticks:
            place = bisect_left(known.settled, tick)
            is_known = place < len(known.settled) and known.settled[place] == tick
            if tick < known.tick or (not is_known and len(known.settled) >= SETTLED_MAX):
                continue
            if not is_known:
                known.settled.insert(place, tick)
                self._dirty[name] = None
            kept.append(tick)
        return tuple(kept)

    def forget(self, name: str) -> SetValue | None:
        """Deletes a name and releases what it held; None if the name is unknown."""
        known = self._names.pop(name, None)
        if known is None:
            return None
        self._made.subtract([known.client])
        if not self._made[known.client]:
            del self._made[known.client]
        self._dirty.pop(name, None)
        return SetValue(self._prefix + name, None)

    def lowest(self) -> tuple[str, int] | None:
        """The name that is furthest behind, and its tick."""
        found = min(self._names.items(), key=lambda each: each[1].tick, default=None)
        return None if found is None else (found[0], found[1].tick)

    def take_changes(self) -> list[SetValue]:
        """Returns the positions that have moved since they were last made durable."""
        dirty, self._dirty = self._dirty, {}
        return [self._change(name, self._names[name]) for name in dirty]

    def listed(self, after: str, count_max: int, may_see: MaySee) -> list[tuple[str, Named]]:
        """The next names in alphabetical order that may be seen, up to a maximum, with their entries."""
        later = ((name, each) for name, each in self._names.items() if name > after and may_see(name, each.client))
        return nsmallest(count_max, later, key=lambda each: each[0])

    def status(self, may_see: MaySee | None = None) -> dict[str, DurableStatus]:
        """Figures by name, of the subscriptions that may be seen: those furthest behind, if there are many."""
        seen = [(name, each) for name, each in self._names.items() if may_see is None or may_see(name, each.client)]
        furthest = sorted(seen, key=lambda each: each[1].tick)[:_SHOWN_MAX]
        return {name: DurableStatus(each.tick, each.host, each.client, len(each.settled)) for name, each in furthest}

    def _change(self, name: str, named: Named) -> SetValue:
        owner = (named.ownership, named.host)
        return SetValue(self._prefix + name, _encode((named.tick, *owner, named.client, named.selector, named.settled)))

    def check_invariants(self) -> None:
        """Fails if what was acknowledged one by one is not in order, or too much."""
        for named in self._names.values():
            assert len(named.settled) <= SETTLED_MAX
            assert named.settled == sorted(set(named.settled))
            assert not named.settled or named.settled[0] >= named.tick
