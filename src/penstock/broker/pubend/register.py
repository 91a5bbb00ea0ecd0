"""The durable register of one pubend: the names of durable subscriptions, how far each is, and who owns it.

A durable subscription is nothing but its position at every pubend, kept here under its name, so it can come back at any
broker after any absence. Where clients prove who they are, it belongs to the client that made it. Its position holds
the log. Claims on a name carry ownership numbers: the highest has it, and what others say of its
position counts no more. Everything is durable before it is answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from penstock.broker.durable import SetValue
from penstock.protocol.status import DurableStatus

__all__ = ["MaySee", "Named", "Register", "decode_named"]

MaySee: TypeAlias = Callable[[str, str], bool]
"""Whether somebody may see a durable subscription: its name, and the client that made it."""

_PREFIX: Final = "durable"
_SHOWN_MAX: Final = 100
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Named:
    """One durable subscription at one pubend."""

    tick: int
    """Everything below it was acknowledged."""
    ownership: int
    host: str
    """Where its owner is."""
    client: str = ""
    """Who made it; empty if nobody had to prove a name then."""
    made_by: tuple[str, int] = field(default=("", 0), compare=False)
    """The host and the ticket of the question that made it, until the next restart."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """What is stored under a name: whoever made it is missing in what an earlier version stored."""

    tick: int
    ownership: int
    host: str
    client: str = ""


_decode: Final = msgspec.msgpack.Decoder(_Stored).decode


def decode_named(value: bytes) -> Named:
    """What is stored under a name; raises ``ValueError`` if these are not the bytes of one."""
    stored = _decode(value)
    return Named(stored.tick, stored.ownership, stored.host, stored.client)


class Register:
    """The durable subscriptions of one pubend."""

    def __init__(self, pubend: str, values: dict[str, bytes]) -> None:
        self._prefix = f"{_PREFIX}/{pubend}/"
        self._names: dict[str, Named] = {}
        self._made: Counter[str] = Counter()
        self._dirty: dict[str, None] = {}
        self.damaged = 0
        """Entries that could not be read when the broker started: their subscriptions begin anew."""
        for key, value in values.items():
            if key.startswith(self._prefix):
                try:
                    self._names[key.removeprefix(self._prefix)] = decode_named(value)
                except ValueError:
                    self.damaged += 1
        self._made.update(each.client for each in self._names.values())

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def get(self, name: str) -> Named | None:
        """What is known under a name."""
        return self._names.get(name)

    def names_of(self, client: str) -> int:
        """How many names a client has made that are kept."""
        return self._made[client]

    def claim(self, name: str, ownership: int, host: str, tick: int, client: str = "") -> SetValue:
        """Gives a name to an owner, who begins at a tick if the name is new; what must become durable.

        A name stays with the client that made it, also while another one uses it that may.
        """
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = Named(tick, ownership, host)
            self._made[""] += 1
        known.ownership, known.host = ownership, host
        if client and not known.client:
            self._made.subtract([known.client])
            self._made.update([client])
            known.client = client
        self._dirty.pop(name, None)
        return self._change(name, known)

    def move(self, name: str, ownership: int, host: str, tick: int) -> bool:
        """A position as reported; False if it came from somebody who does not own the name (any more).

        With a higher number, too: who has claimed the name is its owner when that has come here, and not before.
        """
        known = self._names.get(name)
        if known is None or (known.ownership, known.host) != (ownership, host):
            return False
        if tick > known.tick:
            known.tick = tick
            self._dirty[name] = None
        return True

    def forget(self, name: str) -> SetValue | None:
        """Frees a name and what it held; None if nobody knows it."""
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
        """The positions that have moved since they were last made durable."""
        dirty, self._dirty = self._dirty, {}
        return [self._change(name, self._names[name]) for name in dirty]

    def status(self, may_see: MaySee | None = None) -> dict[str, DurableStatus]:
        """Figures by name, of those that may be seen: of those furthest behind, if there are many."""
        seen = [(name, each) for name, each in self._names.items() if may_see is None or may_see(name, each.client)]
        furthest = sorted(seen, key=lambda each: each[1].tick)[:_SHOWN_MAX]
        return {name: DurableStatus(each.tick, each.host, each.client) for name, each in furthest}

    def _change(self, name: str, named: Named) -> SetValue:
        return SetValue(self._prefix + name, _encode((named.tick, named.ownership, named.host, named.client)))
