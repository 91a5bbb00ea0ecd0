from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bench.live_driver import DriverError
from bench.live_load import STAMP
from bench.peers.message import PeerMessage
from bench.peers.peer import Service
from bench.peers.postgres import (
    Postgres,
    PostgresRing,
    RowPublisher,
    ends_transaction,
    insert_head,
    messages_in,
    newest_binaries,
)

MESSAGE = PeerMessage("t", {"a": "x"}, b"packed")
NS = 0x0102030405060708
_NAMELESS = b"\0\0"
_TEXT_AND_BINARY = b"\0\2\0\0\0\1"
_VALUES = b"\0\2\0\0\0\1t\0\0\0\x0epacked" + STAMP.pack(NS)
_BIND = b"B\0\0\0\x27" + _NAMELESS + _TEXT_AND_BINARY + _VALUES + b"\0\0"
_EXECUTE = b"E\0\0\0\x09\0\0\0\0\0"
INSERT = _BIND + _EXECUTE
SYNC = b"S\0\0\0\4"
INSERTED = b"2\0\0\0\4" + b"C\0\0\0\x0fINSERT 0 1\0"
READY = b"Z\0\0\0\5I"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def ring() -> PostgresRing:
    made = Postgres().ring([MESSAGE] * 3, Service.DURABLE)
    assert isinstance(made, PostgresRing)
    return made


def test_an_insert_is_a_bind_with_topic_and_message_and_an_execute() -> None:
    assert insert_head(MESSAGE) == INSERT[: INSERT.index(STAMP.pack(NS))]
    assert ring().frame(1, 0, 2, NS) == INSERT * 2


def test_a_message_on_its_own_is_a_transaction() -> None:
    assert ring().frame(1, 0, 1, NS) == INSERT + SYNC


@pytest.mark.parametrize("batch", [1, 3, 64, 512, 600])
def test_a_pipeline_commits_at_least_every_512_messages_and_a_batch(batch: int) -> None:
    open_messages = 0
    for first in range(1, 5_000, batch):
        open_messages += batch
        if ends_transaction(first, batch):
            open_messages = 0
        assert open_messages < 512 + batch


def test_messages_are_acknowledged_by_the_commit_and_not_by_the_insert(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    publisher = RowPublisher(ends[0])
    window_bytes = publisher.credit
    publisher.send(ring(), 0, 2)
    publisher.on_data(INSERTED * 2)
    assert (publisher.acknowledged, publisher.credit < window_bytes) == (0, True)
    publisher.on_data(READY)
    assert (publisher.acknowledged, publisher.credit) == (2, window_bytes)


def test_answers_are_counted_when_they_arrive_byte_by_byte(ends: tuple[socket.socket, socket.socket]) -> None:
    publisher = RowPublisher(ends[0])
    publisher.send(ring(), 0, 3)
    for byte in INSERTED * 3 + READY:
        publisher.on_data(bytes([byte]))
    assert publisher.acknowledged == 3


def test_a_commit_is_asked_for_only_within_a_transaction(ends: tuple[socket.socket, socket.socket]) -> None:
    publisher = RowPublisher(ends[0])
    publisher.send(ring(), 0, 1)
    publisher.ask()
    assert ends[1].recv(1_000).endswith(_EXECUTE + SYNC)
    publisher.send(ring(), 0, 2)
    publisher.ask()
    publisher.ask()
    assert ends[1].recv(1_000).endswith(_EXECUTE + SYNC)


def test_an_error_of_the_server_ends_the_run(ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(DriverError, match="disk full"):
        RowPublisher(ends[0]).on_data(b"E\0\0\0\x0ddisk full")


def test_a_message_that_is_not_whole_is_left_over() -> None:
    assert messages_in(READY + INSERTED[:7]) == ([(b"Z", b"I"), (b"2", b"")], INSERTED[5:7])


def test_the_newest_version_is_taken(tmp_path: Path) -> None:
    assert newest_binaries(tmp_path) is None
    for version in ("9", "15", "other"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "postgres").touch()
    assert newest_binaries(tmp_path) == tmp_path / "15" / "bin"
