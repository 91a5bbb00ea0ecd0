"""Who asked for what, from which tick, and how far they acknowledged: the other half of an audit (docs/lake.md).

A subscription may have been attached several times, at several brokers. It should have received the messages that all
its selectors match, from its first tick on, and none that match no selector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from penstock.matching import MatchIndex
from penstock.model.values import AttributeValue
from penstock.pipeline.trace.facts import newest, time_ms
from penstock.selectors import Selector

__all__ = ["Attached", "Audited", "Subscribers", "gather_subscribers", "read_values"]

Row: TypeAlias = Mapping[str, Any]

_INTEGER: Final = re.compile(r"-?\d{1,400}")
_NUMBER: Final = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)")
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(slots=True, frozen=True)
class Attached:
    """One attachment of a subscription."""

    broker: str
    began_ms: int
    selector: int | None
    """Index of its selector; None if the selector was not recorded."""
    starts: Mapping[str, int]
    ended_ms: int | None = None
    """When it was detached; None if unknown."""

    def start(self, pubend: str, slack_ms: int) -> int:
        """The first tick to be received from a pubend; if not recorded, derived from the time the attachment began."""
        return self.starts.get(pubend, (self.began_ms + slack_ms) << 16)

    def may_have_had(self, pubend: str, tick: int, published_ms: int, slack_ms: int) -> bool:
        """Whether it may have received a message: it began before the message, and had not ended at publication.

        The end is compared by clock: after a crash, ticks run ahead of time.
        """
        is_over = self.ended_ms is not None and published_ms > self.ended_ms + slack_ms
        return not is_over and self.start(pubend, -slack_ms) <= tick


@dataclass(slots=True)
class Audited:
    """A subscriber: a durable subscription, or a client with non-durable ones."""

    name: str
    is_durable: bool = False
    attached: list[Attached] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=dict)
    """By pubend, the tick below which everything is acknowledged."""

    def is_due(self, pubend: str, tick: int, slack_ms: int) -> bool:
        """Whether its interest had begun by this tick."""
        return any(each.start(pubend, slack_ms) <= tick for each in self.attached)

    def deliveries_max(self, pubend: str, tick: int, published_ms: int, slack_ms: int) -> int:
        """How often it may have received a message: once per attachment that covers it."""
        return sum(each.may_have_had(pubend, tick, published_ms, slack_ms) for each in self.attached)

    def hosts(self) -> set[str]:
        """The brokers it was attached to."""
        return {each.broker for each in self.attached}


@dataclass
class Subscribers:
    """All subscribers of a lake, with an index of their selectors."""

    by_name: dict[str, Audited]
    selectors: tuple[str, ...]
    text_names: frozenset[str] = frozenset()
    """Attributes that are always text, whatever they look like."""
    slack_ms: int = 0

    @cached_property
    def _index(self) -> MatchIndex:
        index = MatchIndex()
        for number, text in enumerate(self.selectors):
            index.add(number, Selector.parse(text))
        return index

    def matching(self, attributes: Mapping[str, str | None]) -> frozenset[int]:
        """Indexes of the selectors that match."""
        values = read_values(attributes, self.text_names)
        return frozenset(int(each) for each in self._index.find(values).ids())

    def durable(self) -> list[Audited]:
        """The durable subscriptions, sorted by name."""
        return [each for _, each in sorted(self.by_name.items()) if each.is_durable]

    def __getstate__(self) -> dict[str, Any]:
        # The index is rebuilt where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "_index"}


def gather_subscribers(
    subscriptions: Iterable[Row], positions: Iterable[Row], *, slack_ms: int, text_names: Iterable[str] = ()
) -> Subscribers:
    """Build the subscribers from rows of ``subscriptions`` and ``positions``."""
    places: dict[str, int] = {}
    by_name: dict[str, Audited] = {}
    rows = newest(subscriptions, ("broker", "number"))
    for row in sorted(rows, key=lambda row: (time_ms(row["began_at"]), row["broker"], row["number"])):
        each = by_name.setdefault(row["subscriber"], Audited(row["subscriber"]))
        each.is_durable |= bool(row["is_durable"])
        text = row["selector"]
        place = None if text is None else places.setdefault(text, len(places))
        ended_at = row.get("ended_at")
        ended_ms = None if ended_at is None else time_ms(ended_at)
        began_ms, starts = time_ms(row["began_at"]), dict(row["starts"] or {})
        each.attached.append(Attached(row["broker"], began_ms, place, starts, ended_ms))
    for row in newest(positions, ("pubend", "subscription")):
        if row["subscription"] in by_name and not row["is_forgotten"]:
            by_name[row["subscription"]].acknowledged[row["pubend"]] = row["acknowledged"]
    return Subscribers(by_name, tuple(places), frozenset(text_names), slack_ms)


def read_values(
    attributes: Mapping[str, str | None], text_names: frozenset[str] = frozenset()
) -> dict[str, AttributeValue]:
    """Parse the archive's attributes, which are stored as text: whatever looks like a number or a boolean becomes one.

    >>> read_values({"a": "5", "b": "5.0", "c": "true", "d": "x", "e": "7"}, frozenset({"e"}))
    {'a': 5, 'b': 5.0, 'c': True, 'd': 'x', 'e': '7'}
    """
    return {name: text if name in text_names else _value(text) for name, text in attributes.items()}


def _value(text: str | None) -> AttributeValue:
    if text is None or text in _TRUTHS:
        return _TRUTHS.get(text) if text is not None else None
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
