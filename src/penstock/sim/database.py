"""A database that candidates share, in virtual time: a primary, its standby, and the network between all of them.

It has what matters of PostgreSQL. A transaction takes locks, looks, and writes a record to the log of its server; it is
over when the standby has the record too, if the server waits for standbys. Until then others do not see it. Whoever
waits for a lock gives up some time before its client does, and so never gets it later. A primary
that has lost its standby waits for ever. A standby that is promoted begins a new timeline with all that has reached it:
that may be more than anybody was told of, and less, if nobody waited for it. A former primary may go on to answer.

Whoever asks may get no answer, whether the question arrived or not. What a client gave up may still be done later.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from penstock.broker.durable import Change
from penstock.sim.clock import Clock
from penstock.sim.disk import Disk
from penstock.sim.process import Gate, Promise, Running, Waiting, sleep

__all__ = [
    "Backend",
    "Connection",
    "Content",
    "Database",
    "Doubtful",
    "Path",
    "Record",
    "Row",
    "Server",
    "TimedOut",
    "Transaction",
]

_RESEND_US: Final = 200_000
"""How often a packet is sent again over a path that is cut, as TCP does."""
_OTHERS_US: Final = 100_000
"""How long other servers have to answer after the first one: they may have been promoted later."""
_FORWARD, _BACK = 0, 1


@dataclass(slots=True, frozen=True)
class Row:
    """Who holds a home, as in the table of the live store."""

    epoch: int = 0
    holder: str = ""
    life: str = ""
    """Which process of the holder took it."""
    timeline: int = 0
    lease_ms: int = 0
    """The length of the lease."""
    lease_until_ms: int = 0
    """By the clock of the server that was the primary on this timeline."""
    wanted: str = ""
    wanted_until_ms: int = 0
    version: int = 0
    """Another one after each change."""


class Content:
    """What the database has of one home."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.disk.journal = []
        self.commits = 0
        """How many commits of the home there were."""
        self.mark = 0
        """Which of all commits that were ever tried was the latest."""
        self.row = Row()


@dataclass(slots=True, frozen=True)
class Record:
    """A transaction in the log of a server."""

    home: str
    changes: tuple[Change, ...] = ()
    commits: int | None = None
    """The number of commits from now on, if it is one."""
    mark: int = 0
    """The mark of this commit, if it is one."""
    row: Row | None = None
    """The row from now on, if it changes."""

    def apply_to(self, content: Content) -> None:
        """Let it take effect."""
        content.disk.apply(self.changes)
        if self.commits is not None:
            content.commits, content.mark = self.commits, self.mark
        if self.row is not None:
            content.row = self.row


@dataclass(slots=True, frozen=True)
class Doubtful:
    """The transaction is done here, but the wait for the standby was cancelled."""


@dataclass(slots=True, frozen=True)
class TimedOut:
    """Others had what the transaction had to lock, for too long, and nothing was done."""


class Backend:
    """The part of a server that carries out one transaction."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server, self.connection = server, connection
        self.running: Running[Any] | None = None
        self.place = 0
        """Where its record is in the log of the server; 0 if it has written none."""


class Transaction(Protocol):
    """A question to a server, or a change."""

    def steps(self, backend: Backend) -> Waiting[Any]:
        """Carry it out; returns the answer."""


class Server:
    """One server of the database."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.gate = Gate()
        """Shut while the server is stopped."""
        self.is_up = True
        self.is_primary = False
        self.is_synchronous = False
        """Whether transactions wait for the standby."""
        self.timeline = 1
        self.clock_offset_ms = 0
        self.slowness = 1.0
        """A factor on the time of all work."""
        self.work_us = 200
        self.sync_us = 1_500
        self.contents: defaultdict[str, Content] = defaultdict(Content)
        """What others see."""
        self.log: list[Record] = []
        self.standby: Server | None = None
        """Who follows this server."""
        self.replication_us = 500
        """How long a record takes to the standby, and its confirmation back."""
        self.is_replicating = True
        """Whether the network carries records to the standby."""
        self.connections: dict[Connection, None] = {}
        self.audit: Callable[[Transaction, Any], None] | None = None
        """Hears of every transaction that was carried out, and of its answer."""
        self.generation = 0
        """Counts crashes: connections of earlier generations are gone."""
        self._confirmed = 0
        self._backends: dict[Backend, None] = {}
        self._locks: dict[tuple[str, str], deque[tuple[Backend, Promise[TimedOut | None]]]] = {}
        self._unseen: dict[int, Record] = {}
        """Records in the log that take effect for others when the wait for the standby ends, by their places."""
        self._waiting: deque[tuple[int, Promise[Doubtful | None]]] = deque()
        """Who waits until the standby has the log up to a place."""

    @property
    def now_ms(self) -> int:
        """The time by the server's clock."""
        return self.clock.now_ms + self.clock_offset_ms

    # --- transactions

    def execute(self, transaction: Transaction, connection: Connection, on_answer: Callable[[Any], None]) -> None:
        """Carry out a transaction for a connection."""
        backend = Backend(self, connection)
        self._backends[backend] = None
        connection.backend = backend

        def end(answer: Any) -> None:
            if self.audit is not None:
                self.audit(transaction, answer)
            on_answer(answer)
            self._forget(backend)

        backend.running = Running(self._steps(transaction, backend), self.gate, end)

    def _steps(self, transaction: Transaction, backend: Backend) -> Waiting[Any]:
        yield self.works(self.work_us)
        answer = yield from transaction.steps(backend)
        return answer

    def works(self, us: int) -> Promise[None]:
        """Kept when the server has done work of this size."""
        return sleep(self.clock, int(us * self.slowness))

    def locked(self, home: str, part: str, backend: Backend) -> Promise[TimedOut | None]:
        """Kept when a transaction has the lock of a part of a home, until it is over, unless that takes too long."""
        queue = self._locks.setdefault((home, part), deque())
        promise: Promise[TimedOut | None] = Promise()
        queue.append((backend, promise))
        if len(queue) == 1:
            promise.keep(None)
        else:
            give_up = partial(promise.keep, TimedOut())
            self.clock.after(backend.connection.lock_ms * 1_000, partial(self.gate.ring, give_up))
        return promise

    def written(self, backend: Backend, record: Record) -> Waiting[Doubtful | None]:
        """Write a record, and wait for the standby; returns None if it has the record, or need not have it."""
        yield self.works(self.sync_us)
        assert self.is_primary, f"{self.name} is a standby, and writes"
        self.log.append(record)
        place = backend.place = len(self.log)
        self._unseen[place] = record
        waits: Promise[Doubtful | None] = Promise()
        self._waiting.append((place, waits))
        self.ship()
        doubt: Doubtful | None = yield waits
        self._show(place)
        return doubt

    def _show(self, place: int) -> None:
        """Let a record take effect for others: however the wait for the standby ended, it has been committed here."""
        record = self._unseen.pop(place, None)
        if record is not None:
            record.apply_to(self.contents[record.home])

    def _forget(self, backend: Backend) -> None:
        """A transaction is over: others get its locks."""
        self._backends.pop(backend, None)
        backend.connection.backend = None
        if backend.connection.is_given_up:
            self.connections.pop(backend.connection, None)
        next_in_turn: list[Promise[TimedOut | None]] = []
        for key, queue in list(self._locks.items()):
            kept = deque(each for each in queue if each[0] is not backend)
            if not kept:
                del self._locks[key]
                continue
            if kept[0] is not queue[0]:
                next_in_turn.append(kept[0][1])
            self._locks[key] = kept
        for promise in next_in_turn:
            # Not in this step: of many that wait in a row, each may be over at once.
            self.clock.after(0, partial(promise.keep, None))

    def _abort(self, backend: Backend) -> None:
        if backend.running is not None:
            backend.running.cancel()
        self._show(backend.place)
        self._forget(backend)

    def evict(self, application: str) -> None:
        """End all connections of an application."""
        for connection in [each for each in self.connections if each.application == application]:
            if connection.backend is not None:
                self._abort(connection.backend)
            self.connections.pop(connection, None)
            connection.reset()

    def cancel_waits(self) -> int:
        """Cancel all waits for the standby, as an operator may; returns how many there were."""
        waiting = [promise for _, promise in self._waiting if not promise.is_kept]
        self._waiting.clear()
        for promise in waiting:
            promise.keep(Doubtful())
        return len(waiting)

    def tell(self, home: str) -> None:
        """Tell whoever listens that there is news of a home."""
        for connection in list(self.connections):
            if connection.listens == home:
                connection.tell()

    # --- replication

    def follow(self, primary: Server) -> None:
        """Become the standby of a primary, with a copy of all it has."""
        self.is_up, self.is_primary = True, False
        self.timeline = primary.timeline
        self.log = list(primary.log)
        self.contents = defaultdict(Content, {name: _copied(each) for name, each in primary.contents.items()})
        for record in primary.unseen():
            record.apply_to(self.contents[record.home])
        self.work_us, self.sync_us, self.replication_us = primary.work_us, primary.sync_us, primary.replication_us
        primary.standby = self
        primary.confirm(len(primary.log))

    def unseen(self) -> list[Record]:
        """The records that are in the log, and that nobody sees yet, in order."""
        return list(self._unseen.values())

    def confirm(self, place: int) -> None:
        """The standby has the log up to a place."""
        self._confirmed = max(self._confirmed, place)
        self._release()

    def set_synchronous(self, is_synchronous: bool) -> None:
        """Wait for the standby from now on, or for nobody."""
        self.is_synchronous = is_synchronous
        self._release()

    def _release(self) -> None:
        while self._waiting and (not self.is_synchronous or self._waiting[0][0] <= self._confirmed):
            self._waiting.popleft()[1].keep(None)

    def ship(self) -> None:
        """Send the standby what it lacks."""
        if not self.is_synchronous:
            self._release()
        if self.standby is not None:
            carry = partial(self._carry, self.standby, len(self.log), self.generation)
            self.clock.after(self.replication_us, carry)

    def _carry(self, standby: Server, place: int, generation: int) -> None:
        if not self.is_up or generation != self.generation or standby is not self.standby:
            return
        if self.is_replicating and standby.is_up and not standby.gate.is_shut and not self.gate.is_shut:
            standby.receive(self.log[len(standby.log) : place])
            self.clock.after(self.replication_us, partial(self._hear, standby, place))

    def _hear(self, standby: Server, place: int) -> None:
        if self.is_up and standby is self.standby and self.is_replicating and not standby.is_primary:
            self.gate.through(partial(self.confirm, place))

    def receive(self, records: list[Record]) -> None:
        """Take over records of the primary."""
        assert not self.is_primary, f"{self.name} is a primary, and follows"
        for record in records:
            self.log.append(record)
            record.apply_to(self.contents[record.home])

    # --- coming and going

    def crash(self, *, loud: bool) -> None:
        """End at once; if loud, clients notice. What was written is still there when it starts again."""
        self.is_up = False
        self.generation += 1
        self._locks.clear()
        backends, self._backends = list(self._backends), {}
        for backend in backends:
            if backend.running is not None:
                backend.running.cancel()
            backend.connection.backend = None
        for place in list(self._unseen):
            self._show(place)
        self._waiting.clear()
        self.gate.clear()
        connections, self.connections = list(self.connections), {}
        for connection in connections:
            if loud:
                connection.reset()

    def start(self) -> None:
        """Start again, with what was written."""
        self.is_up = True
        self._confirmed = 0
        if self.standby is not None:
            self.ship()

    def promote(self, timeline: int) -> None:
        """Become a primary, which waits for nobody."""
        self.is_primary, self.timeline = True, timeline
        self.is_synchronous, self.standby = False, None


class Path:
    """The network between a client and a server, way by way: to the server, and back."""

    def __init__(self) -> None:
        self.is_cut = [False, False]
        self.latency_us = 300

    @property
    def is_whole(self) -> bool:
        """Whether it carries in both directions."""
        return not any(self.is_cut)


class Connection:
    """A client's connection to a server; carries one transaction at a time."""

    def __init__(
        self, clock: Clock, path: Path, server: Server, application: str, *, listens: str, lock_ms: int
    ) -> None:
        self.server, self.application, self.listens = server, application, listens
        self.lock_ms = lock_ms
        """How long its transactions wait for a lock."""
        self.timeline = server.timeline
        self.is_open = True
        """Whether the client can use it."""
        self.backend: Backend | None = None
        self.on_news: Callable[[], None] | None = None
        """Called when there is news, unless a question is under way."""
        self._clock, self._path = clock, path
        self._generation = server.generation
        self._pending: Promise[Any] | None = None
        self._is_reset = False
        server.connections[self] = None

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for its answers any more."""
        return not self.is_open

    def ask(self, transaction: Transaction, *, answer_ms: int) -> Promise[Any]:
        """Put a question; the answer is None if there is none within this time, and then the connection is over."""
        assert self.is_open, "the connection is closed"
        assert self._pending is None, "one question at a time"
        promise = self._pending = Promise()
        until_us = self._clock.now_us + 2_000 * answer_ms
        self._clock.after(self._path.latency_us, partial(self._arrive, transaction, promise, until_us))
        self._clock.after(answer_ms * 1_000, partial(self._give_up, promise))
        return promise

    def close(self) -> None:
        """Give the connection up; what is being done on it goes on."""
        self.is_open = False
        if self.backend is None:
            self.server.connections.pop(self, None)
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.keep(None)

    def reset(self) -> None:
        """The server has ended the connection: the client learns it if the network carries."""
        self._is_reset = True
        self._clock.after(self._path.latency_us, self._hear_reset)

    def tell(self) -> None:
        """Tell the client that there is news."""
        self._clock.after(self._path.latency_us, self._hear_news)

    def _hear_news(self) -> None:
        if self.is_open and self._pending is None and not self._path.is_cut[_BACK] and self.on_news is not None:
            self.on_news()

    def _hear_reset(self) -> None:
        if not self._path.is_cut[_BACK]:
            self.close()

    def _arrive(self, transaction: Transaction, promise: Promise[Any], until_us: int) -> None:
        """The question has come to the server, if the path is whole; else it is sent again for a while."""
        if self._path.is_cut[_FORWARD]:
            if self._clock.now_us < until_us:
                self._clock.after(_RESEND_US, partial(self._arrive, transaction, promise, until_us))
            return
        if not self.server.is_up:
            return
        if self._is_reset or self._generation != self.server.generation:
            self.reset()
            return
        self.server.gate.through(partial(self._begin, transaction, promise))

    def _begin(self, transaction: Transaction, promise: Promise[Any]) -> None:
        if self.server.is_up and self._generation == self.server.generation and not self._is_reset:
            self.server.connections[self] = None
            self.server.execute(transaction, self, partial(self._reply, promise))

    def _reply(self, promise: Promise[Any], answer: Any) -> None:
        self._clock.after(self._path.latency_us, partial(self._hear, promise, answer))

    def _hear(self, promise: Promise[Any], answer: Any) -> None:
        if self._path.is_cut[_BACK]:
            if self.is_open:
                self._clock.after(_RESEND_US, partial(self._hear, promise, answer))
        elif self.is_open and self._pending is promise:
            self._pending = None
            promise.keep(answer)

    def _give_up(self, promise: Promise[Any]) -> None:
        if self._pending is promise:
            self.close()


class Database:
    """The two servers, and the paths of all clients to each of them."""

    def __init__(self, clock: Clock, *, is_synchronous: bool) -> None:
        self.clock = clock
        self.is_synchronous = is_synchronous
        """Whether commits wait for the standby, whenever there is one."""
        self._serial = 0
        self.servers = [Server(name, clock) for name in ("db1", "db2")]
        self.paths: defaultdict[tuple[str, str], Path] = defaultdict(Path)
        """By the names of client and server."""
        self.on_promoted: Callable[[Server, Server], None] | None = None
        """Called with the former primary and the one to be, before anything changes."""
        first, second = self.servers
        first.is_primary = True
        second.follow(first)
        first.set_synchronous(is_synchronous)

    @property
    def primary(self) -> Server:
        """The server that was promoted last, up or not."""
        return max((each for each in self.servers if each.is_primary), key=lambda each: each.timeline)

    def go_on(self, server: Server) -> None:
        """Let a server go on that was stopped."""
        server.gate.open()
        for each in self.servers:
            if each.is_up:
                each.ship()

    def start(self, server: Server) -> None:
        """Start a server that was killed, as what it was."""
        if not server.is_up:
            server.start()
            for each in self.servers:
                if each.standby is server and each.is_up:
                    each.ship()

    def content(self, home: str) -> Content:
        """What the database has of a home."""
        return self.primary.contents[home]

    def promote(self) -> Server | None:
        """Promote the standby of the primary, if it is up; returns it."""
        primary = self.primary
        standby = primary.standby
        if standby is None or not standby.is_up:
            return None
        if self.on_promoted is not None:
            self.on_promoted(primary, standby)
        if not self.is_synchronous:
            # Who does not wait for a standby must see to it that a former primary is dead: nothing else fences that.
            primary.crash(loud=True)
            primary.is_primary = False
        standby.promote(primary.timeline + 1)
        primary.standby = None
        return standby

    def rejoin(self) -> None:
        """Make the server that is not the primary its standby again, with a copy."""
        primary = self.primary
        other = next(each for each in self.servers if each is not primary)
        if not primary.is_up or (primary.standby is other and other.is_up):
            return
        other.crash(loud=True)
        other.follow(primary)
        primary.set_synchronous(self.is_synchronous)

    def connecting(self, client: str, application: str, *, listens: str, answer_ms: int) -> Waiting[Connection | None]:
        """Connect to the primary; if several say that they are it, to the one promoted last of those that answer."""
        answers: dict[Server, int] = {}
        is_any_mute = False
        for server in self.servers:
            path = self.paths[client, server.name]
            if not path.is_whole or server.gate.is_shut:
                is_any_mute = True
            elif server.is_up and server.is_primary:
                answers[server] = int(2 * path.latency_us + server.work_us * server.slowness)
        if not answers:
            yield sleep(self.clock, answer_ms * 1_000 if is_any_mute else 2_000)
            return None
        first_us = min(answers.values())
        wait_us = first_us + _OTHERS_US if is_any_mute else min(max(answers.values()), first_us + _OTHERS_US)
        yield sleep(self.clock, wait_us)
        # A former primary may have become a standby meanwhile.
        heard = [server for server, us in answers.items() if us <= wait_us and server.is_up and server.is_primary]
        if not heard:
            return None
        best = max(heard, key=lambda each: each.timeline)
        path = self.paths[client, best.name]
        # Who gives up waiting for a row must not get it later.
        return Connection(self.clock, path, best, application, listens=listens, lock_ms=answer_ms * 3 // 4)

    def next_serial(self) -> int:
        """A number that no other change of a row has, and no other commit."""
        self._serial += 1
        return self._serial


def _copied(content: Content) -> Content:
    return deepcopy(content)
