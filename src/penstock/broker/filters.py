"""What the clients of every broker want, known to every broker: which brokers must get this message?

Each broker (a *host* of subscribers) sums up what its clients want in a covering set, numbers its changes, and floods
them. On each link the updates of all hosts are one ordered, acknowledged sequence; a neighbour that (re)appears gets
the filters whole. Filters belong to hosts and not to links, so a new route needs no new filters: only the question
which hosts lie behind which link is answered anew (decision record 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from penstock.broker.errors import ProtocolError
from penstock.broker.frames import FilterUpdate
from penstock.matching.covering_set import CoveringSet
from penstock.matching.index import LINKS_MAX, MatchIndex
from penstock.model.values import Attributes
from penstock.selectors.errors import SelectorError
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["Filters", "HostChange"]

_TEXTS_PER_UPDATE: Final = 1_000
"""Conjunctions in one frame; a larger change is sent in parts, and applied when it is complete."""
_INCARNATION_MAX: Final = 2**61
_CHARS_PER_UPDATE: Final = 32 * 1024
"""Characters in one frame: it is read in one turn, at some milliseconds per selector of 3 KB."""


@dataclass(slots=True)
class _Host:
    """What is known of one host's filter."""

    number: int
    incarnation: int
    version: int
    entries: dict[str, int] = field(default_factory=dict)
    """The entry of the index for each conjunction, by its text."""


@dataclass(slots=True, frozen=True)
class HostChange:
    """A change of one host's filter, not yet numbered for a link."""

    host: str
    incarnation: int
    version: int
    base: int
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def updates(self, sequence: int) -> list[FilterUpdate]:
        """The frames for one link, numbered from this sequence; versions below zero count the parts still to come."""
        parts = list(_in_parts([(text, True) for text in self.added] + [(text, False) for text in self.removed]))
        return [
            FilterUpdate(
                sequence=sequence + place,
                host=self.host,
                incarnation=self.incarnation,
                version=self.version if place == len(parts) - 1 else place + 1 - len(parts),
                base=self.base,
                added=tuple(text for text, is_new in part if is_new),
                removed=tuple(text for text, is_new in part if not is_new),
            )
            for place, part in enumerate(parts)
        ]


def _in_parts(texts: list[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
    part: list[tuple[str, bool]] = []
    chars = 0
    for each in texts:
        if part and (len(part) >= _TEXTS_PER_UPDATE or chars + len(each[0]) > _CHARS_PER_UPDATE):
            yield part
            part, chars = [], 0
        part.append(each)
        chars += len(each[0])
    yield part


class Filters:
    """The filters of all hosts, this broker's own included."""

    def __init__(self, name: str, *, incarnation: int) -> None:
        self._name = name
        self.incarnation = incarnation
        """The life of this broker, as others know it."""
        self._wanted = CoveringSet()
        self.version = 0
        """The version of this broker's own filter."""
        self._hosts: dict[str, _Host] = {}
        self._index = MatchIndex()
        self._free_entries: list[int] = []
        self._free_numbers: list[int] = []
        self.forgotten: dict[str, None] = {}
        """Hosts whose filters were given up, and that have not been told whole since."""
        self._entries = 0
        self.hosts_version = 0
        """Grows when a host gets a number; masks made before are stale."""
        self.stamp = 0
        """Grows with every change of another host's filter; versions taken before are stale."""

    # --- this broker's own clients

    def want(self, selector: Selector) -> HostChange | None:
        """A client wants something; answers with what must be flooded, if the sum changed."""
        change = self._wanted.add(selector)
        return self._next(change.entered, change.left)

    def unwant(self, selectors: Iterable[Selector]) -> HostChange | None:
        """Clients do not want these any more; answers with what must be flooded, if the sum changed."""
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        for selector in selectors:
            change = self._wanted.remove(selector)
            for conjunction in change.left:
                if entered.pop(conjunction, left) is left:
                    left[conjunction] = None
            entered.update(dict.fromkeys(change.entered))
        return self._next(tuple(entered), tuple(left))

    def covering(self, is_left_out: Callable[[Conjunction], bool], count_max: int) -> Iterator[str]:
        """The covering set of what this broker's clients want, as texts; without some, and no more than so many."""
        return islice((str(each) for each in self._wanted if not is_left_out(each)), count_max)

    def _next(self, entered: tuple[Conjunction, ...], left: tuple[Conjunction, ...]) -> HostChange | None:
        if not entered and not left:
            return None
        self.version += 1
        added, removed = tuple(map(str, entered)), tuple(map(str, left))
        return HostChange(self._name, self.incarnation, self.version, self.version - 1, added, removed)

    # --- all hosts

    def whole(self) -> list[HostChange]:
        """Every filter known, for a neighbour that has just arrived."""
        return [self._own()] + [
            HostChange(name, host.incarnation, host.version, -1, tuple(host.entries), ())
            for name, host in self._hosts.items()
        ]

    def read_ahead(self, update: FilterUpdate) -> None:
        """Reads the selectors of a change that is not complete: when it is, they are known, and soon in force."""
        _parsed(update.host, update.added)

    def learn(self, change: HostChange) -> HostChange | None:
        """A neighbour passed on a complete change; answers with what must be flooded further, if anything."""
        if change.host == self._name:
            return self._contradict(change)
        host = self._hosts.get(change.host)
        if host is not None and (change.incarnation, change.version) <= (host.incarnation, host.version):
            return None
        if host is None and change.base >= 0 and change.host in self.forgotten:
            # A neighbour has not heard yet that this host is gone for good.
            return None
        if change.base >= 0 and (host is None or (host.incarnation, host.version) != (change.incarnation, change.base)):
            raise ProtocolError(f"filter of {change.host} jumps from an unknown version to {change.version}")
        selectors = _parsed(change.host, change.added)
        if host is None:
            if len(self._hosts) >= LINKS_MAX:
                raise ProtocolError(f"more than {LINKS_MAX:,} brokers have filters")
            number = self._free_numbers.pop() if self._free_numbers else len(self._hosts)
            host = self._hosts[change.host] = _Host(number, change.incarnation, change.version)
            self.forgotten.pop(change.host, None)
            self.hosts_version += 1
        self._apply(host, change, selectors)
        host.incarnation, host.version = change.incarnation, change.version
        self.stamp += 1
        return change

    def forget(self, name: str) -> None:
        """A host is gone for good: its filter, too."""
        host = self._hosts.pop(name, None)
        if host is None:
            return
        for entry in host.entries.values():
            self._index.remove(entry)
            self._free_entries.append(entry)
        self._free_numbers.append(host.number)
        self.forgotten[name] = None
        self.hosts_version += 1
        self.stamp += 1

    def _contradict(self, change: HostChange) -> HostChange | None:
        """Somebody still spreads what we wanted in an earlier life, with a later clock: begin a later life."""
        if (change.incarnation, change.version) <= (self.incarnation, self.version):
            return None
        if change.incarnation >= _INCARNATION_MAX:
            # Nothing later can be; nobody whose clock is right gets there.
            return None
        self.incarnation = change.incarnation + 1
        return self._own()

    def _own(self) -> HostChange:
        return HostChange(self._name, self.incarnation, self.version, -1, tuple(map(str, self._wanted)), ())

    def version_of(self, host: str) -> tuple[int, int]:
        """The incarnation and version of a host's filter that is in force here."""
        known = self._hosts.get(host)
        return (known.incarnation, known.version) if known else (-1, -1)

    def mask_of(self, hosts: frozenset[str]) -> int:
        """The bitmap of some hosts."""
        mask = 0
        for name in hosts:
            if name in self._hosts:
                mask |= 1 << self._hosts[name].number
        return mask

    def interested(self, hosts: Iterable[str]) -> tuple[int, dict[str, tuple[int, int]]]:
        """The bitmap of those of the hosts that want anything, and the versions of their filters that are in force."""
        mask, versions = 0, {}
        for name in hosts:
            host = self._hosts.get(name)
            if host is not None and host.entries:
                mask |= 1 << host.number
                versions[name] = (host.incarnation, host.version)
        return mask, versions

    @property
    def effort(self) -> int:
        """How many operations it may take to find out who wants a message, beside what the index finds."""
        return self._index.effort

    def hosts_wanting(self, attributes: Attributes) -> int:
        """The other brokers with a client that wants the message, as a bitmap."""
        return self._index.links(attributes)

    def status(self) -> dict[str, int]:
        """Figures for the operator."""
        return {"hosts": len(self._hosts), "entries": len(self._index), "own": len(self._wanted)}

    def check_invariants(self) -> None:
        """Fails if the index and the hosts' filters contradict each other."""
        assert len(self._index) == sum(len(host.entries) for host in self._hosts.values())
        numbers = [*(host.number for host in self._hosts.values()), *self._free_numbers]
        assert sorted(numbers) == list(range(len(numbers)))
        assert not self.forgotten.keys() & self._hosts.keys()
        self._index.check_invariants()

    def _apply(self, host: _Host, change: HostChange, selectors: dict[str, Selector]) -> None:
        removed = list(host.entries) if change.base < 0 else change.removed
        # Additions before removals: there is no moment in which something that is still wanted is not in the index.
        for text, selector in selectors.items():
            if text not in host.entries:
                host.entries[text] = self._enter(selector, host.number)
        for text in removed:
            if text in host.entries and not (change.base < 0 and text in selectors):
                entry = host.entries.pop(text)
                self._index.remove(entry)
                self._free_entries.append(entry)

    def _enter(self, selector: Selector, number: int) -> int:
        entry = self._free_entries.pop() if self._free_entries else self._entries
        self._entries = max(self._entries, entry + 1)
        self._index.add(entry, selector, number)
        return entry


def _parsed(host: str, texts: Iterable[str]) -> dict[str, Selector]:
    """The selectors of a change, all of them before any is put into force."""
    try:
        return {text: Selector.parse(text) for text in texts}
    except SelectorError as error:
        raise ProtocolError(f"filter of {host}: {error}") from None
