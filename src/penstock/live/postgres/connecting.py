"""Connects to the primary among the servers of a database's url.

All hosts of the url are tried at once: after a fail-over the first of them may be a machine that does not answer any
more, and libpq would wait for it before it tried the next. If several call themselves primary, because a standby was
promoted while its primary was alive, the one that was promoted last is taken: its timeline is the highest.
"""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.live.postgres.errors import DatabaseError, DatabaseUnreachableError

__all__ = [
    "Connection",
    "Cursor",
    "WatchedConnection",
    "answer_within",
    "check_url",
    "connect",
    "reason_of",
    "shown_url",
    "shut_down",
    "store_application",
    "timeline_of",
]

# The driver logs what it ignores when a connection is lost, which we report ourselves.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]
_Result = TypeVar("_Result")

_OTHERS_S: Final = 0.1
"""How long the other hosts have after the first one has answered: they may have been promoted later."""
_CONNECT_S_MIN: Final = 2
"""libpq gives up no sooner; nobody waits for it that long."""
_PLAIN: Final = re.compile(r"[\w.-]+")
_LOOK_MS: Final = 50
"""How often somebody who waits is told so."""
_APPLICATION_BYTES_MAX: Final = 63
_TIMELINE: Final = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
_NO_SERVER: Final = "no server among {hosts} is a primary that takes writes: {problems}"


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that reports how long the server has been silent while it waits for an answer."""

    on_silence: Callable[[float], None] | None = None
    """Told the seconds since the wait began, some times a second; what it raises ends the wait."""

    def wait(self, gen: Generator[Any, Any, _Result], *args: Any, **options: Any) -> _Result:
        """Run a generator of the driver, which says what it waits for, until it has its result."""
        if self.on_silence is None:
            return super().wait(gen, *args, **options)
        socket_number = self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                try:
                    ready = self._ready(socket_number, wanted)
                except BaseException as error:
                    self._end(gen, error)
                    raise
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _ready(self, socket_number: int, wanted: int) -> int:
        """Wait until the socket is as wanted; both are bits: 1 to read, 2 to write."""
        poll = select.poll()
        poll.register(socket_number, (select.POLLIN if wanted & 1 else 0) | (select.POLLOUT if wanted & 2 else 0))
        began_s = time.monotonic()
        while not (events := poll.poll(_LOOK_MS)):
            if self.on_silence is not None:
                self.on_silence(time.monotonic() - began_s)
        ((_, found),) = events
        if found & ~(select.POLLIN | select.POLLOUT):
            # Closed or broken: whatever is tried next says so.
            return wanted
        return (1 if found & select.POLLIN else 0) | (2 if found & select.POLLOUT else 0)

    def _end(self, gen: Generator[Any, Any, Any], error: BaseException) -> None:
        """End a generator of the driver that nobody waits for, and the connection with it."""
        self.pgconn.finish()
        # It may try to leave things in order, and finds that the connection is gone.
        with suppress(psycopg.Error, StopIteration, type(error)):
            gen.throw(error)
            while True:
                next(gen)


def connect(url: str, *, application: str, answer_ms: int) -> WatchedConnection:
    """Connect to the primary, within the time that it has to answer; each statement is a transaction of its own.

    Raises ``DatabaseUnreachableError``.
    """
    deadline_s = time.monotonic() + answer_ms / 1_000
    targets = _targets(url, application, answer_ms)
    race = _Race(targets)
    race.start()
    found = race.wait(deadline_s)
    if found is None:
        problems = "; ".join(f"{host}: {race.problems.get(host, 'no answer')}" for host in targets)
        raise DatabaseUnreachableError(_NO_SERVER.format(hosts=", ".join(targets), problems=problems))
    return found


def check_url(url: str) -> None:
    """Raise ``DatabaseUnreachableError`` if the driver cannot make anything of a url."""
    for conninfo in _targets(url, "", 1_000).values():
        port = str(conninfo_to_dict(conninfo).get("port", "5432"))
        if not port.isdecimal() or not 0 < int(port) < 2**16:
            raise DatabaseUnreachableError(f"{shown_url(url)} has a port that is none")


def _targets(url: str, application: str, answer_ms: int) -> dict[str, str]:
    """One connection string for each host of the url, by its name for people."""
    authority = re.split("[/?#]", url.partition("://")[2])[0]
    if "@" in url and authority.count("@") != 1:
        # The driver would take a part of the password for a host, and show it.
        raise DatabaseUnreachableError(f"{shown_url(url)} has a character in its password that must be encoded (%2F)")
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        # The driver quotes what it does not understand, which may be a part of a password.
        said = f": {reason_of(error)}" if "@" not in url and "password" not in url else ""
        raise DatabaseUnreachableError(f"{shown_url(url)} is not a url of PostgreSQL{said}") from None
    lists = {key: str(given.pop(key, "")).split(",") for key in ("host", "hostaddr", "port")}
    count = max(len(each) for each in lists.values())
    if any(len(each) not in (1, count) for each in lists.values()):
        raise DatabaseUnreachableError(f"{shown_url(url)} has another number of ports than of hosts")
    usual: dict[str, Any] = {
        "connect_timeout": max(_CONNECT_S_MIN, ceil(answer_ms / 1_000)),
        # A cut network says nothing: the kernel must notice that nobody acknowledges what we send, or is there.
        "tcp_user_timeout": answer_ms,
        "keepalives_idle": max(1, answer_ms // 2_000),
        "keepalives_interval": max(1, answer_ms // 4_000),
        "keepalives_count": 2,
    }
    # By its name others know whose connection it is.
    forced = {"application_name": application, "client_encoding": "UTF8", "target_session_attrs": "read-write"}
    targets: dict[str, str] = {}
    for place in range(count):
        own = {key: values[place] if len(values) > 1 else values[0] for key, values in lists.items()}
        own = {key: value for key, value in own.items() if value}
        shown = f"{own.get('host', own.get('hostaddr', 'the local server'))}:{own.get('port', '5432')}"
        targets[shown] = make_conninfo("", **{**usual, **given, **own, **forced})
    return targets


class _Race:
    """Connects to all servers at once, each in a thread, and keeps one connection."""

    def __init__(self, targets: dict[str, str]) -> None:
        self._targets = targets
        self.problems: dict[str, str] = {}
        self._done: SimpleQueue[WatchedConnection | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = False

    def start(self) -> None:
        for host, conninfo in self._targets.items():
            # A daemon: the name of a host may take long to be resolved, and nobody can end that.
            name = f"connect to {host}"
            threading.Thread(target=self._connect, args=(host, conninfo), name=name, daemon=True).start()

    def _connect(self, host: str, conninfo: str) -> None:
        connection: WatchedConnection | None = None
        try:
            connection = WatchedConnection.connect(conninfo, autocommit=True)
        except psycopg.Error as error:
            self.problems[host] = reason_of(error)
        with self._lock:
            is_late = self._is_over
            if not is_late:
                self._done.put(connection)
        if is_late and connection is not None:
            connection.close()

    def wait(self, deadline_s: float) -> WatchedConnection | None:
        """The connection to the primary that was promoted last; None if there is none in time."""
        found: list[WatchedConnection] = []
        for _ in self._targets:
            try:
                connection = self._done.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except Empty:
                break
            if connection is not None:
                found.append(connection)
                deadline_s = min(deadline_s, time.monotonic() + _OTHERS_S)
        with self._lock:
            self._is_over = True
        with suppress(Empty):
            while (late := self._done.get_nowait()) is not None:
                found.append(late)
        return _newest(found)


def _newest(found: list[WatchedConnection]) -> WatchedConnection | None:
    if len(found) < 2:
        return found[0] if found else None
    timelines: dict[int, int] = {}
    for place, connection in enumerate(found):
        with suppress(psycopg.Error, DatabaseError), answer_within(connection, _CONNECT_S_MIN * 1_000):
            timelines[place] = timeline_of(connection)
    best = max(timelines, key=lambda place: timelines[place], default=0)
    for place, connection in enumerate(found):
        if place != best:
            connection.close()
    return found[best]


def store_application(overlay: str, broker: str) -> str:
    """The name by which a server knows the connections of a broker's store, so that they can be ended."""
    # The server keeps no more of it; should another broker's be the same, that one connects again.
    return f"penstock store {overlay} {broker}".encode()[:_APPLICATION_BYTES_MAX].decode(errors="ignore")


def timeline_of(connection: Connection) -> int:
    """The timeline of a primary: each promotion begins a higher one."""
    row = connection.execute(_TIMELINE).fetchone()
    assert row is not None, "a select without a table has one row"
    return int(row[0])


@contextmanager
def answer_within(connection: Connection, answer_ms: int) -> Iterator[None]:
    """Give the database this long to answer what is asked inside; then the connection is cut, and the error says so.

    A server that was stopped, or that waits for its standby, keeps the connection, so no timeout of TCP helps.
    """
    lock = threading.Lock()
    is_over = is_late = False

    def give_up() -> None:
        nonlocal is_late
        with lock:
            if is_over:
                return
            # First, because whoever waits is told by the cut, and then looks whose it was.
            is_late = True
        shut_down(connection)

    timer = threading.Timer(answer_ms / 1_000, give_up)
    timer.daemon = True
    timer.start()
    problem: psycopg.OperationalError | None = None
    try:
        yield
    except psycopg.OperationalError as error:
        problem = error
    finally:
        timer.cancel()
        with lock:
            is_over = True
    if is_late:
        # Even if the answer came at the last moment: the connection is cut, and nobody else would be told why.
        raise DatabaseError(f"the database did not answer within {answer_ms} ms") from problem
    if problem is not None:
        raise problem


def shut_down(connection: Connection) -> None:
    """Cut a connection, from any thread: whoever waits for an answer on it gets an error."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def reason_of(error: psycopg.Error) -> str:
    """What the database or the driver says is wrong, on one line."""
    said = error.diag.message_primary or str(error) or type(error).__name__
    return "; ".join(line.strip() for line in said.splitlines() if line.strip())


def shown_url(url: str) -> str:
    """The url for people: without a password, and without parameters, which may have one, too.

    Not by a parser of urls, which may take a part of a password for something else.
    """
    scheme, separator, rest = url.partition("://")
    user, _, place = rest.rpartition("@")
    user = user.partition(":")[0] + "@" if _PLAIN.fullmatch(user.partition(":")[0]) else ""
    return f"{scheme}{separator}{user}{place.partition('?')[0]}"
