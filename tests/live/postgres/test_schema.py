"""The tables in a database."""

from __future__ import annotations

from threading import Thread

import pytest

from penstock.lab.databases import DatabaseServer
from penstock.live.postgres.connecting import connect
from penstock.live.postgres.schema import make_schema
from penstock.live.store.errors import StoreRefusedError, StoreVersionError


@pytest.fixture
def url_without_tables(server: DatabaseServer, request: pytest.FixtureRequest) -> str:
    """A database of its own."""
    name = request.node.name[:60].lower()
    server.execute(f"CREATE DATABASE {name}")
    return server.url.replace("/postgres", f"/{name}")


def test_several_may_make_the_tables_at_once(url_without_tables: str) -> None:
    problems: list[Exception] = []

    def make() -> None:
        try:
            with connect(url_without_tables, application="test", answer_ms=10_000) as connection:
                make_schema(connection)
        except Exception as error:  # noqa: BLE001 - raised in the thread of the test
            problems.append(error)

    threads = [Thread(target=make) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []


def test_tables_of_another_format_are_refused(url_without_tables: str) -> None:
    with connect(url_without_tables, application="test", answer_ms=10_000) as connection:
        make_schema(connection)
        connection.execute("UPDATE penstock.format SET version = 99")
        with pytest.raises(StoreVersionError, match="are of format 99; this version reads 1"):
            make_schema(connection)


def test_who_may_not_make_tables_is_told(server: DatabaseServer, url_without_tables: str) -> None:
    server.execute("DROP ROLE IF EXISTS guest")
    server.execute("CREATE ROLE guest LOGIN")
    url = url_without_tables.replace("penstock@", "guest@")
    with (
        connect(url, application="test", answer_ms=10_000) as connection,
        pytest.raises(StoreRefusedError, match="the tables of penstock cannot be made: permission denied for database"),
    ):
        make_schema(connection)
