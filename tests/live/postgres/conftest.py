"""Real PostgreSQL servers for the tests of this folder; skipped, and said so, where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from live.postgres.opening import Opener
from penstock.lab.databases import DatabaseServer, database_folder, missing_reason, synchronous_pair

_MISSING = missing_reason()


def _needed() -> None:
    if _MISSING:
        pytest.skip(_MISSING)


@pytest.fixture(scope="session")
def server() -> Iterator[DatabaseServer]:
    """One server without a standby, which all tests share: each has an overlay of its own."""
    _needed()
    with database_folder() as folder, DatabaseServer(folder / "db") as server:
        yield server.make().start()


@pytest.fixture
def pair() -> Iterator[list[DatabaseServer]]:
    """A primary and its synchronous standby, which a test may kill."""
    _needed()
    with database_folder() as folder, synchronous_pair(folder) as pair:
        yield pair


@pytest.fixture
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens stores in an overlay of this test's own."""
    with ExitStack() as stack:
        yield Opener(request.node.name, stack)
