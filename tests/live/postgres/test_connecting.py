"""Connecting to the primary among several servers."""

from __future__ import annotations

from threading import Event

import psycopg
import pytest

from penstock.lab.databases import DatabaseServer
from penstock.lab.demo_overlay import free_ports
from penstock.live.postgres import connecting
from penstock.live.postgres.connecting import (
    Connection,
    answer_within,
    check_url,
    connect,
    shown_url,
    shut_down,
    store_application,
    timeline_of,
)
from penstock.live.postgres.errors import DatabaseError, DatabaseUnreachableError


def url_of(*ports: int) -> str:
    return f"postgresql://penstock@{','.join(f'127.0.0.1:{port}' for port in ports)}/postgres"


def test_the_primary_is_found_wherever_it_is_named(pair: list[DatabaseServer]) -> None:
    primary, standby = pair
    (closed,) = free_ports(1)
    for ports in ((primary.port, standby.port, closed), (closed, standby.port, primary.port)):
        with connect(url_of(*ports), application="test", answer_ms=10_000) as connection:
            assert connection.info.port == primary.port


def test_of_two_primaries_the_one_promoted_last_is_taken(
    pair: list[DatabaseServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the second server may answer long after the first one.
    monkeypatch.setattr(connecting, "_OTHERS_S", 10.0)
    primary, standby = pair
    standby.promote()
    for ports in ((primary.port, standby.port), (standby.port, primary.port)):
        with connect(url_of(*ports), application="test", answer_ms=10_000) as connection:
            assert connection.info.port == standby.port
            assert timeline_of(connection) == 2


def test_every_server_that_is_none_is_named_with_the_reason(pair: list[DatabaseServer]) -> None:
    primary, standby = pair
    primary.kill()
    with pytest.raises(DatabaseUnreachableError) as caught:
        connect(url_of(primary.port, standby.port), application="test", answer_ms=10_000)
    said = str(caught.value)
    assert f"no server among 127.0.0.1:{primary.port}, 127.0.0.1:{standby.port} is a primary" in said
    assert f"127.0.0.1:{primary.port}: " in said
    assert "Connection refused" in said
    assert "read-only" in said


def test_what_is_no_url_is_said(server: DatabaseServer) -> None:
    del server
    with pytest.raises(DatabaseUnreachableError, match=r"postgresql://db1/x is not a url of PostgreSQL: .*sslmood"):
        connect("postgresql://db1/x?sslmood=require", application="test", answer_ms=1_000)


def test_no_password_is_shown() -> None:
    url = "postgresql://penstock:secret@db1:5433,db2/quotes?password=secret"
    assert shown_url(url) == "postgresql://penstock@db1:5433,db2/quotes"
    assert shown_url("postgresql://db1/quotes") == "postgresql://db1/quotes"


@pytest.mark.parametrize(
    "secret", ["sec?ret", "sec#ret", "sec/ret", "sec@ret", "sec%zzret", "sec ret", "sec[ret", "sec:ret"]
)
def test_no_part_of_an_odd_password_is_shown(secret: str) -> None:
    url = f"postgresql://penstock:{secret}@db1/quotes"
    assert shown_url(url) == "postgresql://penstock@db1/quotes"
    with pytest.raises(DatabaseUnreachableError) as caught:
        connect(url, application="test", answer_ms=200)
    assert "sec" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql://db1:54x2/q", "is not a url|has a port that is none"),
        ("postgresql://db1:99999/q", "has a port that is none"),
        ("postgresql://db1:1,db2:2,db3/q?port=1,2", "another number of ports|is not a url|has a port"),
        ("postgresql://db1/q?sslmood=require", "sslmood"),
    ],
)
def test_a_url_can_be_checked(url: str, complaint: str) -> None:
    with pytest.raises(DatabaseUnreachableError, match=complaint):
        check_url(url)
    check_url("postgresql://penstock:x@db1:5433,db2/quotes?sslmode=require")


def test_long_names_are_cut_where_a_server_cuts_them() -> None:
    assert store_application("o", "quotes.home") == "penstock store o quotes.home"
    assert store_application("ö" * 50, "quotes.home") == "penstock store " + "ö" * 24


def test_whose_connection_it_is_no_url_can_change(server: DatabaseServer) -> None:
    url = f"{server.url}?application_name=other"
    with connect(url, application="penstock store o b1", answer_ms=10_000) as connection:
        assert connection.execute("SHOW application_name").fetchone() == ("penstock store o b1",)


def test_who_was_cut_off_for_lateness_is_told_so_even_before_the_timer_has_ended(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_seen = Event()

    def cut_and_linger(connection: Connection) -> None:
        shut_down(connection)
        has_seen.wait(10)

    monkeypatch.setattr(connecting, "shut_down", cut_and_linger)
    with connect(server.url, application="a test", answer_ms=10_000) as connection:
        with pytest.raises(DatabaseError, match="did not answer within 100 ms"), answer_within(connection, 100):
            connection.execute("SELECT pg_sleep(60)")
        has_seen.set()


def test_an_answer_at_the_last_moment_does_not_count_once_the_connection_is_cut(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_cut = Event()

    def cut(connection: Connection) -> None:
        shut_down(connection)
        is_cut.set()

    monkeypatch.setattr(connecting, "shut_down", cut)
    with connect(server.url, application="a test", answer_ms=10_000) as connection:
        with pytest.raises(DatabaseError, match="did not answer within 1 ms"), answer_within(connection, 1):
            # As if the answer had just come.
            is_cut.wait()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
