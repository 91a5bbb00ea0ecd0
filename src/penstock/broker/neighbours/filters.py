"""The filters of all brokers, known to every broker: they tell which brokers must get a message.

Each broker (a *host* of subscribers) sums up what its clients want in a covering set, numbers its changes, and floods
them. On each link the updates of all hosts are one ordered, acknowledged sequence; a neighbour that (re)connects gets
the filters whole. Filters belong to hosts and not to links, so a new route needs no new filters: only which hosts lie
behind which link is computed again (decision record 3).

A large change is put into force in steps, so that no turn has to do all of it: additions enter the index, then the new
version counts, then removals leave the index. At every moment the index has all that the version in force wants; it may
also have something that only another version wants, which costs some useless messages.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from penstock.broker.narrowing import is_reserved, pubends_of, seen_in
from penstock.matching.covering_set import CoveringSet
from penstock.matching.index import LINKS_MAX, MatchIndex
from penstock.model.values import Attributes
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import FilterUpdate
from penstock.protocol.status import FilterStatus
from penstock.selectors.errors import SelectorError
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["FILTER_WEIGHT_MAX", "Filters", "HostChange", "filter_weight"]

_TEXTS_PER_UPDATE: Final = 500
"""Most conjunctions in one frame; a larger change is sent in parts, and applied when it is complete."""
_TEXTS_PER_UPDATE_MAX: Final = 1_000
"""Most conjunctions accepted in a neighbour's frame: all of them are parsed in one turn."""
_INCARNATION_MAX: Final = 2**61
FILTER_WEIGHT_MAX: Final = 128 * 1024 * 1024
"""The most that the filter of a host may weigh: a million conjunctions of seventy characters."""
_TEXT_WEIGHT: Final = 64
_CHARS_PER_UPDATE: Final = 32 * 1024
"""Most characters in one frame: it is parsed in one turn, at some milliseconds per selector of 3 KB."""
_STEP: Final = 128
"""Conjunctions that enter or leave the index in one step; a long one counts as several."""
_CHARS_PER_UNIT: Final = 64
_ALL: Final = ""
"""Stands for all pubends."""


@dataclass(slots=True)
class _Host:
    """The filter of one host, as known here."""

    number: int
    incarnation: int
    version: int
    entries: dict[str, int] = field(default_factory=dict)
    """The index entry of each conjunction, by its text."""
    weight: int = 0
    """The weight of all conjunctions together."""
    pubends: Counter[str] = field(default_factory=Counter)
    """How many conjunctions want messages of each pubend; under `_ALL`, those that want messages of all."""

    @property
    def is_known(self) -> bool:
        """Whether any version of its filter is in force."""
        return self.version >= 0

    def wants(self, pubend: str) -> bool:
        """Whether it may want messages of a pubend."""
        return _ALL in self.pubends or pubend in self.pubends


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


@dataclass(slots=True)
class _Adoption:
    """A change that is being put into the index."""

    change: HostChange
    adding: deque[str]
    """Additions that are not in the index yet; the new version counts when none is left."""
    removing: dict[str, None] = field(default_factory=dict)
    """Conjunctions that the new version does not want and that are still in the index."""


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

    def __init__(self, name: str, *, incarnation: int, step: int = _STEP) -> None:
        self._name = name
        self._step = step
        self.incarnation = incarnation
        """The incarnation of this broker that others know."""
        self._wanted = CoveringSet()
        self.version = 0
        """The version of this broker's own filter."""
        self._hosts: dict[str, _Host] = {}
        self._index = MatchIndex()
        self._free_entries: list[int] = []
        self._free_numbers: list[int] = []
        self.forgotten: dict[str, None] = {}
        """Hosts whose filters were dropped and that have not been received whole since."""
        self._entries = 0
        self.hosts_version = 0
        """Incremented when a host gets or loses its number; masks made before are stale."""
        self.stamp = 0
        """Incremented with every change of another host's filter; versions taken before are stale."""
        self._narrowed: dict[int, tuple[str, ...]] = {}
        """Entries that want messages of some pubends only, with these pubends."""
        self._system: set[int] = set()
        """Entries that want the system's own publications only, and nothing of any pubend."""
        self._adoptions: dict[str, _Adoption] = {}
        """Changes that take several steps, by host, oldest first."""

    # --- this broker's own clients

    def want(self, selector: Selector) -> HostChange | None:
        """Adds a client's selector; returns what must be flooded, if the covering set changed."""
        change = self._wanted.add(selector)
        return self._next(change.entered, change.left)

    def unwant(self, selectors: Iterable[Selector]) -> HostChange | None:
        """Removes selectors of clients; returns what must be flooded, if the covering set changed."""
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        for selector in selectors:
            change = self._wanted.remove(selector)
            for conjunction in change.left:
                if entered.pop(conjunction, left) is left:
                    left[conjunction] = None
            entered.update(dict.fromkeys(change.entered))
        return self._next(tuple(entered), tuple(left))

    def let_go(self, conjunctions: Sequence[Conjunction]) -> HostChange | None:
        """Removes conjunctions of selectors, as ``unwant`` does: those of a large selector may leave gradually."""
        change = self._wanted.remove_all(conjunctions)
        return self._next(change.entered, change.left)

    def covering(self, is_left_out: Callable[[Conjunction], bool], count_max: int) -> Iterator[str]:
        """The covering set of this broker, as texts; without those left out, and at most this many."""
        return islice((str(each) for each in self._wanted if not is_left_out(each)), count_max)

    def _next(self, entered: tuple[Conjunction, ...], left: tuple[Conjunction, ...]) -> HostChange | None:
        if not entered and not left:
            return None
        self.version += 1
        added, removed = tuple(map(str, entered)), tuple(map(str, left))
        return HostChange(self._name, self.incarnation, self.version, self.version - 1, added, removed)

    # --- all hosts

    def whole(self) -> list[HostChange]:
        """Every known filter, for a neighbour that has just connected."""
        return [self._own()] + [
            HostChange(name, host.incarnation, host.version, -1, self._wanted_by(name, host), ())
            for name, host in self._hosts.items()
            if host.is_known
        ]

    def _wanted_by(self, name: str, host: _Host) -> tuple[str, ...]:
        adoption = self._adoptions.get(name)
        if adoption is None or not adoption.removing:
            return tuple(host.entries)
        return tuple(text for text in host.entries if text not in adoption.removing)

    def read_ahead(self, update: FilterUpdate) -> None:
        """Parses the selectors in a part of a change, so that errors are found before any of them is in force."""
        texts = len(update.added) + len(update.removed)
        chars = sum(map(len, update.added)) + sum(map(len, update.removed))
        if texts > _TEXTS_PER_UPDATE_MAX or (texts > 1 and chars > _CHARS_PER_UPDATE):
            problem = f"a part of the filter of {update.host} has {texts:,} selectors of {chars:,} characters"
            raise ProtocolError(f"{problem}; {_TEXTS_PER_UPDATE_MAX:,} of {_CHARS_PER_UPDATE:,} are allowed")
        host = self._hosts.get(update.host)
        known = host.entries if host is not None else {}
        _parsed(update.host, [text for text in update.added if text not in known])

    def is_changing(self, host: str) -> bool:
        """Whether a change of a host's filter needs more steps; the host's next change has to wait for it."""
        return host in self._adoptions

    @property
    def has_steps(self) -> bool:
        """Whether any change needs more steps."""
        return bool(self._adoptions)

    def learn(self, change: HostChange) -> HostChange | None:
        """Begins a complete change from a neighbour that was read ahead; returns what must be flooded further.

        That is nothing if the change is old, or needs more steps: then ``step`` returns it.
        """
        assert change.host not in self._adoptions, "changes of one host come into force one after the other"
        if change.host == self._name:
            return self._contradict(change)
        host = self._hosts.get(change.host)
        if host is not None and (change.incarnation, change.version) <= (host.incarnation, host.version):
            return None
        if host is None and change.base >= 0 and change.host in self.forgotten:
            # The neighbour has not heard yet that this host is gone for good.
            return None
        if change.base >= 0 and (host is None or (host.incarnation, host.version) != (change.incarnation, change.base)):
            raise ProtocolError(f"filter of {change.host} jumps from an unknown version to {change.version}")
        if host is not None and change.base >= 0 and host.weight + filter_weight(change.added) > FILTER_WEIGHT_MAX:
            raise ProtocolError(f"the filter of {change.host} has more than {FILTER_WEIGHT_MAX:,} bytes")
        known = host.entries if host is not None else {}
        adoption = _Adoption(change, deque(text for text in dict.fromkeys(change.added) if text not in known))
        some = _parsed(change.host, _taken(adoption.adding, self._step))
        if host is None:
            host = self._new_host(change.host)
        self._enter_all(host, some)
        self._adoptions[change.host] = adoption
        return self._advance(adoption, host, len(some))

    def step(self) -> HostChange | None:
        """Continues the oldest change that needs more steps; returns it if its version counts from now on."""
        name, adoption = next(iter(self._adoptions.items()))
        host = self._hosts[name]
        some = _parsed(name, _taken(adoption.adding, self._step))
        self._enter_all(host, some)
        return self._advance(adoption, host, len(some))

    def _new_host(self, name: str) -> _Host:
        if len(self._hosts) >= LINKS_MAX:
            raise ProtocolError(f"more than {LINKS_MAX:,} brokers have filters")
        number = self._free_numbers.pop() if self._free_numbers else len(self._hosts)
        host = self._hosts[name] = _Host(number, -1, -1)
        self.forgotten.pop(name, None)
        self.hosts_version += 1
        return host

    def _advance(self, adoption: _Adoption, host: _Host, added: int) -> HostChange | None:
        """Puts the version in force once all of it is in the index, then removes what it does not want."""
        if adoption.adding:
            return None
        change = adoption.change
        news = None
        if (host.incarnation, host.version) != (change.incarnation, change.version):
            # Additions before removals, so that whatever is wanted is in the index at every moment.
            host.incarnation, host.version = change.incarnation, change.version
            self.stamp += 1
            adoption.removing = self._superfluous(host, change)
            news = change
        for text in list(islice(adoption.removing, max(self._step - added, 0))):
            del adoption.removing[text]
            entry = host.entries.pop(text)
            host.weight -= filter_weight((text,))
            host.pubends.subtract(self._pubends_of(entry))
            self._drop(entry)
        host.pubends = +host.pubends
        if not adoption.removing:
            del self._adoptions[change.host]
        return news

    def _superfluous(self, host: _Host, change: HostChange) -> dict[str, None]:
        if change.base >= 0:
            return {text: None for text in change.removed if text in host.entries}
        wanted = set(change.added)
        return {text: None for text in host.entries if text not in wanted}

    def forget(self, name: str) -> None:
        """Drops the filter of a host that is gone for good."""
        host = self._hosts.pop(name, None)
        if host is None:
            return
        self._adoptions.pop(name, None)
        for entry in host.entries.values():
            self._drop(entry)
        self._free_numbers.append(host.number)
        self.forgotten[name] = None
        self.hosts_version += 1
        self.stamp += 1

    def _contradict(self, change: HostChange) -> HostChange | None:
        """Starts a later incarnation if somebody still spreads our filter of an earlier life that had a later clock."""
        if (change.incarnation, change.version) <= (self.incarnation, self.version):
            return None
        if change.incarnation >= _INCARNATION_MAX:
            # No later incarnation is possible; nobody whose clock is right gets there.
            return None
        self.incarnation = change.incarnation + 1
        return self._own()

    def _own(self) -> HostChange:
        return HostChange(self._name, self.incarnation, self.version, -1, tuple(map(str, self._wanted)), ())

    def version_of(self, host: str) -> tuple[int, int]:
        """The incarnation and version of a host's filter that is in force here."""
        known = self._hosts.get(host)
        return (known.incarnation, known.version) if known and known.is_known else (-1, -1)

    def mask_of(self, hosts: frozenset[str]) -> int:
        """The bitmap of some hosts."""
        mask = 0
        for name in hosts:
            if name in self._hosts:
                mask |= 1 << self._hosts[name].number
        return mask

    def interested(self, hosts: Iterable[str], pubend: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """The bitmap of those hosts that want anything of a pubend, and the versions of their filters in force."""
        mask, versions = 0, {}
        for name in hosts:
            host = self._hosts.get(name)
            if host is not None and host.is_known and host.wants(pubend):
                mask |= 1 << host.number
                versions[name] = (host.incarnation, host.version)
        return mask, versions

    @property
    def effort(self) -> int:
        """How many operations matching a message may take, besides what the index answers."""
        return self._index.effort

    def hosts_wanting(self, attributes: Attributes, pubend: str) -> int:
        """The other brokers with a client that wants a message of this pubend, as a bitmap."""
        if self._narrowed:
            attributes = seen_in(attributes, pubend)
        return self._index.links(attributes)

    def status(self) -> FilterStatus:
        """Figures for the operator."""
        return FilterStatus(len(self._hosts), len(self._index), len(self._wanted))

    def check_invariants(self) -> None:
        """Fails if the index and the hosts' filters contradict each other."""
        assert len(self._index) == sum(len(host.entries) for host in self._hosts.values())
        numbers = [*(host.number for host in self._hosts.values()), *self._free_numbers]
        assert sorted(numbers) == list(range(len(numbers)))
        assert not self.forgotten.keys() & self._hosts.keys()
        for name, adoption in self._adoptions.items():
            entries = self._hosts[name].entries
            assert adoption.adding or adoption.removing, f"nothing is left to do for {name}"
            assert adoption.removing.keys() <= entries.keys()
            assert not any(text in entries for text in adoption.adding)
        assert all(host.is_known or name in self._adoptions for name, host in self._hosts.items())
        for host in self._hosts.values():
            assert host.weight == filter_weight(host.entries)
            pubends = [self._pubends_of(entry) for entry in host.entries.values()]
            assert host.pubends == Counter(pubend for each in pubends for pubend in each)
        self._index.check_invariants()

    def _enter_all(self, host: _Host, selectors: Mapping[str, Selector]) -> None:
        """Puts conjunctions of a host into the index, by their texts."""
        for text, selector in selectors.items():
            entry = self._free_entries.pop() if self._free_entries else self._entries
            self._entries = max(self._entries, entry + 1)
            self._index.add(entry, selector, host.number)
            host.entries[text] = entry
            host.weight += filter_weight((text,))
            pubends = _pubends_of(selector)
            if not pubends:
                self._system.add(entry)
            elif pubends != (_ALL,):
                self._narrowed[entry] = pubends
            host.pubends.update(pubends)

    def _drop(self, entry: int) -> None:
        self._narrowed.pop(entry, None)
        self._system.discard(entry)
        self._index.remove(entry)
        self._free_entries.append(entry)

    def _pubends_of(self, entry: int) -> tuple[str, ...]:
        return () if entry in self._system else self._narrowed.get(entry, (_ALL,))


def _taken(texts: deque[str], room: int) -> list[str]:
    """Takes as many texts as fit into one step; at least one, if there is any."""
    taken: list[str] = []
    while texts and room > 0:
        taken.append(texts.popleft())
        room -= 1 + len(taken[-1]) // _CHARS_PER_UNIT
    return taken


def filter_weight(texts: Iterable[str]) -> int:
    """About how much memory conjunctions take as texts: short ones cost more than their characters."""
    return sum(len(text) + _TEXT_WEIGHT for text in texts)


def _pubends_of(selector: Selector) -> tuple[str, ...]:
    """The pubends whose messages a selector may want; none if it sees the system's own publications only."""
    found: dict[str, None] = {}
    for conjunction in selector.conjunctions:
        if not is_reserved(conjunction):
            pubends = pubends_of(conjunction)
            found.update(dict.fromkeys((_ALL,) if pubends is None else pubends))
    return (_ALL,) if _ALL in found else tuple(found)


def _parsed(host: str, texts: Iterable[str]) -> dict[str, Selector]:
    """Parses all texts before any selector is put into force."""
    try:
        return {text: Selector.parse(text) for text in texts}
    except SelectorError as error:
        raise ProtocolError(f"filter of {host}: {error}") from None
