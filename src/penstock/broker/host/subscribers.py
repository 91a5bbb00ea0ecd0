"""The subscriptions of this broker's own clients, and the deliveries to them.

For each message the index finds the matching subscriptions; these are gathered by connection, so that a client with
many of them gets the message once, with their numbers. Messages that come together leave together: consecutive ones for
the same receivers as one frame, encoded once for all clients whose numbers agree; others as one frame per client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import byteorder
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.broker.narrowing import is_reserved, names_pubends, seen_in
from penstock.matching.chain import Ids
from penstock.matching.index import Matches, MatchIndex
from penstock.model.values import Attributes
from penstock.protocol.frames import Deliver
from penstock.selectors.selector import Selector

__all__ = ["Sampler", "Subscribers"]

Targets: TypeAlias = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Who gets a message: numbers of subscriptions, each time with the connections that have just these."""
_Run: TypeAlias = tuple[int, int, Targets]
"""Consecutive messages for the same receivers: their places from and to, and who gets them."""
Sampler: TypeAlias = Callable[[Attributes, Ids, int], None]
"""Is told of a publication: its attributes with its pubend, the subscriptions that want it, and its size."""

_NUMBERS_BYTES_MAX: Final = 4 * 65_535
_FRAME_BYTES: Final = 32 * 1024
"""Data in a frame that takes no more messages: control must not wait for long behind it on a slow connection."""
_DELIVERIES_PER_FRAME: Final = 3
"""If each frame makes at least this many deliveries, frames that connections share cost less than one for each."""
_KNOWN_BYTES_MAX: Final = 16 * 1024 * 1024
"""About how much memory may remember who gets the messages that a set of subscriptions wants."""
_BULK: Final = 96
"""From this many matches on, arrays gather them faster than a dictionary does."""
_TIMED_EVERY: Final = 16
_ID_BYTES: Final = 4
_NOBODY: Final = np.zeros(0, np.uint32)
_GONE: Final = -(2**62)
"""The connection of subscriptions whose client has left; far below the negative numbers of mechanisms."""


class Subscribers:
    """The subscriptions of all clients, numbered here, each with its connection and the client's own number."""

    def __init__(self, stopwatch: Callable[[], int] | None = None) -> None:
        """The stopwatch counts nanoseconds, and times matching now and then; None where time is simulated."""
        self._index = MatchIndex()
        self._system = MatchIndex()
        """Subscriptions by reserved attributes: only they see the system's own publications."""
        self._free: list[int] = []
        self._next = 0
        self._connection_of: npt.NDArray[np.int64] = np.zeros(64, np.int64)
        self._number_of: npt.NDArray[np.uint32] = np.zeros(64, np.uint32)
        self._connections: list[int] = []
        self._numbers: list[bytes] = []
        self._alone: list[Targets] = []
        """For each subscription, who gets a message that only this one wants."""
        self._known: dict[bytes, Targets] = {}
        """Who gets the messages that a set of subscriptions wants; forgotten when any subscription ends."""
        self._known_bytes = 0
        self._narrowed: set[int] = set()
        """Subscriptions to some pubends: while there are any, messages are matched together with their pubends."""
        self._sampler: Sampler | None = None
        self._stopwatch = stopwatch
        self._gone = 0
        """How many subscriptions are silenced but not removed yet."""
        self.matched = self.timed = self.timed_ns = 0
        """Publications matched, how many of them were timed, and how long these took."""

    def __len__(self) -> int:
        return self._next - len(self._free)

    def add(self, connection: int, number: int, selector: Selector) -> int:
        """Adds a subscription; returns the key that removes it."""
        if self._free:
            key = self._free.pop()
        else:
            key = self._next
            self._next += 1
            self._connections.append(0)
            self._numbers.append(b"")
            self._alone.append(())
            if key >= len(self._connection_of):
                self._connection_of = np.resize(self._connection_of, 2 * key)
                self._number_of = np.resize(self._number_of, 2 * key)
        self._connection_of[key] = self._connections[key] = connection
        self._number_of[key] = number
        self._numbers[key] = number.to_bytes(4)
        self._alone[key] = ((self._numbers[key], (connection,)),)
        ordinary = tuple(each for each in selector.conjunctions if not is_reserved(each))
        reserved = tuple(each for each in selector.conjunctions if is_reserved(each))
        if names_pubends(ordinary):
            self._narrowed.add(key)
        if ordinary or not reserved:
            self._index.add_conjunctions(key, ordinary)
        if reserved:
            self._system.add_conjunctions(key, reserved)
        return key

    def silence(self, keys: Iterable[int]) -> None:
        """Delivers nothing for these subscriptions any more; each must still be removed, which costs more."""
        for key in keys:
            self._connection_of[key] = self._connections[key] = _GONE
            self._gone += 1
        self._known, self._known_bytes = {}, 0

    def remove(self, key: int) -> None:
        """Removes a subscription."""
        self._narrowed.discard(key)
        self._known, self._known_bytes = {}, 0
        for index in (self._index, self._system):
            if key in index:
                index.remove(key)
        if self._connections[key] == _GONE:
            self._gone -= 1
            self._connections[key] = 0
        self._free.append(key)

    def are_interested(self, attributes: Attributes, name: str) -> bool:
        """Whether any subscription wants a message of a pubend with these attributes."""
        return bool(self._index.find(seen_in(attributes, name)))

    def sample_into(self, sampler: Sampler) -> None:
        """Tells the sampler of every publication that is looked up, until ``stop_sampling``."""
        self._sampler = sampler

    def stop_sampling(self) -> None:
        """Tells nobody of publications any more."""
        self._sampler = None

    def deliveries(
        self,
        pubend: int,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        attributes: Sequence[Attributes],
        *,
        name: str = "",
        system: bool = False,
        later: Mapping[int, int] | None = None,
        members: Mapping[int, int] | None = None,
    ) -> list[tuple[Deliver, Sequence[int]]]:
        """Returns the frames for messages of a pubend in the order of their ticks, each with those who get it.

        The pubend is given by its number here, and by its name. Skips subscriptions that begin after a message's tick.
        With members, serves only those, from their ticks on.
        """
        if len(ticks) == 1:
            targets = self._targets(
                name, ticks[0], attributes[0], len(bodies[0]), system=system, later=later, members=members
            )
            return [(Deliver(pubend, ticks, [numbers], bodies), connections) for numbers, connections in targets]
        runs = self._runs(name, ticks, bodies, attributes, system=system, later=later, members=members)
        if not _are_shared(runs):
            return _by_connection(pubend, ticks, bodies, runs)
        frames: list[tuple[Deliver, Sequence[int]]] = []
        for start, end, targets in runs:
            for numbers, connections in targets:
                same = [numbers] * (end - start)
                frames.append((Deliver(pubend, ticks[start:end], same, bodies[start:end]), connections))
        return frames

    def _runs(
        self,
        name: str,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        attributes: Sequence[Attributes],
        *,
        system: bool,
        later: Mapping[int, int] | None,
        members: Mapping[int, int] | None,
    ) -> list[_Run]:
        """Cuts messages into runs for the same receivers."""
        # With these, who gets a message does not depend on its attributes alone.
        depends = later is not None or members is not None or self._sampler is not None or system
        runs: list[_Run] = []
        start = 0
        last: Attributes | None = None
        targets: Targets = ()
        for place, each in enumerate(attributes):
            if each is last and not depends:
                self.matched += 1
                continue
            last = each
            found = self._targets(
                name, ticks[place], each, len(bodies[place]), system=system, later=later, members=members
            )
            if found is not targets and found != targets:
                if place - start > 1:
                    runs += _fitting(start, place, targets, bodies)
                elif targets:
                    runs.append((start, place, targets))
                start = place
                targets = found
        runs += _fitting(start, len(bodies), targets, bodies)
        return runs

    def _targets(
        self,
        name: str,
        tick: int,
        attributes: Attributes,
        size: int,
        *,
        system: bool,
        later: Mapping[int, int] | None,
        members: Mapping[int, int] | None,
    ) -> Targets:
        """Who gets a message."""
        if self._narrowed or self._sampler is not None:
            attributes = seen_in(attributes, name)
        found = self._system.find(attributes) if system else self._looked_up(attributes)
        if self._sampler is not None and not system and members is None:
            self._sampler(attributes, found.ids() if found else _NOBODY, size)
        if not found:
            return ()
        if members is None and later is None and not self._gone:
            return self._targets_of(found.packed())
        ids = found.ids()
        if members is not None:
            ids = np.array([key for key in ids.tolist() if key in members and members[key] <= tick], ids.dtype)
        elif later is not None:
            ids = np.array([key for key in ids.tolist() if key not in later or later[key] <= tick], ids.dtype)
        if self._gone:
            ids = ids[self._connection_of[ids] != _GONE]
        return self._targets_of(ids.tobytes())

    def _targets_of(self, ids: bytes) -> Targets:
        """Who gets the messages that these subscriptions want, given as four bytes each."""
        if len(ids) == _ID_BYTES:
            return self._alone[int.from_bytes(ids, byteorder)]
        targets = self._known.get(ids)
        if targets is None:
            targets = self._remember(ids, self._grouped(np.frombuffer(ids, np.uint32)))
        return targets

    def _remember(self, ids: bytes, targets: Targets) -> Targets:
        """Keeps who gets the messages that these subscriptions want, until any subscription ends."""
        self._known_bytes += 2 * len(ids) + 128 * len(targets)
        if self._known_bytes > _KNOWN_BYTES_MAX:
            self._known, self._known_bytes = {}, 0
        self._known[ids] = targets
        return targets

    def _grouped(self, ids: Ids) -> Targets:
        """Connections with the same numbers together."""
        groups: dict[bytes, list[int]] = {}
        for connection, numbers in self._named(self._gathered(ids)):
            groups.setdefault(numbers, []).append(connection)
        return tuple((numbers, tuple(connections)) for numbers, connections in groups.items())

    @property
    def ordinary(self) -> int:
        """The number of subscriptions that want what applications publish."""
        return len(self._index)

    @property
    def effort(self) -> int:
        """The effort of the conditions that no index answers, for each message; in the unit of ``selectors.effort``."""
        return self._index.effort

    def _looked_up(self, attributes: Attributes) -> Matches:
        self.matched += 1
        if self._stopwatch is None or self.matched % _TIMED_EVERY:
            return self._index.find(attributes)
        started_ns = self._stopwatch()
        found = self._index.find(attributes)
        self.timed += 1
        self.timed_ns += self._stopwatch() - started_ns
        return found

    def check_invariants(self) -> None:
        """Fails if the index and the lists beside it contradict each other."""
        self._index.check_invariants()
        self._system.check_invariants()
        assert (
            len({*self._index, *self._system}) + len(self._free)
            == self._next
            == len(self._connections)
            == len(self._alone)
        )
        assert all(key in self._index for key in self._narrowed)
        assert self._gone == self._connections.count(_GONE)

    def _named(self, gathered: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Splits the numbers of a connection where they are more than a frame can name."""
        for connection, numbers in gathered:
            if len(numbers) <= _NUMBERS_BYTES_MAX:
                yield connection, numbers
                continue
            for start in range(0, len(numbers), _NUMBERS_BYTES_MAX):
                yield connection, numbers[start : start + _NUMBERS_BYTES_MAX]

    def _gathered(self, ids: Ids) -> list[tuple[int, bytes]]:
        """The numbers of each connection's subscriptions, joined."""
        if len(ids) >= _BULK:
            return self._gathered_in_bulk(ids)
        connections, numbers = self._connections, self._numbers
        gathered: dict[int, bytes] = {}
        for key in ids.tolist():
            connection = connections[key]
            if connection in gathered:
                gathered[connection] += numbers[key]
            else:
                gathered[connection] = numbers[key]
        return list(gathered.items())

    def _gathered_in_bulk(self, ids: Ids) -> list[tuple[int, bytes]]:
        connections = self._connection_of[ids]
        order = connections.argsort(kind="stable")
        ordered = connections[order]
        joined = self._number_of[ids[order]].astype(">u4").tobytes()
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        places = (starts * 4).tolist()
        places.append(len(joined))
        return [
            (connection, joined[places[turn] : places[turn + 1]])
            for turn, connection in enumerate(ordered[starts].tolist())
        ]


def _fitting(start: int, end: int, targets: Targets, bodies: Sequence[bytes]) -> list[_Run]:
    """Splits a run so that no part is much larger than a frame should be; nothing for messages that nobody gets."""
    if not targets:
        return []
    if sum(map(len, bodies[start:end])) < _FRAME_BYTES:
        return [(start, end, targets)]
    runs: list[_Run] = []
    size = 0
    for place in range(start, end):
        if size >= _FRAME_BYTES:
            runs.append((start, place, targets))
            start = place
            size = 0
        size += len(bodies[place])
    runs.append((start, end, targets))
    return runs


def _are_shared(runs: Sequence[_Run]) -> bool:
    """Whether a frame for each run, shared by all who get the same, costs less than one for each connection."""
    frames = deliveries = 0
    for start, end, targets in runs:
        for _, connections in targets:
            frames += 1
            deliveries += (end - start) * len(connections)
    return deliveries >= _DELIVERIES_PER_FRAME * frames


def _by_connection(
    pubend: int, ticks: Sequence[int], bodies: Sequence[bytes], runs: Sequence[_Run]
) -> list[tuple[Deliver, Sequence[int]]]:
    """A frame for each connection, with all messages that it gets."""
    parts: dict[int, tuple[list[int], list[bytes], list[bytes]]] = {}
    sizes: dict[int, int] = {}
    frames: list[tuple[Deliver, Sequence[int]]] = []
    # Message by message: where this is worth it, most runs are of one.
    for start, end, targets in runs:
        for tick, body in zip(ticks[start:end], bodies[start:end], strict=True):
            size = len(body)
            for numbers, connections in targets:
                for connection in connections:
                    part = parts.get(connection)
                    if part is None:
                        part = parts[connection] = ([], [], [])
                        sizes[connection] = 0
                    part[0].append(tick)
                    part[1].append(numbers)
                    part[2].append(body)
                    sizes[connection] += size
                    if sizes[connection] >= _FRAME_BYTES:
                        frames.append((Deliver(pubend, *part), (connection,)))
                        del parts[connection]
    frames += [(Deliver(pubend, *part), (connection,)) for connection, part in parts.items()]
    return frames
