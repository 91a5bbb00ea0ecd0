"""Real servers, made and ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.lab.databases import (
    DatabaseServer,
    DatabaseServerError,
    database_folder,
    missing_reason,
    newest_binaries,
    pair_up,
    synchronous_pair,
)

needed = pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "there is one")


def test_the_newest_version_is_used(tmp_path: Path) -> None:
    for version in ("9", "15", "x"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin/postgres").touch()
    assert newest_binaries(tmp_path) == tmp_path / "15/bin"
    assert newest_binaries(tmp_path / "15", "no_such_package") is None


def test_without_a_server_of_the_system_that_of_a_package_is_used(tmp_path: Path) -> None:
    bundled = newest_binaries(tmp_path)
    assert bundled is not None
    assert (bundled / "initdb").exists()


@needed
def test_a_promoted_standby_has_what_its_primary_had_acknowledged() -> None:
    with database_folder() as folder, synchronous_pair(folder) as (primary, standby):
        primary.execute("CREATE TABLE t AS SELECT 7 AS n")
        primary.kill()
        assert not primary.is_running
        standby.promote()
        assert standby.execute("SELECT n FROM t") == "7"


@needed
def test_a_killed_primary_comes_back_as_a_standby_and_the_next_death_is_survived() -> None:
    with database_folder() as folder, synchronous_pair(folder) as (first, second):
        first.execute("CREATE TABLE t (n int)")
        first.kill()
        second.promote()
        second.execute("INSERT INTO t VALUES (1)")
        pair_up(second, first.clear())
        second.execute("INSERT INTO t VALUES (2)")
        second.kill()
        first.promote()
        assert first.execute("SELECT sum(n) FROM t") == "3"


@needed
def test_nothing_is_left_of_a_killed_server() -> None:
    with database_folder() as folder, DatabaseServer(folder / "db") as server:
        server.make().start()
        pid = server.pid
        server.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@needed
def test_what_a_server_refuses_is_said() -> None:
    with (
        database_folder() as folder,
        DatabaseServer(folder / "db", settings={"shared_buffers": "x"}) as server,
        pytest.raises(DatabaseServerError, match=r'has ended: .*"shared_buffers"'),
    ):
        server.make().start()
