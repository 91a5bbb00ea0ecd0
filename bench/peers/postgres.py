"""PostgreSQL as a durable log of messages, by its own protocol (version 3), in a cluster of its own.

Each message is a row: topic, attributes and payload in one value, as for the brokers without headers, and a number that
grows, as a reader who takes up where it stopped needs one. The statement is prepared once. A transaction is a Bind and
an Execute for each message, then a Sync, which commits. Messages that are sent one at a time have a transaction each;
in a pipeline, 512 share one, since PostgreSQL does not group the commits of one connection, and is slower with
transactions of the 64 messages that the driver sends together. A message counts as acknowledged when PostgreSQL says
after the Sync that the transaction has ended, and not when its row was inserted. Clients with a pipeline mode, such as
psycopg 3, send the same.

All settings are PostgreSQL's defaults. Those that make a commit durable are asked for before anything is measured.
There is no subscriber: PostgreSQL would have to be polled, or told to notify, which is another workload.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam
from struct import Struct
from typing import Final

from bench.live_driver import Dialect, DriverError
from bench.live_load import STAMP, Ring
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.message import PeerMessage, PeerRing
from bench.peers.peer import Peer, Service
from bench.peers.server import Server, as_broker, running
from penstock.lab.demo_overlay import free_ports

__all__ = [
    "Postgres",
    "PostgresRing",
    "RowPublisher",
    "ends_transaction",
    "insert_head",
    "messages_in",
    "newest_binaries",
]

_INSTALLED: Final = Path("/usr/lib/postgresql")
_ACCOUNT: Final = "postgres"
"""Who runs the server if we are root, as whom it refuses to run; the Debian package makes this account."""
_USER: Final = "bench"
_PROTOCOL: Final = 0x0003_0000
_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""The same as the credit that a broker of Penstock grants."""
_TRANSACTION_MESSAGES: Final = 512
_START_S_MAX: Final = 60.0
_POLL_S: Final = 0.05
_STARTING_UP: Final = "57P03"
"""The code with which a server refuses a connection while it starts."""

_HEAD: Final = Struct(">cI")
_LENGTH: Final = Struct(">I")
_COMMAND_DONE: Final = b"C"
_DATA: Final = b"D"
_ERROR: Final = b"E"
_READY: Final = b"Z"

_TABLE: Final = (
    "CREATE TABLE messages (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL,"
    " message bytea NOT NULL)"
)
_INSERT: Final = "INSERT INTO messages (topic, message) VALUES ($1, $2)"
_MUST_BE_ON: Final = ("fsync", "synchronous_commit", "full_page_writes")


class Postgres(Peer):
    """PostgreSQL."""

    name = "PostgreSQL"
    package = "postgresql"
    program = "postgres"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Make a cluster in the folder, and run its server."""
        (port,) = free_ports(1)
        binaries = newest_binaries(_INSTALLED)
        assert binaries is not None, "a peer that is missing is not started"
        user = _ACCOUNT if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(folder, user)
        cluster = folder / "cluster"
        _make_cluster(binaries, cluster, user)
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(binaries / "postgres"), "-D", str(cluster), "-p", str(port), *options]
        with running(command, port=port, folder=folder, user=user) as server:
            yield server

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """The protocol of PostgreSQL; its table keeps every topic."""
        return _Frontend()

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> PeerRing:
        """Encode messages."""
        return PostgresRing([insert_head(each) for each in messages], _INSERT_TAIL)

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        if newest_binaries(_INSTALLED) is None:
            return f"Debian package {self.package} is not installed"
        if os.geteuid() == 0 and not _has_account(_ACCOUNT):
            return f"root cannot run it, and there is no account {_ACCOUNT!r}"
        return ""

    def version(self) -> str:
        """The version of the server: that of the package is the version of its packaging."""
        binaries = newest_binaries(_INSTALLED)
        if binaries is None:
            return ""
        told = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
        return told.partition(")")[2].split()[0] if ")" in told else ""


class PostgresRing(PeerRing):
    """Inserts with a Sync at the end of each transaction."""

    def frame(self, first: int, place: int, count: int, stamp_ns: int, identity: bytes = b"") -> bytes:
        """A batch, and a Sync if it ends a transaction."""
        inserts = super().frame(first, place, count, stamp_ns)
        return inserts + _SYNC if ends_transaction(first, count) else inserts


class RowPublisher(PeerPublisher):
    """A publisher whose messages are acknowledged by commits, and who waits when its window is full."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, credit=_WINDOW_BYTES)
        self._is_in_transaction = False
        self._inserted = 0
        self._committed = 0
        self._rest = b""

    @property
    def acknowledged(self) -> int:
        """Messages that are committed."""
        return self._committed

    def send(self, load: Ring, place: int, count: int) -> None:
        """Send a batch."""
        self._is_in_transaction = not ends_transaction(self.sent + 1, count)
        super().send(load, place, count)

    def ask(self) -> None:
        """Commit what is sent, if that has not been asked for."""
        assert self._pending is None, "the last batch is still under way"
        if self._is_in_transaction:
            self._is_in_transaction = False
            self._pending = memoryview(_SYNC)
            self.push()

    def on_data(self, data: bytes) -> None:
        """Count inserts, which a commit acknowledges; the credit of a message is its share of what was sent."""
        found, self._rest = messages_in(self._rest + data)
        waiting = self.sent - self._committed
        for kind, content in found:
            if kind == _ERROR:
                raise DriverError(f"PostgreSQL said {content!r}")
            if kind == _COMMAND_DONE:
                self._inserted += 1
            elif kind == _READY:
                self._committed = self._inserted
        if waiting:
            committed = waiting - (self.sent - self._committed)
            self.credit += (_WINDOW_BYTES - self.credit) * committed // waiting


class _Frontend:
    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        raise DriverError("PostgreSQL has no subscribers")

    def publisher(self, port: int, name: str) -> RowPublisher:
        connection = _logged_in(port)
        for setting in _MUST_BE_ON:
            _check_on(setting, exchange(connection, _query(f"SHOW {setting}"), _is_ready))
        exchange(connection, _query(_TABLE), _is_ready)
        exchange(connection, _message(b"P", b"\0" + _INSERT.encode() + b"\0\0\0") + _SYNC, _is_ready)
        return RowPublisher(connection)


def newest_binaries(installed: Path) -> Path | None:
    """The programs of the newest version in a folder with one subfolder per version; None if there is none."""
    found = [each.parent for each in installed.glob("*/bin/postgres") if each.parent.parent.name.isdecimal()]
    return max(found, key=lambda each: int(each.parent.name), default=None)


def ends_transaction(first: int, count: int) -> bool:
    """Whether a batch is the last one of its transaction; ``first`` is the number of its first message.

    >>> [ends_transaction(first, 64) for first in (385, 449, 513)]
    [False, True, False]
    """
    return count == 1 or (first + count - 1) % _TRANSACTION_MESSAGES < count


def insert_head(message: PeerMessage) -> bytes:
    """A Bind up to the time stamp: the topic as text, the message as bytes."""
    topic = message.topic.encode()
    formats = b"\0\2" + b"\0\0" + b"\0\1"
    values = b"\0\2" + _LENGTH.pack(len(topic)) + topic + _LENGTH.pack(len(message.packed) + STAMP.size)
    # Portal and statement have no names.
    content = b"\0\0" + formats + values + message.packed
    size = _LENGTH.size + len(content) + STAMP.size + len(_NO_RESULT_FORMATS)
    return b"B" + _LENGTH.pack(size) + content


def messages_in(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The whole messages in what a server sent, by kind and content, and the rest.

    >>> messages_in(b"Z" + bytes([0, 0, 0, 5]) + b"I" + b"C")
    ([(b'Z', b'I')], b'C')
    """
    found, place = list[tuple[bytes, bytes]](), 0
    while place + _HEAD.size <= len(data):
        kind, length = _HEAD.unpack_from(data, place)
        following = place + 1 + length
        if following > len(data):
            break
        found.append((kind, data[place + _HEAD.size : following]))
        place = following
    return found, data[place:]


def _make_cluster(binaries: Path, cluster: Path, user: str | None) -> None:
    command = [str(binaries / "initdb"), "-D", str(cluster), "-U", _USER, "--auth=trust", "--encoding=UTF8"]
    command += ["--locale=C", "--no-sync"]
    with as_broker():
        done = subprocess.run(command, cwd=cluster.parent, user=user, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DriverError(f"initdb failed: {done.stderr.strip()}")


def _logged_in(port: int) -> socket.socket:
    """A connection that takes statements; a server listens some time before it lets anybody in."""
    parameters = b"user\0%b\0database\0postgres\0\0" % _USER.encode()
    startup = _LENGTH.pack(8 + len(parameters)) + _LENGTH.pack(_PROTOCOL) + parameters
    deadline_s = time.monotonic() + _START_S_MAX
    while True:
        connection = connected(port)
        try:
            exchange(connection, startup, _is_ready)
        except DriverError as error:
            connection.close()
            if _STARTING_UP not in str(error) or time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)
        else:
            return connection


def _message(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(kind, _LENGTH.size + len(content)) + content


def _query(text: str) -> bytes:
    return _message(b"Q", text.encode() + b"\0")


_NO_RESULT_FORMATS: Final = b"\0\0"
_EXECUTE: Final = _message(b"E", b"\0" + bytes(4))
_INSERT_TAIL: Final = _NO_RESULT_FORMATS + _EXECUTE
"""What follows the time stamp: the end of the Bind, and an Execute without a limit of rows."""
_SYNC: Final = _message(b"S", b"")


def _is_ready(answer: bytes) -> bool:
    found, rest = messages_in(answer)
    for kind, content in found:
        if kind == _ERROR:
            raise DriverError(f"PostgreSQL said {content!r}")
    return not rest and bool(found) and found[-1][0] == _READY


def _check_on(setting: str, answer: bytes) -> None:
    values = [content for kind, content in messages_in(answer)[0] if kind == _DATA]
    if [each.endswith(b"\0\0\0\2on") for each in values] != [True]:
        raise DriverError(f"{setting} of PostgreSQL is not on: {values!r}")


def _has_account(name: str) -> bool:
    try:
        getpwnam(name)
    except KeyError:
        return False
    return True
